"""What a node says, as text and as JSON, and whether a result of it fits into one answer."""

from typing import Any

import orjson
from typing_extensions import TypedDict

from clawsite.gateway.protocol import limits

MOST = limits.REPLY_BYTES - (4 << 10)  # the rest of the answer are short names
RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
TOO_LARGE = f"the result is too large; {MOST >> 10} KiB of JSON fit into an answer"


class Result(TypedDict):
    payload: Any
    payloadJSON: str | None


def as_text(payload: Any, payload_json: str | None) -> str:
    return payload_json if payload_json is not None else "" if payload is None else orjson.dumps(payload).decode()


def read(text: str) -> Any:
    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None


def told(text: str) -> Result:
    """In both forms; only as JSON where both would be too large."""
    result = Result(payload=read(text), payloadJSON=text or None)
    if result["payload"] is not None and _size(result) > MOST:
        result["payloadJSON"] = None
    return result


def fits(text: str) -> bool:
    """Measured as it will be sent: a text within a text is longer than itself, and a number can be."""
    return len(text) <= MOST and _size(told(text)) <= MOST


def _size(result: Result) -> int:
    return len(orjson.dumps(result))
