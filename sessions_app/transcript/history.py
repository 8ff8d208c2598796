"""The transcript of a session as a chat shows it, page by page, with what is going on now."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from clawsite.infra import clock, sql
from sessions_app import tables
from sessions_app.events.replay import RunView, replay
from sessions_app.models import Event, Run, Session, TranscriptEntry
from sessions_app.transcript.message_details import Row, messages_of, names_in, never_begun, read_facts
from sessions_app.transcript.prompt_content import COMPACT, attached
from sessions_app.transcript.rewinds import place_of, visible

# One reply must fit into a socket's queue (1 MiB) with room for the events behind it.
LARGEST_REPLY = 768 * 1024

# Prompts that wait are shown beside the history and share the room that a reply of 768 KiB leaves of a frame.
QUEUED_CHARACTERS, MOST_QUEUED = 50_000, 100
END = 2**31 - 1  # behind every position
SHOWN = "('message', 'tool_result')"
NOTED = "('message', 'tool_result', 'compaction', 'session')"


@dataclass(frozen=True, slots=True)
class HistoryPage:
    messages: list[dict[str, Any]]
    cursor: int  # head of the event log, read before the messages: what comes later can be asked for by it
    end: int  # position up to which nothing is missing at the newer end, if `after` is None
    before: int | None  # position to ask for older ones, None when there are none
    after: int | None = None  # position to ask for newer ones, None when there are none
    queued: list[dict[str, Any]] = field(default_factory=list)
    active: dict[str, Any] | None = None


def history(
    session: Session,
    *,
    limit: int,
    before: int | None = None,
    after: int | None = None,
    around: str | None = None,
    notices: bool = False,
    room: int = LARGEST_REPLY,
) -> HistoryPage:
    """Messages of the current generation, oldest first: the newest, those before or after a position, or around a message.

    What does not fit the room is left out at the far end: old ones of the newest, new ones of those after a position.
    """
    cursor, end = Session.objects.values_list("cursor", "entry_count").get(pk=session.pk)
    kinds = NOTED if notices else SHOWN
    older: list[Row] = []
    newer: list[Row] = []
    # Positions of the rows next to the page at either end, None where there are none.
    next_older: int | None = None
    next_newer: int | None = None
    if around is not None:
        middle = place_of(session, around).position
        newer, next_newer, room = read_entries(session, kinds, f"e.position >= {middle}", "", limit - limit // 2, room)
        older, next_older, _ = read_entries(session, kinds, f"e.position < {middle}", "DESC", limit // 2, room)
    elif after is not None:
        newer, next_newer, _ = read_entries(session, kinds, f"e.position > {min(after, END)}", "", limit, room)
        next_older = after or None
    else:
        place = f"e.position < {END if before is None else min(before, END)}"
        older, next_older, _ = read_entries(session, kinds, place, "DESC", limit, room)
        next_newer = before
    rows = [*reversed(older), *newer]
    names = names_in(session, {row.writer for row in rows if row.writer})
    messages = messages_of(rows, read_facts(rows), notices=notices, names=names)
    oldest, newest = (rows[0].position, rows[-1].position) if rows else (None, None)
    if notices and (rows or not (next_older or next_newer)):
        since = rows[0].position if rows and next_older else 0
        messages += never_begun(session, since, next_newer - 1 if next_newer else END)
        messages.sort(key=lambda message: message["position"])
    queued, active = _unfinished(session)
    end = max(end, newest or 0)  # some may have come between the two readings
    return HistoryPage(messages, cursor, end, oldest if next_older else None, newest if next_newer else None, queued, active)


def read_entries(
    session: Session, kinds: str, place: str, order: str, limit: int, room: int, values: Sequence[Any] = ()
) -> tuple[list[Row], int | None, int]:
    """Entries from a place on, the position of the next one if there are more, and the bytes that are left of the room.

    `values` are those of the place.
    """
    # As SQL: 1,000 messages took 35 ms as model instances, 8 ms so.
    found = sql.rows(
        f"""
        SELECT e.position, e.kind, e.role, e.content, e.created_at, e.message_id, e.meta, e.text, e.run_id, r.run_id,
          CASE WHEN e.step = r.steps - 1 THEN r.status ELSE '' END, r.reason, r.error, r.started_at, r.ended_at, r.owner_id
        FROM {tables.ENTRY} e LEFT JOIN {tables.RUN} r ON r.id = e.run_id
        WHERE e.session_id = %s AND e.generation = %s AND e.kind IN {kinds} AND {place} AND {visible("e")}
        ORDER BY e.position {order} LIMIT %s
        """,
        [sql.uuid_value(session.pk), session.generation, *values, limit + 1],
    )
    rows: list[Row] = []
    for entry in found[:limit]:
        room -= len(entry[3].encode()) + len(entry[6]) + 200
        if room < 0 and rows:
            break
        rows.append(_row(*entry))
    return rows, found[len(rows)][0] if len(rows) < len(found) else None, max(room, 0)


def _row(*entry: Any) -> Row:
    position, kind, role, content, moment, message_id, meta, text, run_pk, run_id, *run = entry
    words, facts = orjson.loads(content), orjson.loads(meta)
    return Row(position, kind, role, words, sql.as_moment(moment), message_id, facts, text, run_pk, run_id, *run)


def rows_through(session: Session, *, after: int, limit: int) -> list[Row]:
    """Entries behind a position, of every kind that can be seen, for those who copy them."""
    return read_entries(session, NOTED, f"e.position > {after}", "", limit, END)[0]


def _unfinished(session: Session) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    queued: list[dict[str, Any]] = []
    active, room = None, QUEUED_CHARACTERS
    unfinished = Run.objects.filter(session=session, status__in=Run.UNFINISHED).select_related("owner").order_by("id")
    for run in unfinished[:MOST_QUEUED]:
        if run.status == Run.Status.ACCEPTED:
            waiting: dict[str, Any] = {"runId": run.run_id, "text": run.prompt[:room], "acceptedAt": clock.to_ms(run.accepted_at)}
            waiting["sender"] = run.owner.username
            if len(run.prompt) > room:
                waiting["truncated"] = True
            if brought := attached(run.options):
                waiting["attachments"] = brought
            if COMPACT in run.options:
                waiting["operation"] = COMPACT
            room = max(0, room - len(run.prompt))
            queued.append(waiting)
        else:
            view = live_view(run.pk)
            active = {
                "runId": run.run_id,
                "status": run.status,
                "waitingFor": run.reason or None if run.status == Run.Status.WAITING else None,
                "seq": view.seq,
                "messageId": view.open_message or None,
                "text": view.open_text,
                "thinking": view.open_thinking,
                "startedAt": clock.to_ms(run.started_at) if run.started_at else None,
            }
            if view.compacting:
                active["operation"] = COMPACT
    return queued, active


MOST = 200  # messages; who is further behind reads the newest page again


class End(NamedTuple):
    """The newer end of what a client has. The epoch is that of the session's log, `generation` changes with a reset."""

    epoch: str
    generation: str
    position: int

    @classmethod
    def of(cls, epoch: str, session: Session, page: HistoryPage) -> "End":
        return cls(epoch, session.generation_id.hex, page.end)

    @classmethod
    def read(cls, text: str) -> "End | None":
        """None where it is not one of ours."""
        epoch, _, rest = text.partition(".")
        generation, _, position = rest.partition(".")
        return cls(epoch, generation, int(position)) if position.isdecimal() and len(position) < 16 else None

    def __str__(self) -> str:
        return f"{self.epoch}.{self.generation}.{self.position}"


def said_since(session: Session, end: End, epoch: str, room: int) -> HistoryPage | None:
    """None where what the client has cannot be continued: another log, a reset, a step back, or too far behind."""
    if (end.epoch, end.generation) != (epoch, session.generation_id.hex):
        return None
    page = history(session, limit=MOST, after=end.position, room=room)
    if page.after is not None or page.end < end.position:
        return None
    # Looked for after the messages were read: a step back that comes between the two costs one more reading.
    steps_back = TranscriptEntry.objects.filter(session=session, kind=TranscriptEntry.Kind.REWIND, position__gt=end.position)
    return None if steps_back.exists() else page


def live_view(run_pk: int) -> RunView:
    """What a client that saw every event of the run has on its screen now."""
    return replay(Event.objects.filter(run=run_pk).order_by("seq").values("seq", "stream", "data"))
