"""Accept runs, write their steps and append events in SQL, for both databases. Every run needs these and a claim (claim_sql.py).

Through the ORM, building queries took three quarters of the writer's time (74 runs per second against 260-290). Everything
else uses the ORM. These functions run inside the caller's transaction. Locks are always taken in the order lane,
session, run; on SQLite the transaction itself (BEGIN IMMEDIATE) is the lock. Only these two modules write `Run.status`;
the transitions they allow are those of `Run.ENTERED_FROM`.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from clawsite.infra import clock, sql
from clawsite.infra.errors import NotFound
from clawsite.infra.fulltext.tokenizer import tokenize_title
from clawsite.infra.reasons import Reason
from sessions_app import tables
from sessions_app.events.journal import EntryPosition, EventBatch, NewEntry, NewEvent, insert_entries, insert_events
from sessions_app.models import Run
from sessions_app.run_request import RunRequest
from sessions_app.tables import RUN, RUN_WAIT, SESSION
from sessions_app.transcript.prompt_content import visible_attachments


class LeaseLost(Exception):
    """The run has another worker or status by now: stop working on it."""


@dataclass(frozen=True, slots=True)
class NewRun:
    session_id: uuid.UUID
    owner_id: int
    sender: str  # the author's name, for other members of the session
    run_id: str
    request_hash: str
    lane: str
    prompt: str
    title: str  # session title, if it has none yet
    request: RunRequest
    timeout_seconds: float | None


def insert_run(run: NewRun) -> tuple[int, EventBatch] | None:
    """Insert a run and its first event in the session's order; None if the run ID was taken concurrently."""
    now = clock.now()
    session_id, moment = sql.uuid_value(run.session_id), sql.datetime_value(now)
    # Lock the session row first, so that run IDs of one session are assigned in commit order.
    session = sql.fetch_rows(
        f"""
        UPDATE {SESSION} SET cursor = cursor + 1, updated_at = %s, title = CASE WHEN title = '' THEN %s ELSE title END,
          title_words = CASE WHEN title = '' THEN title_words || %s ELSE title_words END
        WHERE id = %s AND deleted_at IS NULL RETURNING cursor, generation
        """,
        [moment, run.title, tokenize_title(run.title), session_id],
    )
    if not session:
        raise NotFound(_("The session was deleted."))
    cursor, generation = session[0]
    values = [session_id, run.owner_id, generation, run.run_id, run.request_hash, run.lane, run.prompt]
    inserted = sql.fetch_rows(
        f"""
        INSERT INTO {RUN} (
          session_id, owner_id, generation, run_id, request_hash, lane, prompt, options, timeout_seconds, accepted_at,
          status, seq, steps, lease_token, rescues, running_seconds, input_tokens, output_tokens, cost_microusd,
          reason, error, worker, abort_reason, model
        )
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 'accepted', 1, 0, 0, 0, 0, 0, 0, 0, '', '', '', '', '')
        ON CONFLICT (owner_id, run_id) DO NOTHING RETURNING id
        """,
        [*values, sql.json_text(run.request.to_json()), run.timeout_seconds, moment],
    )
    if not inserted:
        # Another process was first. Return the cursor number before anyone can see it: we hold the row lock.
        sql.execute(f"UPDATE {SESSION} SET cursor = cursor - 1 WHERE id = %s", [session_id])
        return None
    accepted: dict[str, Any] = {"phase": "accepted", "prompt": run.prompt, "sender": run.sender, "acceptedAt": clock.to_ms(now)}
    if run.request.attachments:
        accepted["attachments"] = visible_attachments(run.request.attachments)
    if operation := run.request.kind.operation:
        accepted["operation"] = operation  # has no message, so clients don't show the prompt as one
    first = NewEvent("lifecycle", accepted)
    batch = EventBatch(cursor, 1, clock.to_ms(now), [first])
    insert_events([(run.session_id, inserted[0][0], batch)])
    return inserted[0][0], batch


@dataclass(frozen=True, slots=True)
class RunStep:
    """What one step of a run writes, all or nothing: events, transcript entries, usage and optionally the next status."""

    run_pk: int
    session_id: uuid.UUID
    lease: int | None  # None: no worker holds the run (accepted or waiting)
    events: Sequence[NewEvent] = ()
    entries: Sequence[NewEntry] = ()
    generation: int = 1
    to: Run.Status | None = None
    reason: str = ""
    error: Reason | None = None
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: int = 0


def commit_step(step: RunStep) -> EventBatch:
    """Write one step of a run under its lease; raise LeaseLost if this worker no longer holds the run."""
    now = clock.now()
    n, m = len(step.events), len(step.entries)
    usage = [step.input_tokens, step.output_tokens, step.cost_microusd]
    session = sql.fetch_rows(
        f"""
        UPDATE {SESSION} SET cursor = cursor + %s, entry_count = entry_count + %s, updated_at = %s,
          input_tokens = input_tokens + %s, output_tokens = output_tokens + %s, cost_microusd = cost_microusd + %s
        WHERE id = %s RETURNING cursor, entry_count
        """,
        [n, m, sql.datetime_value(now), *usage, sql.uuid_value(step.session_id)],
    )
    changes = ["seq = seq + %s", "steps = steps + %s"]
    values: list[Any] = [n, m]
    if step.model:
        changes += ["model = %s", "input_tokens = input_tokens + %s", "output_tokens = output_tokens + %s"]
        changes += ["cost_microusd = cost_microusd + %s"]
        values += [step.model, *usage]
    if step.to:
        changes += [
            "status = %s",
            "reason = %s",
            "error = %s",
            "ended_at = %s",
            "lease_until = NULL",
            "worker = ''",
            "ready_at = NULL",
        ]
        changes += [
            f"running_seconds = running_seconds + CASE WHEN status = 'running' THEN {sql.now_expression()} - claimed_at ELSE 0 END"
        ]
        values += [
            str(step.to),
            step.reason,
            step.error.text if step.error else "",
            sql.datetime_value(now) if step.to in Run.ENDED else None,
        ]
    if step.error:
        changes.append("error_reason = %s")
        values.append(sql.json_text(step.error.to_json()))
    # A run that ends no longer waits for anything. Most runs never wait, so this costs them no statement.
    has_waits = f", EXISTS (SELECT 1 FROM {RUN_WAIT} w WHERE w.run_id = {RUN}.id)" if step.to in Run.ENDED else ""
    held = step.lease is not None
    before = (
        [Run.Status.RUNNING] if held else [s for s in Run.ENTERED_FROM[step.to or Run.Status.ABORTED] if s != Run.Status.RUNNING]
    )
    run = sql.fetch_rows(
        f"""
        UPDATE {RUN} SET {", ".join(changes)}
        WHERE id = %s AND status IN ({sql.placeholders(before)}) {"AND lease_token = %s" if held else ""}
        RETURNING seq, steps{has_waits}
        """,
        [*values, step.run_pk, *(str(status) for status in before), *([step.lease] if held else [])],
    )
    if not session or not run:
        raise LeaseLost(f"run {step.run_pk} is no longer held under lease {step.lease}")
    (cursor, entry_count), (seq, steps, *waits) = session[0], run[0]
    if any(waits):
        _close_waits(step.run_pk)
    batch = EventBatch(cursor - n + 1, seq - n + 1, clock.to_ms(now), step.events)
    positions = [
        EntryPosition(step.session_id, step.generation, entry_count - m + 1 + i, step.run_pk, steps - m + i) for i in range(m)
    ]
    insert_entries(list(zip(positions, step.entries, strict=True)), now)
    insert_events([(step.session_id, step.run_pk, batch)])
    return batch


def _close_waits(run_pk: int) -> None:
    sql.execute(f"DELETE FROM {RUN_WAIT} WHERE run_id = %s", [run_pk])


@dataclass(frozen=True, slots=True)
class EventAppend:
    run_pk: int
    session_id: uuid.UUID
    lease: int
    events: Sequence[NewEvent]


def append_events(batch: Sequence[EventAppend]) -> dict[int, EventBatch]:
    """Append events to many runs; runs whose lease check fails are left out, the others are written."""
    batch = sorted(batch, key=lambda item: item.session_id)
    tables.lock_sessions([sql.uuid_value(item.session_id) for item in batch])
    held = dict(
        sql.fetch_rows(
            f"""
            WITH v(id, lease, n) AS (VALUES {", ".join(["(%s, %s, %s)"] * len(batch))})
            UPDATE {RUN} SET seq = seq + v.n FROM v
            WHERE {RUN}.id = v.id AND lease_token = v.lease AND status = 'running' RETURNING {RUN}.id, seq
            """,
            [value for item in batch for value in (item.run_pk, item.lease, len(item.events))],
        )
    )
    batch = [item for item in batch if item.run_pk in held]
    if not batch:
        return {}
    cursors = dict(
        sql.fetch_rows(
            f"""
            WITH v(id, n) AS (VALUES {", ".join(["(%s, %s)"] * len(batch))})
            UPDATE {SESSION} SET cursor = cursor + v.n FROM v WHERE {SESSION}.id = v.id RETURNING {SESSION}.id, cursor
            """,
            [value for item in batch for value in (sql.uuid_value(item.session_id), len(item.events))],
        )
    )
    ts = clock.now_ms()
    told = {}
    for item in batch:
        n = len(item.events)
        told[item.run_pk] = EventBatch(cursors[sql.uuid_value(item.session_id)] - n + 1, held[item.run_pk] - n + 1, ts, item.events)
    insert_events([(item.session_id, item.run_pk, told[item.run_pk]) for item in batch])
    return told
