"""Build common tool results: JSON and images. For plain text use `definition.text_result`. Pure."""

import base64
import io
import json
from typing import Any

from sessions_app.sessions.file_types import detect_image_type, format_size
from tools_app.core.cleaning import MAX_IMAGE_BYTES
from tools_app.core.definition import ImageBlock, TextBlock, ToolFailed, ToolResult, text_result

MAX_IMAGE_SIDE = 8000  # pixels; Anthropic's limit


def json_result(value: dict[str, Any], *, is_error: bool = False) -> ToolResult:
    """Return a JSON object as text for the model and as details for everyone else. Other values are converted with str()."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text_result(text, details=json.loads(text), is_error=is_error)


def image_result(data: str, *, name: str = "image", caption: str = "", details: dict[str, Any] | None = None) -> ToolResult:
    """Return an image given as base64. Its type is detected from the bytes, not taken from the sender."""
    try:
        return image_result_from_bytes(base64.b64decode(data, validate=True), name=name, caption=caption, details=details)
    except ValueError:  # non-ASCII input raises ValueError, not binascii.Error
        raise ToolFailed(f"`{name}` is not valid base64") from None


def image_result_from_bytes(
    content: bytes, *, name: str = "image", caption: str = "", details: dict[str, Any] | None = None
) -> ToolResult:
    """Return a PNG, JPEG, GIF or WebP for the model. Raise ToolFailed for other types and for images that are too large."""
    kind = detect_image_type(content[:16])
    if not kind:
        raise ToolFailed(f"`{name}` is not a PNG, JPEG, GIF or WebP image; other types can't be viewed")
    if len(content) > MAX_IMAGE_BYTES:
        raise ToolFailed(f"`{name}` is {format_size(len(content))}; the image limit is {format_size(MAX_IMAGE_BYTES)}")
    width, height = _read_dimensions(content)
    if min(width, height) < 1:
        raise ToolFailed(f"`{name}` is damaged: can't read its width and height")
    if max(width, height) > MAX_IMAGE_SIDE:
        raise ToolFailed(f"`{name}` is {width} x {height} pixels; the limit is {MAX_IMAGE_SIDE} per side")
    text = caption or f"{name}: {kind}, {width} x {height} pixels, {format_size(len(content))}"
    facts = {"mimeType": kind, "width": width, "height": height, "bytes": len(content)}
    block = ImageBlock(base64.b64encode(content).decode(), kind, name)
    return ToolResult((TextBlock(text), block), facts | (details or {}))


def _read_dimensions(content: bytes) -> tuple[int, int]:
    import imagesize  # imported here: takes 0.1 s, and few runs need it

    width, height = imagesize.get(io.BytesIO(content))
    return int(width), int(height)
