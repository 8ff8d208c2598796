"""Node results as text and as JSON, and whether they fit into one response."""

from typing import Any

import orjson
from typing_extensions import TypedDict

from clawsite.gateway.protocol import limits

MAX_RESULT_BYTES = limits.MAX_REPLY_BYTES - (4 << 10)  # the rest is for the other, short fields
RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
TOO_LARGE_MESSAGE = f"the result exceeds {MAX_RESULT_BYTES >> 10} KiB of JSON"


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
    """Return both forms; only `payload` if both would be too large."""
    result = NodeResult(payload=parse_payload(text), payloadJSON=text or None)
    if result["payload"] is not None and _size(result) > MAX_RESULT_BYTES:
        result["payloadJSON"] = None
    return result


def fits_reply(text: str) -> bool:
    """Whether the result fits. Measured as it will be sent, because escaping makes nested JSON text longer."""
    return len(text) <= MAX_RESULT_BYTES and _size(to_wire(text)) <= MAX_RESULT_BYTES


def _size(result: NodeResult) -> int:
    return len(orjson.dumps(result))
