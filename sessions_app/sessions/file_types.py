"""Detect a file's type from its bytes and clean its name. Pure. The sender's claim and the name are not trusted."""

import re
import unicodedata

# Images that browsers show and models accept. SVG is excluded because it can contain scripts.
IMAGE_EXTENSIONS = {
    "image/png": (".png",),
    "image/jpeg": (".jpg", ".jpeg"),
    "image/gif": (".gif",),
    "image/webp": (".webp",),
}
MAX_NAME_LENGTH = 120  # bytes; file systems allow 255, and duplicate names get a suffix
_MIME = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,40}/[a-z0-9][a-z0-9!#$&^_.+-]{0,57}")
# Not allowed in file names on some systems, or special in a shell or prompt.
_UNSAFE_CHARACTERS = re.compile(r"""[<>:"|?*`$;&{}\[\]\x27]""")


def detect_image_type(head: bytes) -> str:
    """Return the image type the first bytes indicate (16 are enough), or an empty string."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return ""


def declared_image_type(name: str, mime_type: str) -> str:
    """Return the image type claimed by name or sender, if we would show it."""
    if (declared := mime_type.partition(";")[0].strip().lower()) in IMAGE_EXTENSIONS:
        return declared
    lower = name.lower()
    return next((kind for kind, endings in IMAGE_EXTENSIONS.items() if lower.endswith(endings)), "")


def clean_mime_type(mime_type: str) -> str:
    """Return the sender's type for a file that isn't an image: displayed, never acted on."""
    declared = mime_type.partition(";")[0].strip().lower()
    return declared if _MIME.fullmatch(declared) and declared not in IMAGE_EXTENSIONS else "application/octet-stream"


def clean_file_name(given: str) -> str:
    """Return a bare file name: no path, no invisible or text-reversing characters, no leading dot or dash."""
    name = re.split(r"[/\\]", unicodedata.normalize("NFC", given))[-1]
    name = "".join(sign for sign in name if unicodedata.category(sign)[0] not in "CZ" or sign == " ")
    name = " ".join(_UNSAFE_CHARACTERS.sub("_", name).split()).lstrip(".-~ ").rstrip(". ")
    stem, dot, ending = name.rpartition(".")
    if not dot or len(ending.encode()) > 16:
        stem, dot, ending = name, "", ""
    room = MAX_NAME_LENGTH - len((dot + ending).encode())
    stem = stem.encode()[:room].decode(errors="ignore").rstrip()
    return (stem + dot + ending) or "file"


def decode_text(content: bytes) -> str | None:
    """Return the text of a file; None if it isn't UTF-8 text."""
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def format_size(size: int) -> str:
    for unit in ("bytes", "KB", "MB"):
        if size < 1024 or unit == "MB":
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size = size / 1024  # type: ignore[assignment]  # now a float, for display only
    raise AssertionError
