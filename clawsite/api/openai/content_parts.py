"""Parse the content of a message in OpenAI's two formats: text, images and files. Files must be inline; URLs are not fetched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clawsite.api.openai.errors import RequestRejected
from clawsite.routing.attachments import InlineFile

MAX_IMAGES = 8  # per request
# Types of parts. Tuples, not sets, because client input may be unhashable.
TEXT_TYPES = ("text", "input_text", "output_text", "refusal")
IMAGE_TYPES = ("image_url", "input_image")
FILE_TYPES = ("file", "input_file")


@dataclass(frozen=True, slots=True)
class MessageContent:
    text: str = ""
    files: tuple[InlineFile, ...] = ()


def parse_content(content: Any, where: str) -> MessageContent:
    """Parse the `content` of a message: null, text, or a list of parts."""
    if content is None:
        return MessageContent()
    if isinstance(content, str):
        return MessageContent(content)
    if not isinstance(content, list):
        raise RequestRejected(f"{where}: must be a string or a list of parts", param=where, code="invalid_type")
    texts: list[str] = []
    files: list[InlineFile] = []
    for number, part in enumerate(content):
        param = f"{where}[{number}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in TEXT_TYPES:
            texts.append(_parse_text(part.get("text") if kind != "refusal" else part.get("refusal"), param))
        elif kind in IMAGE_TYPES:
            files.append(_parse_image(part, number, param))
        elif kind in FILE_TYPES:
            files.append(_parse_file(part, param))
        else:
            raise RequestRejected(
                f"{param}: parts of type {kind!r} are not supported", param=f"{param}.type", code="unsupported_content"
            )
    return MessageContent("\n".join(texts), tuple(files))


def check_image_count(contents: Sequence[MessageContent], where: str) -> None:
    count = sum(file.mime_type.startswith("image/") for content in contents for file in content.files)
    if count > MAX_IMAGES:
        raise RequestRejected(f"{where}: {count} images exceed the limit of {MAX_IMAGES}", param=where, code="too_many_images")


def _parse_text(text: Any, where: str) -> str:
    if not isinstance(text, str):
        raise RequestRejected(f"{where}.text: must be a string", param=f"{where}.text", code="invalid_type")
    return text


def _parse_image(part: Mapping[str, Any], number: int, where: str) -> InlineFile:
    """Chat completions use {image_url: {url}}, responses {image_url: "…"}, OpenClaw's clients {source: {…}}."""
    if source := part.get("source"):
        return _parse_source(source, f"image-{number + 1}", f"{where}.source")
    image_url = part.get("image_url")
    url = image_url.get("url") if isinstance(image_url, dict) else image_url
    return _parse_data_url(url, f"image-{number + 1}", f"{where}.image_url")


def _parse_file(part: Mapping[str, Any], where: str) -> InlineFile:
    inner = part.get("file") if isinstance(part.get("file"), dict) else part
    name = inner.get("filename") or "file"  # type: ignore[union-attr]  # always a dict, see above
    if not isinstance(name, str) or len(name) > 1000:
        raise RequestRejected(
            f"{where}.filename: must be text of at most 1000 characters", param=f"{where}.filename", code="invalid_value"
        )
    if source := part.get("source"):
        return _parse_source(source, name, f"{where}.source")
    data = inner.get("file_data")  # type: ignore[union-attr]  # likewise
    if not isinstance(data, str) or not data:
        raise RequestRejected(f"{where}: send the content as file_data; file IDs and URLs are not supported", param=where)
    return _parse_data_url(data, name, where) if data.startswith(("data:", "http:", "https:")) else InlineFile(name, "", data)


def _parse_source(source: Any, name: str, where: str) -> InlineFile:
    if not isinstance(source, dict) or source.get("type") != "base64" or not isinstance(source.get("data"), str):
        raise RequestRejected(f"{where}: send {{type: base64, media_type, data}}; URLs are not fetched", param=where)
    filename = source.get("filename")
    name = filename if isinstance(filename, str) and filename else name
    return InlineFile(name, str(source.get("media_type") or ""), source["data"])


def _parse_data_url(url: Any, name: str, where: str) -> InlineFile:
    if not isinstance(url, str) or not url.startswith("data:"):
        raise RequestRejected(
            f"{where}: URLs are not fetched; send the content as data:<type>;base64,…",
            param=where,
            code="invalid_image_url",
        )
    head, comma, content = url.partition(",")
    if not comma or not head.endswith(";base64"):
        raise RequestRejected(f"{where}: must be data:<type>;base64,…", param=where, code="invalid_image_url")
    return InlineFile(name, head.removeprefix("data:").partition(";")[0].lower(), content)
