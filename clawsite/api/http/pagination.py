"""Pagination. A cursor encodes a position in the order of its list and is opaque to clients."""

import base64
import binascii
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

import orjson
from ninja import Query
from typing_extensions import TypedDict

from clawsite.infra.errors import InvalidRequest
from clawsite.infra.text import make_storable

T = TypeVar("T")

MAX_LIMIT = 200
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Maximum number of items")]
CursorText = Annotated[str, Query(max_length=512, description="The `next` of the previous page; leave empty for the first page")]


class Page(TypedDict, Generic[T]):
    """`next` is the `cursor` of the next page, or null on the last page."""

    items: list[T]
    next: str | None


def encode_cursor(*parts: int | str) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(parts)).decode().rstrip("=")


def decode_cursor(cursor: str, *parsers: Callable[[Any], Any]) -> list[Any] | None:
    """Return the parts of a cursor, each parsed by its function, or None for the first page."""
    if not cursor:
        return None
    try:
        parts = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        return [parse(part) for parse, part in zip(parsers, parts, strict=True)]
    except (binascii.Error, ValueError, TypeError, AttributeError):
        raise InvalidRequest("invalid cursor: send the `next` of the previous page, or none for the first page") from None


def parse_number(part: Any) -> int:
    if type(part) is not int or not 0 <= part < 2**53:
        raise ValueError(part)
    return part


def parse_string(part: Any) -> str:
    if not isinstance(part, str):
        raise ValueError(part)
    return str(make_storable(part))


def parse_time(part: Any) -> datetime:
    time = datetime.fromisoformat(part)
    if time.tzinfo is None:
        raise ValueError(part)
    return time
