"""Clean tool results for the model and the transcript: remove control characters and host secrets, limit the size. Pure.

A long text keeps its beginning and end: files and lists matter most at the start, command output at the end.
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from clawsite.infra.observability.redact import remove_secrets
from sessions_app.sessions.file_types import detect_image_type
from tools_app.core.definition import ImageBlock, TextBlock, ToolResult

# CSI sequences, OSC and similar sequences up to their terminator, and two-character escapes, including 8-bit forms. A malformed
# sequence loses only its first character.
ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
SURROGATE = re.compile(r"[\ud800-\udfff]")  # from file names that are not UTF-8; databases reject them

HEAD_SHARE = 0.7
EDGE_CHARACTERS = 4096  # characters; longer than any secret that the first rough cut may split
MAX_IMAGE_BYTES = 5 << 20  # per image: the providers' limit
MAX_IMAGES = 10


@dataclass(frozen=True, slots=True)
class ResultLimits:
    """`text_bytes` limits all text of a result combined, and separately its details."""

    text_bytes: int
    secrets: Sequence[str] = ()


def clean_result(result: ToolResult, limits: ResultLimits) -> ToolResult:
    """Return the result, cleaned and limited in size; notes in it say what was left out."""
    content = tuple(
        TextBlock(_clean_and_cut(block.text, limits)) if isinstance(block, TextBlock) else block
        for block in _limit_images(result.content)
    )
    total = sum(len(block.text.encode(errors="replace")) for block in result.content if isinstance(block, TextBlock))
    details = _clean_all(result.details, limits)
    try:
        size = len(orjson.dumps(details))  # as it will be stored
        if size > limits.text_bytes:
            details = {"cut": f"details left out: {size} bytes"}
    except TypeError:
        details = {"cut": "details left out: nested too deeply or not JSON"}
    return replace(result, content=_cut_middle(content, limits.text_bytes, total), details=details)


def clean_text(text: str) -> str:
    """Normalize line endings; remove terminal escapes, control characters except tab, and characters that UTF-8 can't encode."""
    if CONTROL.search(text):
        text = CONTROL.sub("", ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))
    return SURROGATE.sub("\ufffd", text)


def _clean_and_cut(text: str, limits: ResultLimits) -> str:
    """Cut long text roughly before cleaning: cleaning megabytes that are cut anyway would block every other run."""
    room = limits.text_bytes + 2 * EDGE_CHARACTERS
    if len(text) <= 2 * room:
        return remove_secrets(clean_text(text), limits.secrets)
    # The text at the rough edges may be half a secret, which the filter can't recognize.
    head = remove_secrets(clean_text(text[:room]), limits.secrets)
    tail = remove_secrets(clean_text(text[-room:]), limits.secrets)
    head = head[: max(head.rfind(" "), head.rfind("\n"), len(head) - EDGE_CHARACTERS, 0)]
    tail = tail[min(index for index in (tail.find(" "), tail.find("\n"), EDGE_CHARACTERS, len(tail)) if index >= 0) :]
    return f"{head}\n[cut: {len(text) - 2 * room} of {len(text)} characters left out]\n{tail}"


def _clean_all(value: Any, limits: ResultLimits) -> Any:
    if isinstance(value, str):
        return _clean_and_cut(value, limits)
    if isinstance(value, dict):
        return {clean_text(str(key)): _clean_all(each, limits) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean_all(each, limits) for each in value]
    if isinstance(value, int) and value.bit_length() > 63:
        return str(value)  # databases and most programs can't store it as a number
    return value


def _cut_middle(content: tuple[TextBlock | ImageBlock, ...], limit: int, total: int) -> tuple[TextBlock | ImageBlock, ...]:
    """Cut the middle out of the combined text of all blocks. `total` is the original size in bytes."""
    size = sum(len(block.text.encode()) for block in content if isinstance(block, TextBlock))
    if size <= limit:
        return content
    head = int(limit * HEAD_SHARE)
    tail_from = size - (limit - head)
    note = f"\n[cut: showing the first {head} and the last {limit - head} of {max(total, size)} bytes]\n"
    kept: list[TextBlock | ImageBlock] = []
    begin = 0
    for block in content:
        if isinstance(block, ImageBlock):
            kept.append(block)
            continue
        text = block.text.encode()
        end = begin + len(text)
        if end <= head or begin >= tail_from:
            kept.append(block)
        else:
            front = text[: max(0, head - begin)].decode(errors="ignore")
            back = text[max(0, tail_from - begin) :].decode(errors="ignore")
            if shown := front + note + back:
                kept.append(TextBlock(shown))
            note = ""  # only once; a block that is entirely in the gap is dropped
        begin = end
    return tuple(kept)


def _detect_image_type(data: str) -> str:
    """Detect the image type from the bytes, ignoring the declared type. Empty if no model can view it."""
    try:
        return detect_image_type(base64.b64decode(data, validate=True)[:16])
    except ValueError:
        return ""


def _limit_images(content: tuple[TextBlock | ImageBlock, ...]) -> tuple[TextBlock | ImageBlock, ...]:
    """Replace images that exceed the count or size limit, or are unreadable, with a note; a truncated image would be useless."""
    kept: list[TextBlock | ImageBlock] = []
    images = 0
    for block in content:
        if isinstance(block, ImageBlock):
            images += 1
            if images > MAX_IMAGES:
                block = TextBlock(f"[image left out: a result can have at most {MAX_IMAGES}]")
            elif (size := len(block.data) * 3 // 4) > MAX_IMAGE_BYTES + 2:
                block = TextBlock(f"[image of {size} bytes left out: the limit is {MAX_IMAGE_BYTES} bytes]")
            elif kind := _detect_image_type(block.data):
                block = replace(block, mime_type=kind)
            else:
                block = TextBlock("[image left out: not a base64-encoded PNG, JPEG, GIF or WebP]")
        kept.append(block)
    return tuple(kept)
