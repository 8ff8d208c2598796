"""Lists page by page. A cursor is a place in the order of its list, opaque to clients: they send back what they were given."""

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
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many at most")]
CursorText = Annotated[str, Query(max_length=512, description="The `next` of the page before; empty: from the beginning")]


class Page(TypedDict, Generic[T]):
    """`next` is the `cursor` of the page that follows, and null at the end."""

    items: list[T]
    next: str | None


def encode_cursor(*place: int | str) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(place)).decode().rstrip("=")


def decode_cursor(cursor: str, *kinds: Callable[[Any], Any]) -> list[Any] | None:
    """The parts of a place, each read by its function; None for the beginning."""
    if not cursor:
        return None
    try:
        place = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        return [read(part) for read, part in zip(kinds, place, strict=True)]
    except (binascii.Error, ValueError, TypeError, AttributeError):
        raise InvalidRequest(
            "this cursor is none of this list; send the `next` of the page before, or none to begin anew"
        ) from None


def parse_number(part: Any) -> int:
    if type(part) is not int or not 0 <= part < 2**53:
        raise ValueError(part)
    return part


def parse_string(part: Any) -> str:
    if not isinstance(part, str):
        raise ValueError(part)
    return str(make_storable(part))


def parse_time(part: Any) -> datetime:
    found = datetime.fromisoformat(part)
    if found.tzinfo is None:
        raise ValueError(part)
    return found
