"""Parse untrusted JSON within limits. Parsing holds the GIL on any thread: 20 MB of empty lists take seconds and gigabytes
of memory, 20 MB of text only a few hundredths of a second. So the values are counted before parsing, in small steps.
"""

from collections.abc import Iterable
from typing import Any

import orjson

from clawsite.infra.errors import InvalidRequest
from clawsite.infra.text import make_storable

CHUNK_BYTES = 64 << 10  # takes 1 ms, then other threads can run
VALUE_STARTS = b',[{"'
MAX_DEPTH = 200  # levels; orjson can serialize 254, and stored values are wrapped in a few more
_NOT_VALUE_STARTS = bytes(set(range(256)) - set(VALUE_STARTS))


def read_json(body: bytes, max_values: int) -> Any:
    """Return the value in storable form. Raise InvalidRequest above `max_values`, JSONDecodeError for invalid JSON."""
    if len(body) > max_values and count_values(body, max_values) > max_values:
        raise InvalidRequest(f"the body exceeds the limit of {max_values} values")
    value = orjson.loads(body)
    if is_too_deep(value):
        raise InvalidRequest(f"the body is nested too deeply: the limit is {MAX_DEPTH} levels")
    return make_storable(value)


def is_too_deep(value: Any) -> bool:
    """Whether the value has more levels than can be serialized again."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for each in level for inner in _children(each)]
        if not level:
            return False
    return True


def _children(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def count_values(body: bytes, max_values: int) -> int:
    """Count the values: each follows a comma or bracket outside of strings. Stop counting after `max_values`."""
    count, quotes, inside, left = 1, 0, False, b""
    for start in range(0, len(body), CHUNK_BYTES):
        piece = (left + body[start : start + CHUNK_BYTES]).replace(b"\\\\", b"")
        left = b"\\" if piece.endswith(b"\\") else b""  # belongs to the next piece
        parts = piece.replace(b'\\"', b"").translate(None, _NOT_VALUE_STARTS).split(b'"')
        count += sum(map(len, parts[inside::2]))
        quotes += len(parts) - 1
        inside = quotes % 2 == 1
        if count > max_values or quotes > 4 * max_values:  # at most four quotes per value: two around its key, two around the value
            return max(count, max_values + 1)
    return count
