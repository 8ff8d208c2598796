"""Database queries of the hub: access, missed events, and what was lost on the bus."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from django.db.models import Count, Max, Q

from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.protocol.errors import CloseCode
from clawsite.gateway.protocol.events import frames
from clawsite.gateway.protocol.events.frames import SessionName
from clawsite.infra import db
from sessions_app.models import Event, Run, Session, SessionMember
from sessions_app.sessions import selectors
from sessions_app.transcript.new_messages import NewMessages, read_new_messages

PAGE_SIZE = 500

MembersBySession = dict[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class StreamedSession:
    name: SessionName
    owner: int


class HubQueries(Protocol):
    """The queries of a hub. Session IDs are primary keys, as on the bus."""

    async def session(self, session_id: str) -> StreamedSession | None: ...
    async def events_after(self, session_id: str, cursor: int) -> tuple[list[dict[str, Any]], bool]: ...
    async def cursor_before(self, session_id: str, since_ms: int) -> int: ...
    async def run_events(self, run_pk: int, before_seq: int) -> list[dict[str, Any]]: ...
    async def heads(self, session_ids: Sequence[str], users: Sequence[int]) -> dict[str, int]: ...
    async def ended(self, run_pks: Sequence[int]) -> list[int]: ...
    async def members(self, users: Sequence[int]) -> MembersBySession: ...
    async def new_messages(self, session_id: str, runs: Mapping[int, int], message_ids: Sequence[str]) -> NewMessages | None: ...


class DatabaseQueries:
    """The queries on the real database."""

    def __init__(self) -> None:
        self._members_seen: tuple[Any, ...] | None = None
        self._members: MembersBySession = {}

    async def session(self, session_id: str) -> StreamedSession | None:
        return await db.read(_find_session, session_id)

    async def events_after(self, session_id: str, cursor: int) -> tuple[list[dict[str, Any]], bool]:
        events, more = await db.read(selectors.list_events_after, Session(id=UUID(session_id)), cursor, limit=PAGE_SIZE)
        return [dict(event) for event in events], more

    async def cursor_before(self, session_id: str, since_ms: int) -> int:
        return await db.read(_find_cursor_before, session_id, since_ms)

    async def run_events(self, run_pk: int, before_seq: int) -> list[dict[str, Any]]:
        return await db.read(_read_run_events, run_pk, before_seq)

    async def heads(self, session_ids: Sequence[str], users: Sequence[int]) -> dict[str, int]:
        return await db.read(_read_heads, session_ids, users)

    async def ended(self, run_pks: Sequence[int]) -> list[int]:
        return await db.read(_find_ended, run_pks)

    async def new_messages(self, session_id: str, runs: Mapping[int, int], message_ids: Sequence[str]) -> NewMessages | None:
        return await db.read(read_new_messages, session_id, runs, message_ids)

    async def members(self, users: Sequence[int]) -> MembersBySession:
        """Called every second, so the whole list is only read again after a change."""
        seen = (sorted(users), await db.read(_read_members_version, users))
        if seen != self._members_seen:
            self._members = await db.read(_read_members, users)
            self._members_seen = seen
        return self._members


def _find_session(session_id: str) -> StreamedSession | None:
    row = Session.objects.filter(pk=session_id).values_list("key", "generation_id", "owner_id").first()
    return StreamedSession(SessionName(str(row[1]), row[0]), row[2]) if row else None


def _find_cursor_before(session_id: str, since_ms: int) -> int:
    """Return the last cursor assigned before a time; events after it are new to all clients here."""
    session = Session.objects.only("cursor").get(pk=session_id)  # read first: cursors assigned after this are new
    earlier = Event.objects.filter(session=session, ts__lt=since_ms).order_by("-cursor")
    return earlier.values_list("cursor", flat=True).first() or selectors.find_oldest_cursor(session) - 1


def _read_run_events(run_pk: int, before_seq: int) -> list[dict[str, Any]]:
    events = Event.objects.filter(run=run_pk, seq__lt=before_seq).order_by("seq")
    return [dict(event) for event in events.values("cursor", "seq", "stream", "ts", "data")]


def _read_heads(session_ids: Sequence[str], users: Sequence[int]) -> dict[str, int]:
    """Return the last cursors of the given sessions, and of these users' sessions with unfinished runs."""
    theirs = Q(session__owner__in=users) | Q(session__members__user__in=users)
    busy = Run.objects.filter(theirs, status__in=Run.UNFINISHED).values_list("session_id", "session__cursor").distinct()
    return {str(pk): cursor for pk, cursor in busy} | selectors.read_head_cursors(list(session_ids))


def _find_ended(run_pks: Sequence[int]) -> list[int]:
    return list(Run.objects.filter(pk__in=run_pks, status__in=Run.ENDED).values_list("pk", flat=True))


def _read_members_version(users: Sequence[int]) -> tuple[int, int | None]:
    # Primary keys are not reused, so every change alters the count or the highest key.
    totals = SessionMember.objects.filter(user__in=users).aggregate(count=Count("pk"), last=Max("pk"))
    return totals["count"], totals["last"]


def _read_members(users: Sequence[int]) -> MembersBySession:
    members: dict[str, set[int]] = {}
    for session_id, user in SessionMember.objects.filter(user__in=users).values_list("session_id", "user_id"):
        members.setdefault(str(session_id), set()).add(user)
    return {session_id: frozenset(users) for session_id, users in members.items()}


class StreamHeads(Protocol):
    def head_of(self, session_id: str) -> int | None: ...


async def replay_events(
    rows: HubQueries,
    hub: StreamHeads,
    connection: Connection,
    session_id: str,
    name: SessionName,
    cursor: int,
    may_see: Callable[[], bool] = lambda: True,
) -> None:
    """Send one connection the events it missed, then let it continue with the live ones: each once and in order.

    This may take a long time if the client reads slowly, so `may_see` is checked again before each further page.

    The caller has called `start_replay`, so the connection skips live events. The replay ends in the same step in which the rows
    catch up with the hub; from then on, the connection skips live events that were already sent from the rows.
    """
    sent: int | None = None
    try:
        while not connection.line.closing:
            events, more = await rows.events_after(session_id, cursor)
            if events and events[0]["cursor"] > cursor + 1:  # deleted since the cursor was checked; a retry will report it
                connection.line.close(CloseCode.RESTART, "the next events are no longer stored")
                return
            for event in events:
                for outgoing in frames.to_outgoing(event, name):
                    encoded = outgoing.encoded(connection.dialect)
                    if encoded is not None and connection.wants(outgoing):
                        await connection.line.wait_for_room()
                        connection.line.deliver(encoded)
                cursor = event["cursor"]
            if not more and cursor >= (hub.head_of(session_id) or 0):
                sent = cursor
                return
            if not may_see():  # access was revoked, or is too recent to be loaded yet, in which case reconnecting helps
                connection.line.close(CloseCode.TRY_LATER, "you can no longer see this session")
                return
    except Exception:  # continuing with live events would leave a silent gap
        connection.line.close(CloseCode.TRY_LATER, "could not read the missed events")
        raise
    finally:
        connection.subscriptions.end_replay(session_id, sent)
