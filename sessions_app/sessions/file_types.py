"""What a file is by its bytes, and what it may be called. Pure: neither the sender's word nor the name decides."""

import re
import unicodedata

# The images a browser shows and models take. SVG is not among them: it is a program.
IMAGE_EXTENSIONS = {
    "image/png": (".png",),
    "image/jpeg": (".jpg", ".jpeg"),
    "image/gif": (".gif",),
    "image/webp": (".webp",),
}
MAX_NAME_LENGTH = 120  # bytes; file systems take 255, and names get a suffix where two are the same
_MIME = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,40}/[a-z0-9][a-z0-9!#$&^_.+-]{0,57}")
# Not in file names of some system, or with a meaning in a shell or a prompt.
_UNSAFE_CHARACTERS = re.compile(r"""[<>:"|?*`$;&{}\[\]\x27]""")


def detect_image_type(head: bytes) -> str:
    """The type of image that the first bytes (16 are enough) announce, or nothing."""
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
    """The type of image that name or sender promise, if it is one we would show."""
    if (said := mime_type.partition(";")[0].strip().lower()) in IMAGE_EXTENSIONS:
        return said
    lower = name.lower()
    return next((kind for kind, endings in IMAGE_EXTENSIONS.items() if lower.endswith(endings)), "")


def clean_mime_type(mime_type: str) -> str:
    """The sender's word for a file that is no image: told, never acted on."""
    said = mime_type.partition(";")[0].strip().lower()
    return said if _MIME.fullmatch(said) and said not in IMAGE_EXTENSIONS else "application/octet-stream"


def clean_file_name(given: str) -> str:
    """A name that is only a name: no path, no signs that are unseen or turn text around, no leading dot or dash."""
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
    """The words of a text file; None for anything that is not UTF-8 text."""
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
        size = size / 1024  # type: ignore[assignment]  # a fraction from here on, which is only shown
    raise AssertionError
