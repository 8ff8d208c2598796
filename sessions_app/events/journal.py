"""Write events and transcript entries, many rows with one INSERT; defines the values to write."""

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from clawsite.infra import clock, sql
from sessions_app.search_index import index_entries
from sessions_app.tables import ENTRY, EVENT, SESSION


def new_message_id() -> str:
    """Return a wire ID for a transcript entry: 64 random bits, unique enough within a session."""
    return uuid.uuid4().hex[:16]


@dataclass(frozen=True, slots=True)
class NewEvent:
    stream: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class NewEntry:
    kind: str
    role: str
    content: list[dict[str, Any]]
    text: str
    message_id: str
    meta: dict[str, Any] = field(default_factory=dict)
    keep_through: int | None = None  # only for a rewind


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Numbers assigned to events of one session: event i has cursor first_cursor + i and, in a run, first_seq + i."""

    first_cursor: int
    first_seq: int | None
    ts: int
    events: Sequence[NewEvent]


@dataclass(frozen=True, slots=True)
class EntryPosition:
    """Position of an entry: in its session, and its step in its run."""

    session_id: uuid.UUID
    generation: int
    position: int
    run_pk: int | None = None
    step: int | None = None
    moment: dt.datetime | None = None  # set for copied entries; otherwise the current time is used


def insert_session_event(
    session_id: uuid.UUID, event: NewEvent, *, entries: Sequence[NewEntry] = (), generation: int = 1
) -> EventBatch:
    """Write a session event that belongs to no run, with the transcript entries it reports."""
    now = clock.now()
    cursor, entry_count = sql.fetch_row(
        f"""
        UPDATE {SESSION} SET cursor = cursor + 1, entry_count = entry_count + %s, updated_at = %s
        WHERE id = %s RETURNING cursor, entry_count
        """,
        [len(entries), sql.datetime_value(now), sql.uuid_value(session_id)],
    )
    first = entry_count - len(entries) + 1
    insert_entries([(EntryPosition(session_id, generation, first + i), entry) for i, entry in enumerate(entries)], now)
    batch = EventBatch(cursor, None, clock.to_ms(now), [event])
    insert_events([(session_id, None, batch)])
    return batch


def insert_events(batch: Sequence[tuple[uuid.UUID, int | None, EventBatch]]) -> None:
    values: list[Any] = []
    for session_id, run_pk, events in batch:
        for i, event in enumerate(events.events):
            seq = None if events.first_seq is None else events.first_seq + i
            values += [
                sql.uuid_value(session_id),
                events.first_cursor + i,
                run_pk,
                seq,
                event.stream,
                sql.json_text(event.data),
                events.ts,
            ]
    if values:
        rows = ", ".join(["(%s, %s, %s, %s, %s, %s, %s)"] * (len(values) // 7))
        sql.execute(f"INSERT INTO {EVENT} (session_id, cursor, run_id, seq, stream, data, ts) VALUES {rows}", values)


def insert_entries(batch: Sequence[tuple[EntryPosition, NewEntry]], now: dt.datetime) -> None:
    """Store entries, and index message text for search."""
    values: list[Any] = []
    for position, entry in batch:
        values += [sql.uuid_value(position.session_id), position.generation, position.position, position.run_pk, position.step]
        values += [entry.kind, entry.role, sql.json_text(entry.content), entry.text, entry.message_id, sql.json_text(entry.meta)]
        values += [entry.keep_through, sql.datetime_value(position.moment or now)]
    if not values:
        return
    rows = ", ".join(["(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"] * len(batch))
    columns = "session_id, generation, position, run_id, step, kind, role, content, text, message_id, meta, keep_through"
    texts = {
        (position.session_id, position.position): entry.text for position, entry in batch if entry.kind == "message" and entry.text
    }
    insert = f"INSERT INTO {ENTRY} ({columns}, created_at) VALUES {rows}"
    if not texts:
        sql.execute(insert, values)
        return
    stored = [(pk, sql.as_uuid(id), at) for pk, id, at in sql.fetch_rows(f"{insert} RETURNING id, session_id, position", values)]
    index_entries([(pk, session_id, texts[session_id, at]) for pk, session_id, at in stored if (session_id, at) in texts])
