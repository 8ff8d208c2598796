"""Shapes a tool's result often has, made from values: JSON and images. Plain text is `definition.text_result`. Pure."""

import base64
import io
import json
from typing import Any

from sessions_app.sessions.file_types import detect_image_type, format_size
from tools_app.core.cleaning import MAX_IMAGE_BYTES
from tools_app.core.definition import ImageBlock, TextBlock, ToolFailed, ToolResult, text_result

MAX_IMAGE_SIDE = 8000  # pixels; Anthropic takes no more


def json_result(value: dict[str, Any], *, is_error: bool = False) -> ToolResult:
    """One JSON object, as text for the model and as details for everybody else. What JSON does not know becomes its text."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text_result(text, details=json.loads(text), is_error=is_error)


def image_result(data: str, *, name: str = "image", words: str = "", details: dict[str, Any] | None = None) -> ToolResult:
    """An image that came as base64; what it is, its bytes say, whatever its sender called it."""
    try:
        return image_result_from_bytes(base64.b64decode(data, validate=True), name=name, words=words, details=details)
    except ValueError:  # letters beyond ASCII are no binascii.Error
        raise ToolFailed(f"`{name}` is not valid base64") from None


def image_result_from_bytes(
    content: bytes, *, name: str = "image", words: str = "", details: dict[str, Any] | None = None
) -> ToolResult:
    """PNG, JPEG, GIF or WebP for the model to look at. Anything else, and what is too large, is a failure in words."""
    kind = detect_image_type(content[:16])
    if not kind:
        raise ToolFailed(f"`{name}` is not a PNG, JPEG, GIF or WebP image; no other kind can be looked at")
    if len(content) > MAX_IMAGE_BYTES:
        raise ToolFailed(f"`{name}` has {format_size(len(content))}; an image may have {format_size(MAX_IMAGE_BYTES)} at most")
    width, height = _read_dimensions(content)
    if min(width, height) < 1:
        raise ToolFailed(f"`{name}` is damaged: its width and height cannot be read")
    if max(width, height) > MAX_IMAGE_SIDE:
        raise ToolFailed(f"`{name}` has {width} x {height} pixels; at most {MAX_IMAGE_SIDE} on either side can be looked at")
    said = words or f"{name}: {kind}, {width} x {height} pixels, {format_size(len(content))}"
    facts = {"mimeType": kind, "width": width, "height": height, "bytes": len(content)}
    block = ImageBlock(base64.b64encode(content).decode(), kind, name)
    return ToolResult((TextBlock(said), block), facts | (details or {}))


def _read_dimensions(content: bytes) -> tuple[int, int]:
    import imagesize  # here: 0.1 s to import, and few runs need it

    width, height = imagesize.get(io.BytesIO(content))
    return int(width), int(height)
