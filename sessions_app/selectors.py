"""Reads that more than one caller needs: lists, history, events, a run's state. All start from what somebody may see."""

import datetime as dt
from dataclasses import dataclass
from typing import Any

import orjson
from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Left

from clawsite.accounts.models import User
from clawsite.infra import clock
from clawsite.infra.errors import InvalidRequest, NotFound
from sessions_app import sql
from sessions_app.events import EventOut
from sessions_app.keys import parse_key
from sessions_app.models import Event, Run, Session, TranscriptEntry
from sessions_app.replay import RunView, replay
from sessions_app.run_ends import ends_without_answer
from sessions_app.transcript import to_wire

# One reply must fit into a socket's queue (1 MiB) with room for the events behind it.
LARGEST_REPLY = 768 * 1024
PREVIEW_CHARACTERS = 240
# Prompts that wait are shown beside the history: all of them fit into the quarter of the queue that is left.
QUEUED_CHARACTERS, MOST_QUEUED = 1_000, 100
END = 2**63 - 1  # behind every position and every run


@dataclass(frozen=True, slots=True)
class SessionPage:
    rows: list[dict[str, Any]]
    total: int


@dataclass(frozen=True, slots=True)
class HistoryPage:
    messages: list[dict[str, Any]]
    cursor: int  # head of the event log, read before the messages: what comes later can be asked for by it
    before: int | None  # position to ask for older ones, None when there are none
    queued: list[dict[str, Any]]
    active: dict[str, Any] | None
    ends: list[dict[str, Any]]  # runs among these messages that failed or were stopped


@dataclass(frozen=True, slots=True)
class RunState:
    pk: int
    run_id: str
    session_id: str
    session_key: str
    generation_id: str
    status: str
    reason: str
    error: str
    model: str
    usage: dict[str, int]
    accepted_ms: int
    started_ms: int | None
    ended_ms: int | None
    text: str  # of the last stored answer

    @property
    def ended(self) -> bool:
        return self.status in Run.ENDED


def list_sessions(
    user: User,
    *,
    limit: int = 100,
    offset: int = 0,
    search: str = "",
    agent: str = "",
    label: str = "",
    active_minutes: int | None = None,
    spawned_by: str = "",
    include_last: bool = False,
) -> SessionPage:
    """The sessions somebody may see, last used first."""
    found = Session.objects.for_user(user) if not user.is_service else Session.objects.filter(owner=user, deleted_at__isnull=True)
    if agent:
        found = found.filter(agent=agent)
    if label:
        found = found.filter(label=label)
    if spawned_by:
        found = found.filter(parent__key=str(parse_key(spawned_by)))
    if active_minutes:
        found = found.filter(updated_at__gte=clock.now() - dt.timedelta(minutes=active_minutes))
    if search:
        found = found.filter(Q(key__icontains=search) | Q(title__icontains=search) | Q(label__icontains=search))
    page = found.annotate(owner_name=F("owner__username")).order_by("-updated_at", "id")[offset : offset + limit]
    if include_last:
        said = TranscriptEntry.objects.filter(session=OuterRef("pk"), generation=OuterRef("generation"), kind="message")
        start = Left("text", PREVIEW_CHARACTERS)
        page = page.annotate(last_text=Subquery(said.order_by("-position").annotate(start=start).values("start")[:1]))
    return SessionPage([session_row(session) for session in page], found.count())


def session_row(session: Session) -> dict[str, Any]:
    """A session as the wire lists it."""
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
    # What a list has asked for along with its rows.
    if (owner := getattr(session, "owner_name", None)) is not None:
        row["owner"] = owner
    if (last := getattr(session, "last_text", None)) is not None:
        row["lastMessagePreview"] = last
    return row


def preview(session: Session, *, limit: int, max_chars: int) -> list[dict[str, Any]]:
    """The last messages of a session, shortened."""
    said = TranscriptEntry.objects.filter(session=session, generation=session.generation).exclude(text="").order_by("-position")
    newest = said.annotate(start=Left("text", max_chars)).values_list("role", "start")[:limit]
    return [{"role": role, "text": start} for role, start in reversed(newest)]


def history(session: Session, *, limit: int, before: int | None = None) -> HistoryPage:
    """The newest messages of the current generation, oldest first, cut from the oldest to fit one reply."""
    cursor = Session.objects.values_list("cursor", flat=True).get(pk=session.pk)
    # As SQL: 1,000 messages took 35 ms as model instances, 8 ms so.
    rows = sql.rows(
        f"""
        SELECT e.position, e.role, e.content, e.created_at, e.message_id, e.meta, e.run_id, r.run_id
        FROM {sql.ENTRY} e LEFT JOIN {sql.RUN} r ON r.id = e.run_id
        WHERE e.session_id = %s AND e.generation = %s AND e.kind IN ('message', 'tool_result') AND e.position < %s
        ORDER BY e.position DESC LIMIT %s
        """,
        [sql.uuid_value(session.pk), session.generation, END if before is None else before, limit + 1],
    )
    messages: list[dict[str, Any]] = []
    runs: dict[int, str] = {}
    size, oldest = 0, None
    for position, role, content, created_at, message_id, meta, run_pk, run_id in rows[:limit]:
        size += len(content.encode()) + len(meta) + 200
        if size > LARGEST_REPLY and messages:
            break
        message = to_wire(role, orjson.loads(content), sql.as_moment(created_at), message_id, orjson.loads(meta), run_id)
        messages.append(message)
        oldest = position
        if run_pk:
            runs[run_pk] = run_id
    more = len(messages) < len(rows)
    messages.reverse()
    # From the first run of this page, or of all, to the last; the newest page goes up to what is under way.
    first = min(runs, default=END) if more else 0
    last = END if before is None else max(runs, default=0)
    unfinished = list(Run.objects.filter(session=session, status__in=Run.UNFINISHED).order_by("id")[:MOST_QUEUED])
    known = [*runs.items(), *((run.pk, run.run_id) for run in unfinished)]
    ends = ends_without_answer(session, first=first, last=last, known=known)
    return HistoryPage(messages, cursor, oldest if more else None, *_told(unfinished), ends)


def _told(unfinished: list[Run]) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    queued, active = [], None
    for run in unfinished:
        if run.status == Run.Status.ACCEPTED:
            text = run.prompt[:QUEUED_CHARACTERS]
            queued.append({"runId": run.run_id, "text": text, "acceptedAt": clock.to_ms(run.accepted_at)})
        else:
            view = live_view(run.pk)
            active = {
                "runId": run.run_id,
                "status": run.status,
                "seq": view.seq,
                "messageId": view.open_message or None,
                "text": view.open_text,
                "thinking": view.open_thinking,
                "startedAt": clock.to_ms(run.started_at) if run.started_at else None,
            }
    return queued, active


def live_view(run_pk: int) -> RunView:
    """What a client that saw every event of the run has on its screen now."""
    return replay(Event.objects.filter(run=run_pk).order_by("seq").values("seq", "stream", "data"))


def events_after(
    session: Session, cursor: int, *, limit: int = 1000, max_bytes: int = LARGEST_REPLY
) -> tuple[list[EventOut], bool]:
    """Events with a higher cursor, in order, as many as fit one reply; and whether there are more."""
    rows = sql.rows(
        f"""
        SELECT e.cursor, e.run_id, r.run_id, e.seq, e.stream, e.ts, e.data
        FROM {sql.EVENT} e LEFT JOIN {sql.RUN} r ON r.id = e.run_id
        WHERE e.session_id = %s AND e.cursor > %s ORDER BY e.cursor LIMIT %s
        """,
        [sql.uuid_value(session.pk), cursor, limit + 1],
    )
    found: list[EventOut] = []
    size = 0
    for at, run_pk, run_id, seq, stream, ts, data in rows[:limit]:
        size += len(data if data.isascii() else data.encode()) + 200
        if size > max_bytes and found:
            return found, True
        found.append(EventOut(cursor=at, run=run_pk, runId=run_id, seq=seq, stream=stream, ts=ts, data=orjson.loads(data)))
    return found, len(rows) > limit


def head_cursors(session_ids: list[str]) -> dict[str, int]:
    """Session id -> last cursor; the poll behind the bus asks for all watched sessions at once."""
    return {str(pk): cursor for pk, cursor in Session.objects.filter(pk__in=session_ids).values_list("pk", "cursor")}


def cursor_at(session: Session, moment: str) -> int:
    """The last cursor given up to an ISO time, for clients that remember times instead of cursors."""
    try:
        when = dt.datetime.fromisoformat(moment.replace("Z", "+00:00"))
    except ValueError:
        raise InvalidRequest(f"{moment!r} is neither a cursor nor an ISO time such as 2026-02-01T10:15:00Z") from None
    ts = clock.to_ms(when if when.tzinfo else when.replace(tzinfo=dt.UTC))
    # Strictly before: the event of that very moment may not have been seen.
    last = Event.objects.filter(session=session, ts__lt=ts).order_by("-cursor").values_list("cursor", flat=True).first()
    return last or oldest_kept_cursor(session) - 1


def oldest_kept_cursor(session: Session) -> int:
    oldest = Event.objects.filter(session=session).order_by("cursor").values_list("cursor", flat=True).first()
    return oldest or session.cursor + 1


def run_state(user: User, run_id: str) -> RunState:
    """One's own run of that key, also when its session was deleted meanwhile, or one in a session one may see."""
    runs = Run.objects.filter(run_id=run_id).select_related("session")
    run = runs.filter(owner=user).first() or runs.for_user(user).first()
    if run is None:
        raise NotFound(f"there is no run {run_id!r}")
    answer = (
        TranscriptEntry.objects.filter(run=run, role="assistant").order_by("-position").values_list("text", flat=True).first()
        if run.status == Run.Status.COMPLETED
        else None
    )
    return RunState(
        pk=run.pk,
        run_id=run.run_id,
        session_id=str(run.session_id),
        session_key=run.session.key,
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
