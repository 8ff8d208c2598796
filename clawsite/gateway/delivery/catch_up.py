"""Read the events of a session that a client missed, or report that they are no longer stored."""

from typing import Annotated, Any, NamedTuple, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.approvals.records import MAX_OPEN, ApprovalRecord, list_open_records
from clawsite.gateway.protocol.events import frames as event_frames
from clawsite.gateway.protocol.events.frames import SessionName
from clawsite.gateway.protocol.frames import Dialect
from clawsite.infra import db
from sessions_app.events.epoch import epoch_of_session
from sessions_app.models import Session
from sessions_app.sessions import selectors

Epoch = Annotated[str, Field(min_length=1, max_length=64)]
BEGINNING = "1970-01-01T00:00:00Z"  # before every event: for a client that wants everything still stored
NO_SUCH_LOG = "the session does not exist, so the position belongs to another log"


class LogPosition(NamedTuple):
    """A client's position: a cursor or an ISO time, and the epoch of its log if the client sent it."""

    at: int | str
    epoch: str | None


class Missed(TypedDict):
    """Events in order, up to `cursor`. While `more` is true, request again from there with the same `epoch`.

    `resync_required` means that the events after the client's position are no longer stored, or that the position belongs to
    another log: reload the session.
    """

    cursor: NotRequired[int]
    epoch: NotRequired[str]
    events: NotRequired[list[dict[str, Any]]]
    more: NotRequired[bool]
    approvals: NotRequired[list[ApprovalRecord]]  # pending approval requests of this session
    resync_required: NotRequired[bool]
    reason: NotRequired[str]


async def read_missed_events(user: User, dialect: Dialect, session: Session | None, position: LogPosition, *, limit: int) -> Missed:
    epoch, result = await db.read(_read_events, session, position, limit)
    # Read after the events, so that a client that applies both in this order ends up with the current pending requests.
    waiting = await list_open_approvals(user, session)
    if isinstance(result, str):
        return Missed(epoch=epoch, resync_required=True, reason=result, approvals=waiting)
    events, cursor, more = result
    name = SessionName(str(session.generation_id), session.key_for(user.pk)) if session else SessionName("", "")
    replayed = [event_frames.to_replayed_payload(dict(event), name, dialect) for event in events]
    return Missed(epoch=epoch, events=replayed, cursor=cursor, more=more, approvals=waiting)


async def list_open_approvals(user: User, session: Session | None) -> list[ApprovalRecord]:
    """Return a session's pending approval requests. This is the current state, so a missed event leaves no gap."""
    return await db.read(list_open_records, user, limit=MAX_OPEN, session=session) if session else []


async def resolve_position(session: Session | None, position: LogPosition) -> tuple[str, int | str]:
    """Return the log's epoch and the cursor to continue from, or a reason if that would leave a gap."""
    return await db.read(_resolve_position, session, position)


def _resolve_position(session: Session | None, position: LogPosition) -> tuple[str, int | str]:
    epoch = epoch_of_session(session)
    return epoch, _resolve_cursor(session, position, epoch)


def _resolve_cursor(session: Session | None, position: LogPosition, epoch: str) -> int | str:
    # An epoch without a session part was sent before the session was created.
    if position.epoch not in (None, epoch, epoch.partition("-")[0]):
        return f"the log now has epoch {epoch}: the session was deleted and recreated, or the database was restored"
    if session is None:
        return 0 if position.at in (0, "0", BEGINNING) else NO_SUCH_LOG
    # Read before the events: if the head advances after this, there are simply more events.
    head = Session.objects.values_list("cursor", flat=True).get(pk=session.pk)
    oldest = selectors.find_oldest_cursor(session)
    is_time = isinstance(position.at, str) and not position.at.isdecimal()
    cursor = selectors.find_cursor_at(session, str(position.at)) if is_time else int(position.at)
    if cursor > head:
        return f"cursor {cursor} is ahead of the log, which ends at {head}: it belongs to another log"
    # For a time before the oldest event, it is unknown whether events since then were deleted.
    too_early = is_time and position.at != BEGINNING and cursor < oldest and oldest > 1
    if cursor < oldest - 1 or too_early:
        return f"events up to {oldest - 1} are no longer stored"
    return cursor


def _read_events(session: Session | None, position: LogPosition, limit: int) -> tuple[str, tuple[list[Any], int, bool] | str]:
    epoch, cursor = _resolve_position(session, position)
    if isinstance(cursor, str):
        return epoch, cursor
    if session is None:
        return epoch, ([], cursor, False)
    # On the wire each event repeats the session key and run ID, which max_bytes doesn't count.
    limit = min(limit, limits.MAX_REPLY_BYTES // 3 // (len(session.key) + 200))
    events, more = selectors.list_events_after(session, cursor, limit=limit, max_bytes=limits.MAX_REPLY_BYTES // 2)
    if events and events[0]["cursor"] > cursor + 1:
        return epoch, f"events up to {events[0]['cursor'] - 1} are no longer stored"  # deleted since the position was checked
    return epoch, (list(events), events[-1]["cursor"] if events else cursor, more)
