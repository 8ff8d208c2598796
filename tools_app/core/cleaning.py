"""What a tool returned, as the model and the transcript may have it: cleaned, without the host's secrets, cut to size. Pure.

Of a long text the beginning and the end are kept: files and lists say most at their head, commands at their tail.
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

# CSI, OSC and its kin up to their end, and two-character escapes; 8-bit forms too. A broken one loses only its first character.
ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
SURROGATE = re.compile(r"[\ud800-\udfff]")  # from file names that are not UTF-8; no database stores one

HEAD_SHARE = 0.7
EDGE_CHARACTERS = 4096  # characters: longer than any secret that a first, rough cut may have parted
MAX_IMAGE_BYTES = 5 << 20  # of one image: what the providers take
MAX_IMAGES = 10


@dataclass(frozen=True, slots=True)
class ResultLimits:
    """`text_bytes` of all text of one result together, and as much again of its details."""

    text_bytes: int
    secrets: Sequence[str] = ()


def clean_result(result: ToolResult, limits: ResultLimits) -> ToolResult:
    """The result as it may go on; whatever was left out is said in it."""
    content = tuple(
        TextBlock(_clean_and_cut(block.text, limits)) if isinstance(block, TextBlock) else block
        for block in _limit_images(result.content)
    )
    total = sum(len(block.text.encode(errors="replace")) for block in result.content if isinstance(block, TextBlock))
    details = _clean_all(result.details, limits)
    try:
        size = len(orjson.dumps(details))  # as they will be stored
        if size > limits.text_bytes:
            details = {"cut": f"details of {size} bytes are left out"}
    except TypeError:
        details = {"cut": "details that cannot be stored are left out: they are nested too deeply, or not JSON"}
    return replace(result, content=_cut_middle(content, limits.text_bytes, total), details=details)


def clean_text(text: str) -> str:
    """Line ends as \\n, no terminal escapes, no other control characters than tab, and nothing that UTF-8 cannot hold."""
    if CONTROL.search(text):
        text = CONTROL.sub("", ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))
    return SURROGATE.sub("\ufffd", text)


def _clean_and_cut(text: str, limits: ResultLimits) -> str:
    """Cleaning megabytes that are cut anyway would hold up every other run, so most of them go first."""
    room = limits.text_bytes + 2 * EDGE_CHARACTERS
    if len(text) <= 2 * room:
        return remove_secrets(clean_text(text), limits.secrets)
    # The words at the rough edges may be halves of a secret, which nothing would know again.
    head = remove_secrets(clean_text(text[:room]), limits.secrets)
    tail = remove_secrets(clean_text(text[-room:]), limits.secrets)
    head = head[: max(head.rfind(" "), head.rfind("\n"), len(head) - EDGE_CHARACTERS, 0)]
    tail = tail[min(place for place in (tail.find(" "), tail.find("\n"), EDGE_CHARACTERS, len(tail)) if place >= 0) :]
    return f"{head}\n[cut: {len(text) - 2 * room} of {len(text)} characters are left out here]\n{tail}"


def _clean_all(value: Any, limits: ResultLimits) -> Any:
    if isinstance(value, str):
        return _clean_and_cut(value, limits)
    if isinstance(value, dict):
        return {clean_text(str(key)): _clean_all(each, limits) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean_all(each, limits) for each in value]
    if isinstance(value, int) and value.bit_length() > 63:
        return str(value)  # no database and few programs hold it as a number
    return value


def _cut_middle(content: tuple[TextBlock | ImageBlock, ...], limit: int, total: int) -> tuple[TextBlock | ImageBlock, ...]:
    """Cut the middle out of all text together, wherever it lies. `total` is how many bytes there were at first."""
    size = sum(len(block.text.encode()) for block in content if isinstance(block, TextBlock))
    if size <= limit:
        return content
    head = int(limit * HEAD_SHARE)
    tail_from = size - (limit - head)
    note = f"\n[cut: of {max(total, size)} bytes the first {head} and the last {limit - head} are shown]\n"
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
            note = ""  # once; a block that lies in the gap as a whole is left out
        begin = end
    return tuple(kept)


def _detect_image_type(data: str) -> str:
    """What an image is by its bytes, whatever its sender called it; empty: no image that a model could look at."""
    try:
        return detect_image_type(base64.b64decode(data, validate=True)[:16])
    except ValueError:
        return ""


def _limit_images(content: tuple[TextBlock | ImageBlock, ...]) -> tuple[TextBlock | ImageBlock, ...]:
    """Images as they are, as long as they are few and not too large; a cut one would be no image."""
    kept: list[TextBlock | ImageBlock] = []
    images = 0
    for block in content:
        if isinstance(block, ImageBlock):
            images += 1
            if images > MAX_IMAGES:
                block = TextBlock(f"[an image is left out: a result has at most {MAX_IMAGES}]")
            elif (size := len(block.data) * 3 // 4) > MAX_IMAGE_BYTES + 2:
                block = TextBlock(f"[an image of {size} bytes is left out: at most {MAX_IMAGE_BYTES} can be shown]")
            elif kind := _detect_image_type(block.data):
                block = replace(block, mime_type=kind)
            else:
                block = TextBlock("[an image is left out: it is not a PNG, JPEG, GIF or WebP in base64]")
        kept.append(block)
    return tuple(kept)
