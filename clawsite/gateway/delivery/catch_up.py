"""What a client missed: the events of a session after the place it remembers, or the honest word that they are gone."""

from typing import Annotated, Any, NamedTuple, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.gateway.protocol import event_frames, limits
from clawsite.gateway.protocol.approvals import MAX_OPEN, ApprovalRecord, list_open_records
from clawsite.gateway.protocol.event_frames import SessionName
from clawsite.gateway.protocol.frames import Dialect
from clawsite.infra import db
from sessions_app.events.epoch import epoch_of_session
from sessions_app.models import Session
from sessions_app.sessions import selectors

Epoch = Annotated[str, Field(min_length=1, max_length=64)]
BEGINNING = "1970-01-01T00:00:00Z"  # before every event: somebody who has seen nothing wants all that is kept
NO_SUCH_LOG = "there is no such session, so the place is one in another log"


class LogPosition(NamedTuple):
    """Where a client stands: a cursor, or an ISO time; and the epoch of the log it counts in, if the client says so."""

    at: int | str
    epoch: str | None


class Missed(TypedDict):
    """Events in order, up to `cursor`; ask again from there while `more` is true, with the same `epoch`.

    `resync_required` means that the events after the client's place are no longer kept, or that its place is one in another
    log: read the session anew.
    """

    cursor: NotRequired[int]
    epoch: NotRequired[str]
    events: NotRequired[list[dict[str, Any]]]
    more: NotRequired[bool]
    approvals: NotRequired[list[ApprovalRecord]]  # questions about commands of this session that are open now
    resync_required: NotRequired[bool]
    reason: NotRequired[str]


async def read_missed_events(user: User, dialect: Dialect, session: Session | None, place: LogPosition, *, limit: int) -> Missed:
    epoch, found = await db.read(_read_events, session, place, limit)
    # Read after the events: who has applied them and then this knows what is open.
    waiting = await list_open_approvals(user, session)
    if isinstance(found, str):
        return Missed(epoch=epoch, resync_required=True, reason=found, approvals=waiting)
    events, cursor, more = found
    name = SessionName(str(session.generation_id), session.key_for(user.pk)) if session else SessionName("", "")
    replayed = [event_frames.to_replayed_payload(dict(event), name, dialect) for event in events]
    return Missed(epoch=epoch, events=replayed, cursor=cursor, more=more, approvals=waiting)


async def list_open_approvals(user: User, session: Session | None) -> list[ApprovalRecord]:
    """The questions of a session that are still open: state, not events, so that nobody waits for one that was missed."""
    return await db.read(list_open_records, user, limit=MAX_OPEN, session=session) if session else []


async def resolve_position(session: Session | None, place: LogPosition) -> tuple[str, int | str]:
    """The epoch of the log, and the cursor to go on from; words when that cannot be done without a gap."""
    return await db.read(_resolve_position, session, place)


def _resolve_position(session: Session | None, place: LogPosition) -> tuple[str, int | str]:
    epoch = epoch_of_session(session)
    return epoch, _resolve_cursor(session, place, epoch)


def _resolve_cursor(session: Session | None, place: LogPosition, epoch: str) -> int | str:
    # Without a session's part it was told before the session was made.
    if place.epoch not in (None, epoch, epoch.partition("-")[0]):
        return f"the log is another one now, of epoch {epoch}: the session was deleted and made again, or the database restored"
    if session is None:
        return 0 if place.at in (0, "0", BEGINNING) else NO_SUCH_LOG
    # Read before the events: a head that moves on meanwhile only means that there is more.
    head = Session.objects.values_list("cursor", flat=True).get(pk=session.pk)
    oldest = selectors.find_oldest_cursor(session)
    is_time = isinstance(place.at, str) and not place.at.isdecimal()
    cursor = selectors.find_cursor_at(session, str(place.at)) if is_time else int(place.at)
    if cursor > head:
        return f"cursor {cursor} is ahead of the log, which ends at {head}: it was written in another log"
    # Of a time before the oldest event nobody can say whether something from then is gone.
    too_early = is_time and place.at != BEGINNING and cursor < oldest and oldest > 1
    if cursor < oldest - 1 or too_early:
        return f"events up to {oldest - 1} are no longer kept"
    return cursor


def _read_events(session: Session | None, place: LogPosition, limit: int) -> tuple[str, tuple[list[Any], int, bool] | str]:
    epoch, cursor = _resolve_position(session, place)
    if isinstance(cursor, str):
        return epoch, cursor
    if session is None:
        return epoch, ([], cursor, False)
    # On the wire each event repeats key and run id, which the rows' own measure leaves out.
    limit = min(limit, limits.MAX_REPLY_BYTES // 3 // (len(session.key) + 200))
    events, more = selectors.list_events_after(session, cursor, limit=limit, max_bytes=limits.MAX_REPLY_BYTES // 2)
    if events and events[0]["cursor"] > cursor + 1:
        return epoch, f"events up to {events[0]['cursor'] - 1} are no longer kept"  # deleted since the place was looked at
    return epoch, (list(events), events[-1]["cursor"] if events else cursor, more)
