"""What the hub reads from rows: who may see what, what was missed, and what the bus failed to tell."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from django.db.models import Count, Max, Q

from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.protocol import event_frames
from clawsite.gateway.protocol.errors import CloseCode
from clawsite.gateway.protocol.event_frames import SessionName
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
    """The questions a hub asks the database. Session ids are the rows' own, as the bus tells them."""

    async def session(self, session_id: str) -> StreamedSession | None: ...
    async def events_after(self, session_id: str, cursor: int) -> tuple[list[dict[str, Any]], bool]: ...
    async def cursor_before(self, session_id: str, since_ms: int) -> int: ...
    async def run_events(self, run_pk: int, before_seq: int) -> list[dict[str, Any]]: ...
    async def heads(self, session_ids: Sequence[str], users: Sequence[int]) -> dict[str, int]: ...
    async def ended(self, run_pks: Sequence[int]) -> list[int]: ...
    async def members(self, users: Sequence[int]) -> MembersBySession: ...
    async def said(self, session_id: str, runs: Mapping[int, int], message_ids: Sequence[str]) -> NewMessages | None: ...


class DatabaseQueries:
    """The real answers."""

    def __init__(self) -> None:
        self._members_seen: tuple[Any, ...] | None = None
        self._members: MembersBySession = {}

    async def session(self, session_id: str) -> StreamedSession | None:
        return await db.read(_find_session, session_id)

    async def events_after(self, session_id: str, cursor: int) -> tuple[list[dict[str, Any]], bool]:
        found, more = await db.read(selectors.list_events_after, Session(id=UUID(session_id)), cursor, limit=PAGE_SIZE)
        return [dict(event) for event in found], more

    async def cursor_before(self, session_id: str, since_ms: int) -> int:
        return await db.read(_find_cursor_before, session_id, since_ms)

    async def run_events(self, run_pk: int, before_seq: int) -> list[dict[str, Any]]:
        return await db.read(_read_run_events, run_pk, before_seq)

    async def heads(self, session_ids: Sequence[str], users: Sequence[int]) -> dict[str, int]:
        return await db.read(_read_heads, session_ids, users)

    async def ended(self, run_pks: Sequence[int]) -> list[int]:
        return await db.read(_find_ended, run_pks)

    async def said(self, session_id: str, runs: Mapping[int, int], message_ids: Sequence[str]) -> NewMessages | None:
        return await db.read(read_new_messages, session_id, runs, message_ids)

    async def members(self, users: Sequence[int]) -> MembersBySession:
        """Asked every second, so the whole list is read again only when it has changed."""
        seen = (sorted(users), await db.read(_read_members_version, users))
        if seen != self._members_seen:
            self._members = await db.read(_read_members, users)
            self._members_seen = seen
        return self._members


def _find_session(session_id: str) -> StreamedSession | None:
    found = Session.objects.filter(pk=session_id).values_list("key", "generation_id", "owner_id").first()
    return StreamedSession(SessionName(str(found[1]), found[0]), found[2]) if found else None


def _find_cursor_before(session_id: str, since_ms: int) -> int:
    """The last cursor given before a moment; events after it are news to everybody here."""
    session = Session.objects.only("cursor").get(pk=session_id)  # read first: what is given meanwhile is news
    earlier = Event.objects.filter(session=session, ts__lt=since_ms).order_by("-cursor")
    return earlier.values_list("cursor", flat=True).first() or selectors.find_oldest_cursor(session) - 1


def _read_run_events(run_pk: int, before_seq: int) -> list[dict[str, Any]]:
    found = Event.objects.filter(run=run_pk, seq__lt=before_seq).order_by("seq")
    return [dict(event) for event in found.values("cursor", "seq", "stream", "ts", "data")]


def _read_heads(session_ids: Sequence[str], users: Sequence[int]) -> dict[str, int]:
    """Last cursors of the sessions asked for, and of those of these users in which something is unfinished."""
    theirs = Q(session__owner__in=users) | Q(session__members__user__in=users)
    busy = Run.objects.filter(theirs, status__in=Run.UNFINISHED).values_list("session_id", "session__cursor").distinct()
    return {str(pk): cursor for pk, cursor in busy} | selectors.read_head_cursors(list(session_ids))


def _find_ended(run_pks: Sequence[int]) -> list[int]:
    return list(Run.objects.filter(pk__in=run_pks, status__in=Run.ENDED).values_list("pk", flat=True))


def _read_members_version(users: Sequence[int]) -> tuple[int, int | None]:
    # Rows come and go but are not re-used: a change shows in how many there are or in the highest key.
    found = SessionMember.objects.filter(user__in=users).aggregate(count=Count("pk"), last=Max("pk"))
    return found["count"], found["last"]


def _read_members(users: Sequence[int]) -> MembersBySession:
    members: dict[str, set[int]] = {}
    for session_id, user in SessionMember.objects.filter(user__in=users).values_list("session_id", "user_id"):
        members.setdefault(str(session_id), set()).add(user)
    return {session_id: frozenset(found) for session_id, found in members.items()}


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
    """Send one connection what it missed, as events, and let it go on with the live ones: each once, in order.

    It may take long, since a client reads as slowly as it likes: before each further page `may_see` is asked whether it still may.

    The caller has put the session into `connection.held`, so live events have been passing it by. It is let go in the same
    step in which rows and hub stand at the same place; from there on a floor keeps out what the rows were ahead by.
    """
    try:
        while not connection.line.closing:
            found, more = await rows.events_after(session_id, cursor)
            if found and found[0]["cursor"] > cursor + 1:  # deleted since the place was looked at; asked again, it is told so
                connection.line.close(CloseCode.RESTART, "the next events are no longer kept")
                return
            for event in found:
                for outgoing in event_frames.to_outgoing(event, name):
                    encoded = outgoing.encoded(connection.dialect)
                    if encoded is not None and connection.wants(outgoing):
                        await connection.line.room()
                        connection.line.deliver(encoded)
                cursor = event["cursor"]
            if not more and cursor >= (hub.head_of(session_id) or 0):
                connection.floors[session_id] = cursor
                return
            if not may_see():  # taken back meanwhile; who just got it and was not known yet comes back, and may
                connection.line.close(CloseCode.TRY_LATER, "what was missed is no longer shown to you")
                return
    except Exception:  # live events behind what could not be read would be a silent gap
        connection.line.close(CloseCode.TRY_LATER, "what was missed cannot be read now")
        raise
    finally:
        connection.held.discard(session_id)
