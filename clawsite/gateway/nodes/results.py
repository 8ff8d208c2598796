"""What a node says, as text and as JSON, and whether a result of it fits into one answer."""

from typing import Any

import orjson
from typing_extensions import TypedDict

from clawsite.gateway.protocol import limits

MAX_RESULT_BYTES = limits.MAX_REPLY_BYTES - (4 << 10)  # the rest of the answer are short names
RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
TOO_LARGE_MESSAGE = f"the result is too large; {MAX_RESULT_BYTES >> 10} KiB of JSON fit into an answer"


class NodeResult(TypedDict):
    payload: Any
    payloadJSON: str | None


def to_json_text(payload: Any, payload_json: str | None) -> str:
    return payload_json if payload_json is not None else "" if payload is None else orjson.dumps(payload).decode()


def parse_payload(text: str) -> Any:
    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None


def to_wire(text: str) -> NodeResult:
    """In both forms; only as JSON where both would be too large."""
    result = NodeResult(payload=parse_payload(text), payloadJSON=text or None)
    if result["payload"] is not None and _size(result) > MAX_RESULT_BYTES:
        result["payloadJSON"] = None
    return result


def fits_reply(text: str) -> bool:
    """Measured as it will be sent: a text within a text is longer than itself, and a number can be."""
    return len(text) <= MAX_RESULT_BYTES and _size(to_wire(text)) <= MAX_RESULT_BYTES


def _size(result: NodeResult) -> int:
    return len(orjson.dumps(result))
