"""Shared read queries: session lists, events, run state. All start from what the user can see."""

import datetime as dt
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Q
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from clawsite.infra.errors import InvalidRequest, NotFound
from sessions_app import tables
from sessions_app.events.announce import EventOut
from sessions_app.keys import OPENAI_CHANNEL, parse_key, parse_shared_key
from sessions_app.models import Event, Run, Session, TranscriptEntry
from sessions_app.models.session import SessionQuerySet
from sessions_app.runs.types import RunState
from sessions_app.sessions import marks, members
from sessions_app.transcript.history import MAX_REPLY_BYTES
from sessions_app.transcript.rewinds import visible_condition

PREVIEW_CHARACTERS = 240


@dataclass(frozen=True, slots=True)
class SessionPage:
    rows: list[dict[str, Any]]
    total: int


def list_visible_sessions(user: User) -> SessionQuerySet:
    """Return the sessions a list or search covers. A service account lists only its own, even if it may view all."""
    visible = Session.objects.for_user(user)
    return visible.filter(owner=user) if user.is_service else visible


def order_by_last_use(user: User, found: SessionQuerySet) -> SessionQuerySet:
    """Order sessions by last use, most recent first.

    If no session is shared with the user, the query says so: the database then reads 50 of 10,000 rows in index order (3 ms)
    instead of sorting all users' sessions (12 ms).
    """
    sees_others = user.has_perm("accounts.view_any_session") or marks.has_shared_sessions(user)
    return (found if sees_others else found.filter(owner=user)).order_by("-updated_at", "id")


def list_sessions(
    user: User,
    *,
    limit: int = 100,
    offset: int = 0,
    search: str = "",
    agent: str = "",
    label: str = "",
    active_minutes: int | None = None,
    parent: Session | None = None,
    include_last: bool = False,
    archived: bool = False,
    own: bool = False,
    owned: bool = False,
) -> SessionPage:
    """List visible sessions: pinned first, then by last use. Archived sessions are listed separately.

    Sessions that programs created for a single request only appear in a search.
    """
    sessions = list_visible_sessions(user)
    if not search:
        sessions = sessions.exclude(channel=OPENAI_CHANNEL)
    if own:
        sessions = members.filter_shared_with(user, sessions)
    if owned:
        sessions = sessions.filter(owner=user)
    if agent:
        sessions = sessions.filter(agent=agent)
    if label:
        sessions = sessions.filter(label=label)
    if parent:
        sessions = sessions.filter(parent=parent)
    if active_minutes:
        sessions = sessions.filter(updated_at__gte=clock.now() - dt.timedelta(minutes=active_minutes))
    if (shared := parse_shared_key(search)) is not None:
        sessions = sessions.filter(pk__in=_parse_ids(shared))
    elif search:
        sessions = sessions.filter(Q(key__icontains=search) | Q(title__icontains=search) | Q(label__icontains=search))
    page, total = marks.list_page(user, sessions, order_by_last_use(user, sessions), archived=archived, limit=limit, offset=offset)
    return SessionPage(build_session_rows(user, page, include_last=include_last), total)


def build_session_rows(user: User, page: list[Session], *, include_last: bool = False) -> list[dict[str, Any]]:
    """Build the rows of a user's session list."""
    others = {session.owner_id for session in page} - {user.pk}
    owners = {user.pk: user.username, **(_read_names(others) if others else {})}
    facts = marks.read_row_states(user, page)
    last = read_last_texts(page) if include_last else {}
    rows = []
    for session in page:
        row = {
            **to_wire_session(session),
            "key": session.key_for(user.pk),
            "owner": _to_wire_owner(session.owner_id, owners),
            **facts[session.pk],
        }
        if session.pk in last:
            row["lastMessagePreview"] = last[session.pk]
        rows.append(row)
    return rows


def list_sessions_before(
    user: User, place: tuple[dt.datetime, UUID] | None, *, limit: int, agent: str = "", label: str = ""
) -> list[Session]:
    """List visible sessions by last use, starting at a cursor; sessions used since then move to the front.

    Pins and archive are ignored so that the cursor stays stable. Sessions created for a single request are left out.
    """
    sessions = order_by_last_use(user, list_visible_sessions(user).exclude(channel=OPENAI_CHANNEL))
    if agent:
        sessions = sessions.filter(agent=agent)
    if label:
        sessions = sessions.filter(label=label)
    if place:
        at, pk = place
        sessions = sessions.filter(Q(updated_at__lt=at) | Q(updated_at=at, pk__gt=pk))
    return list(sessions[:limit])


def _to_wire_owner(user_pk: int, names: dict[int, str]) -> dict[str, Any]:
    return {"actor": {"type": "human", "id": str(user_pk), "label": names[user_pk]}}


def _parse_ids(text: str) -> list[UUID]:
    try:
        return [UUID(text)]
    except ValueError:
        return []


def _read_names(user_pks: set[int]) -> dict[int, str]:
    return dict(User.objects.filter(pk__in=user_pks).values_list("pk", "username"))


def read_last_texts(sessions: list[Session]) -> dict[UUID, str]:
    """Return the beginning of each session's last message."""
    if not sessions:
        return {}
    rows = sql.fetch_rows(
        f"""
        SELECT s.id, (
          SELECT substr(e.text, 1, {PREVIEW_CHARACTERS}) FROM {tables.ENTRY} e
          WHERE e.session_id = s.id AND e.generation = s.generation AND e.kind = 'message' AND {visible_condition("e")}
          ORDER BY e.position DESC LIMIT 1
        ) FROM {tables.SESSION} s WHERE s.id IN ({sql.placeholders(sessions)})
        """,
        [sql.uuid_value(session.pk) for session in sessions],
    )
    return {sql.as_uuid(pk): text for pk, text in rows if text is not None}


def to_wire_session(session: Session) -> dict[str, Any]:
    """Convert a session to its wire form."""
    key = parse_key(session.key)
    row: dict[str, Any] = {
        "key": session.key,
        "kind": "group" if key.kind == "group" else "direct",
        "agentId": session.agent,
        "id": str(session.id),
        "sessionId": str(session.generation_id),
        "label": session.label or None,
        "displayName": session.label or session.title or None,
        "derivedTitle": session.title or None,
        "channel": session.channel,
        "chatType": "group" if key.kind == "group" else "direct",
        "createdAt": clock.to_ms(session.created_at),
        "updatedAt": clock.to_ms(session.updated_at),
        "thinkingLevel": session.thinking_level or None,
        "verboseLevel": session.verbose_level or None,
        "model": session.model or None,
        "inputTokens": session.input_tokens,
        "outputTokens": session.output_tokens,
        "totalTokens": session.input_tokens + session.output_tokens,
        "costUsd": session.cost_microusd / 1e6,
        "cursor": session.cursor,
        **session.settings,
    }
    if session.forked_from_id:
        row["forkedFrom"] = str(session.forked_from_id)
    return row


def read_preview(session: Session, *, limit: int, max_chars: int) -> list[dict[str, Any]]:
    """Return the last messages of a session, shortened."""
    newest = sql.fetch_rows(
        f"""
        SELECT e.role, substr(e.text, 1, %s) FROM {tables.ENTRY} e
        WHERE e.session_id = %s AND e.generation = %s AND e.kind <> 'compaction' AND e.text <> '' AND {visible_condition("e")}
        ORDER BY e.position DESC LIMIT %s
        """,
        [max_chars, sql.uuid_value(session.pk), session.generation, limit],
    )
    return [{"role": role, "text": start} for role, start in reversed(newest)]


def list_events_after(
    session: Session, cursor: int, *, limit: int = 1000, max_bytes: int = MAX_REPLY_BYTES
) -> tuple[list[EventOut], bool]:
    """Return events with a higher cursor, in order, as many as fit in one reply; and whether there are more."""
    rows = sql.fetch_rows(
        f"""
        SELECT e.cursor, e.run_id, r.run_id, e.seq, e.stream, e.ts, e.data
        FROM {tables.EVENT} e LEFT JOIN {tables.RUN} r ON r.id = e.run_id
        WHERE e.session_id = %s AND e.cursor > %s ORDER BY e.cursor LIMIT %s
        """,
        [sql.uuid_value(session.pk), cursor, limit + 1],
    )
    events: list[EventOut] = []
    size = 0
    for at, run_pk, run_id, seq, stream, ts, data in rows[:limit]:
        size += len(data if data.isascii() else data.encode()) + 200
        if size > max_bytes and events:
            return events, True
        events.append(EventOut(cursor=at, run=run_pk, runId=run_id, seq=seq, stream=stream, ts=ts, data=orjson.loads(data)))
    return events, len(rows) > limit


def read_head_cursors(session_ids: list[str]) -> dict[str, int]:
    """Map session ID to last cursor; the poll that backs up the bus fetches all watched sessions in one query."""
    return {str(pk): cursor for pk, cursor in Session.objects.filter(pk__in=session_ids).values_list("pk", "cursor")}


def read_ends(session_id: str) -> tuple[int, int]:
    """Return the last event cursor and the last transcript position of a session; zeros if it is gone."""
    return Session.objects.filter(pk=session_id).values_list("cursor", "entry_count").first() or (0, 0)


def find_cursor_at(session: Session, moment: str) -> int:
    """Return the last cursor before an ISO time, for clients that remember times instead of cursors."""
    try:
        when = dt.datetime.fromisoformat(moment.replace("Z", "+00:00"))
    except ValueError:
        raise InvalidRequest(f"invalid cursor {moment!r}: use a cursor or an ISO time such as 2026-02-01T10:15:00Z") from None
    ts = clock.to_ms(when if when.tzinfo else when.replace(tzinfo=dt.UTC))
    # Strictly before: the client may not have seen the event at that exact time.
    last = Event.objects.filter(session=session, ts__lt=ts).order_by("-cursor").values_list("cursor", flat=True).first()
    return last or find_oldest_cursor(session) - 1


def find_oldest_cursor(session: Session) -> int:
    oldest = Event.objects.filter(session=session).order_by("cursor").values_list("cursor", flat=True).first()
    return oldest or session.cursor + 1


def read_run_state(user: User, run_id: str) -> RunState:
    """Find the user's own run, even if its session was deleted, or one in a session they can see.

    Runs started in another user's session count as own while it is shared.
    """
    runs = Run.objects.filter(run_id=run_id).select_related("session")
    own = runs.filter(owner=user, session__in=members.filter_shared_with(user, Session.objects.all()))
    run = own.first() or runs.for_user(user).first()
    if run is None:
        raise NotFound(_("Run not found: %(run)s") % {"run": run_id})
    answer = (
        TranscriptEntry.objects.filter(run=run, role="assistant").order_by("-position").values_list("text", flat=True).first()
        if run.status == Run.Status.COMPLETED
        else None
    )
    return RunState(
        pk=run.pk,
        run_id=run.run_id,
        session_id=str(run.session_id),
        session_key=run.session.key_for(user.pk),
        generation_id=str(run.session.generation_id),
        status=run.status,
        reason=run.reason,
        error=run.error,
        model=run.model,
        usage={"input": run.input_tokens, "output": run.output_tokens, "costMicroUsd": run.cost_microusd},
        accepted_ms=clock.to_ms(run.accepted_at),
        started_ms=clock.to_ms(run.started_at) if run.started_at else None,
        ended_ms=clock.to_ms(run.ended_at) if run.ended_at else None,
        text=answer or "",
    )
