"""What a client missed: the events of a session after the place it remembers, or the honest word that they are gone."""

from typing import Any, NotRequired

from typing_extensions import TypedDict

from clawsite.gateway import limits, wire
from clawsite.gateway.registry import Call
from clawsite.gateway.wire import SessionName
from clawsite.infra import db
from sessions_app import selectors
from sessions_app.models import Session

Place = int | str  # a cursor, or an ISO time
BEGINNING = "1970-01-01T00:00:00Z"  # before every event: somebody who has seen nothing wants all that is kept


class Missed(TypedDict):
    """Events in order, up to `cursor`; ask again from there while `more` is true.

    `resync_required` means that the events after the client's place are no longer kept, or that its place is ahead of the
    log: read the session anew.
    """

    cursor: NotRequired[int]
    events: NotRequired[list[dict[str, Any]]]
    more: NotRequired[bool]
    resync_required: NotRequired[bool]
    reason: NotRequired[str]


async def missed_events(call: Call, session: Session, place: Place, *, limit: int) -> Missed:
    found = await db.read(_read, session, place, limit)
    if isinstance(found, str):
        return Missed(resync_required=True, reason=found)
    events, cursor, more = found
    name = SessionName(str(session.generation_id), session.key)
    return Missed(events=[wire.replayed(dict(event), name, call.connection.dialect) for event in events], cursor=cursor, more=more)


async def place_of(session: Session, place: Place) -> int | str:
    """The cursor to go on from; words when that cannot be done without a gap."""
    return await db.read(_place, session, place)


def _place(session: Session, place: Place) -> int | str:
    # Read before the events: a head that moves on meanwhile only means that there is more.
    head = Session.objects.values_list("cursor", flat=True).get(pk=session.pk)
    oldest = selectors.oldest_kept_cursor(session)
    is_time = isinstance(place, str) and not place.isdecimal()
    cursor = selectors.cursor_at(session, str(place)) if is_time else int(place)
    if cursor > head:
        return f"cursor {cursor} is ahead of the log, which ends at {head}: it was written in another log"
    # Of a time before the oldest event nobody can say whether something from then is gone.
    too_early = is_time and place != BEGINNING and cursor < oldest and oldest > 1
    if cursor < oldest - 1 or too_early:
        return f"events up to {oldest - 1} are no longer kept"
    return cursor


def _read(session: Session, place: Place, limit: int) -> tuple[list[Any], int, bool] | str:
    cursor = _place(session, place)
    if isinstance(cursor, str):
        return cursor
    # On the wire each event repeats key and run id, which the rows' own measure leaves out.
    limit = min(limit, limits.REPLY_BYTES // 3 // (len(session.key) + 200))
    events, more = selectors.events_after(session, cursor, limit=limit, max_bytes=limits.REPLY_BYTES // 2)
    return list(events), events[-1]["cursor"] if events else cursor, more
