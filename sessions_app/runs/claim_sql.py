"""Claim, recover and renew runs in SQL: how a worker acquires and keeps runs. Locking follows hot_sql.py."""

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from clawsite.infra import clock, sql
from sessions_app import tables
from sessions_app.events.journal import EntryPosition, EventBatch, NewEntry, NewEvent, insert_entries, insert_events, new_message_id
from sessions_app.run_request import Compaction, RunKind, RunRequest, ToolResults, reader_origin
from sessions_app.runs import client_tools, system_events
from sessions_app.runs.types import ClaimedRun
from sessions_app.tables import FREEZE, LANE, RUN, SESSION, SYSTEM_EVENT
from sessions_app.transcript.prompt_content import build_prompt_content

UNFINISHED = "('accepted', 'running', 'waiting')"  # must match the condition of the partial index exactly

# Freeze `f` is in force and covers run `c`. The table almost never has freezes in force.
FREEZE_HOLDS_RUN = f"""
f.lifted_at IS NULL AND (
  f.scope = 'all'
  OR (f.scope = 'run' AND f.subject = CAST(c.id AS varchar(64)))
  OR (f.scope = 'agent' AND f.subject = (SELECT s.agent FROM {SESSION} s WHERE s.id = c.session_id))
)
"""


def claim_runs(*, worker: str, lane: str, max_runs: int, lease_seconds: float) -> list[tuple[ClaimedRun, EventBatch]]:
    """Claim up to `max_runs` runs of a lane: ready parked runs first, then the heads of sessions, fairly between owners."""
    # Locking the lane and counting are two statements: in a single one, two PostgreSQL workers exceeded a maximum of 1.
    limit = sql.fetch_row(f"SELECT max_running FROM {LANE} WHERE name = %s{sql.for_update()}", [lane])[0]
    running = sql.fetch_row(f"SELECT count(*) FROM {RUN} WHERE lane = %s AND status = 'running'", [lane])[0]
    room = min(max_runs, limit - running)
    if room <= 0:
        return []
    # The owner with the fewest running runs is next, then the oldest run; row_number adds the runs picked by this claim.
    picked = sql.fetch_rows(
        f"""
        SELECT id, session_id FROM (
          SELECT c.id, c.session_id, c.late,
                 coalesce(b.n, 0) + row_number() OVER (PARTITION BY c.owner_id ORDER BY c.late, c.id) AS turn
          FROM (
            SELECT r.id, r.session_id, r.owner_id, 0 AS late FROM {RUN} r
            WHERE r.status IN {UNFINISHED} AND r.status = 'waiting' AND r.lane = %s AND r.ready_at IS NOT NULL
            UNION ALL
            SELECT r.id, r.session_id, r.owner_id, 1 AS late FROM {RUN} r
            WHERE r.status = 'accepted' AND r.lane = %s AND NOT EXISTS (
              SELECT 1 FROM {RUN} e WHERE e.status IN {UNFINISHED} AND e.session_id = r.session_id AND e.id < r.id
            )
          ) c
          LEFT JOIN (
            SELECT owner_id, count(*) AS n FROM {RUN} WHERE status = 'running' AND lane = %s GROUP BY owner_id
          ) b ON b.owner_id = c.owner_id
          WHERE NOT EXISTS (SELECT 1 FROM {FREEZE} f WHERE {FREEZE_HOLDS_RUN})
        ) ranked ORDER BY late, turn, id LIMIT %s
        """,
        [lane, lane, lane, room],
    )
    return _take_runs(
        picked, _ClaimStatement("status IN ('accepted', 'waiting')", "ready_at = NULL", "resume"), worker, lease_seconds
    )


def recover_runs(*, worker: str, limit: int, lease_seconds: float) -> list[tuple[ClaimedRun, EventBatch]]:
    """Take running runs whose lease has expired. They still hold their lane slot, so no lane is checked."""
    expired = f"status = 'running' AND lease_until < {sql.now_expression()}"
    picked = sql.fetch_rows(f"SELECT id, session_id FROM {RUN} WHERE {expired} ORDER BY id LIMIT %s", [limit])
    # A lease released by its worker (0) is a handover, not a crash, and doesn't count toward the recovery limit.
    change = """
        rescues = rescues + CASE WHEN lease_until > 0 THEN 1 ELSE 0 END,
        running_seconds = running_seconds + CASE WHEN lease_until > claimed_at THEN lease_until - claimed_at ELSE 0 END
    """
    return _take_runs(picked, _ClaimStatement(expired, change, "rescued"), worker, lease_seconds)


@dataclass(frozen=True, slots=True)
class _ClaimStatement:
    condition: str  # checked again under the lock
    change: str
    phase: str  # sent if the run had already started


def _take_runs(
    picked: list[tuple[Any, ...]], taking: _ClaimStatement, worker: str, lease_seconds: float
) -> list[tuple[ClaimedRun, EventBatch]]:
    if not picked:
        return []
    tables.lock_sessions([session_id for _, session_id in picked])
    now = clock.now()
    run_pks = [pk for pk, _ in picked]
    rows = sql.fetch_rows(
        f"""
        UPDATE {RUN} SET status = 'running', lease_token = lease_token + 1, {taking.change},
          lease_until = {sql.now_expression()} + %s, claimed_at = {sql.now_expression()}, worker = %s,
          started_at = coalesce(started_at, %s),
          seq = seq + 1, steps = CASE WHEN seq = 1 THEN 1 ELSE steps END
        WHERE id IN ({sql.placeholders(run_pks)}) AND {taking.condition}
        RETURNING id, run_id, session_id, owner_id, generation, lane, lease_token, seq, steps, prompt, options,
          timeout_seconds, running_seconds, rescues, accepted_at, started_at, abort_reason
        """,
        [lease_seconds, worker, sql.datetime_value(now), *run_pks],
    )
    if not rows:
        return []
    # seq was 1 (accepted) and is now 2: the first start, which also adds the prompt to the transcript.
    first = {row[2]: row[7] == 2 for row in rows}
    requests = {row[0]: RunRequest.from_json(orjson.loads(row[10])) for row in rows}
    opening = {row[2]: _count_opening_entries(requests[row[0]].kind) for row in rows if first[row[2]]}
    marks = ", ".join(["(%s, %s)"] * len(first))
    numbers = sql.fetch_rows(
        f"""
        WITH v(id, n) AS (VALUES {marks})
        UPDATE {SESSION} SET cursor = cursor + 1, entry_count = entry_count + v.n, updated_at = %s FROM v WHERE {SESSION}.id = v.id
        RETURNING {SESSION}.id, cursor, entry_count, key, agent, model, thinking_level, owner_id, channel,
          EXISTS (SELECT 1 FROM {SYSTEM_EVENT} w WHERE w.session_id = {SESSION}.id)
        """,
        [value for session_id in first for value in (session_id, opening.get(session_id, 0))] + [sql.datetime_value(now)],
    )
    sessions = {row[0]: row for row in numbers}
    held = [_to_claimed_run(row, requests[row[0]], sessions[row[2]], first[row[2]]) for row in rows]
    # No system events for direct tool calls, which no model reads, or for runs that start with tool results or only compact.
    may_be_told = [claimed for claimed in held if claimed.first and claimed.request.kind.takes_events]
    waiting = {sql.as_uuid(session_id) for session_id, *_, some_wait in numbers if some_wait}
    happened = _take_system_events([claimed for claimed in may_be_told if claimed.session_id in waiting])
    claims, prompts = [], []
    for row, claimed in zip(rows, held, strict=True):
        session = sessions[row[2]]
        begun = NewEvent("lifecycle", {"phase": taking.phase, "rescues": claimed.rescues})
        if claimed.first:
            entries = _opening_entries(claimed, happened.get(claimed.session_id, ""))
            position = session[2] - len(entries) + 1
            for step, entry in enumerate(entries):
                prompts.append((EntryPosition(claimed.session_id, claimed.generation, position + step, claimed.pk, step), entry))
            if len(entries) != 1:
                sql.execute(f"UPDATE {RUN} SET steps = %s WHERE id = %s", [len(entries), claimed.pk])
            message = {"messageId": entries[0].message_id} if entries else {}
            begun = NewEvent("lifecycle", {"phase": "start", "startedAt": claimed.started_ms, **message})
        claims.append((claimed, EventBatch(session[1], claimed.seq, clock.to_ms(now), [begun])))
    insert_entries(prompts, now)
    insert_events([(claimed.session_id, claimed.pk, events) for claimed, events in claims])
    return claims


def _to_claimed_run(row: tuple[Any, ...], request: RunRequest, session: tuple[Any, ...], first: bool) -> ClaimedRun:
    return ClaimedRun(
        pk=row[0],
        run_id=row[1],
        session_id=sql.as_uuid(row[2]),
        session_key=session[3],
        owner_id=row[3],
        session_owner_id=session[7],
        agent=session[4],
        generation=row[4],
        lane=row[5],
        lease=row[6],
        seq=row[7],
        steps=row[8],
        prompt=row[9],
        request=request,
        session_model=session[5],
        thinking_level=session[6],
        timeout_seconds=row[11],
        running_seconds=row[12],
        rescues=row[13],
        accepted_at=sql.as_datetime(row[14]),
        started_ms=clock.to_ms(sql.as_datetime(row[15])),
        first=first,
        abort_reason=row[16],
        channel=session[8],
    )


def _count_opening_entries(kind: RunKind) -> int:
    """Return how many entries a run starts with."""
    match kind:
        case Compaction():
            return 0
        case ToolResults(results):
            return len(results)
    return 1


def _opening_entries(claimed: ClaimedRun, happened: str) -> list[NewEntry]:
    """Return a run's first entries: its prompt, the results of client tool calls, or nothing."""
    match claimed.request.kind:
        case Compaction():
            return []
        case ToolResults(results):
            entries = client_tools.to_entries(results)
        case _:
            entries = [_build_prompt_entry(claimed, happened)]
    origin = reader_origin(claimed.request, claimed.session_key)
    return [replace(entry, meta={**entry.meta, **origin}) for entry in entries] if origin else entries


def _take_system_events(runs: Sequence[ClaimedRun]) -> dict[uuid.UUID, str]:
    """Take the system events queued for these runs; map session to their text. Runs no statement if nothing is queued.

    A run with a webhook's limits takes that webhook's events; every other run takes events without a webhook.
    """
    if not runs:
        return {}
    rows = sql.fetch_rows(
        f"""
        DELETE FROM {SYSTEM_EVENT} WHERE {" OR ".join(["(session_id = %s AND hook = %s)"] * len(runs))}
        RETURNING id, session_id, text, created_at
        """,
        [value for run in runs for value in (sql.uuid_value(run.session_id), run.request.origin.webhook)],
    )
    pending: dict[uuid.UUID, list[tuple[str, dt.datetime]]] = {}
    for _, session_id, text, moment in sorted(rows, key=lambda row: int(row[0])):
        pending.setdefault(sql.as_uuid(session_id), []).append((text, sql.as_datetime(moment)))
    return {session_id: system_events.format_for_model(events) for session_id, events in pending.items()}


def _build_prompt_entry(claimed: ClaimedRun, happened: str) -> NewEntry:
    """Build the prompt entry, after the system events."""
    content, text = build_prompt_content(claimed.prompt, claimed.request.attachments), claimed.prompt
    if happened:
        content, text = [{"type": "text", "text": happened}, *content], f"{happened}\n\n{text}".strip()
    return NewEntry("message", "user", content, text, new_message_id())


def renew_leases(held: Sequence[tuple[int, int]], *, lease_seconds: float) -> dict[int, str | None]:
    """Renew the leases still held; map run pk to None or the requested abort reason. Missing runs are lost."""
    tables.lock_runs([pk for pk, _ in held])
    rows = sql.fetch_rows(
        f"""
        WITH v(id, lease) AS (VALUES {", ".join(["(%s, %s)"] * len(held))})
        UPDATE {RUN} SET lease_until = {sql.now_expression()} + %s FROM v
        WHERE {RUN}.id = v.id AND lease_token = v.lease AND status = 'running'
        RETURNING {RUN}.id, abort_requested_at, abort_reason
        """,
        [value for pair in held for value in pair] + [lease_seconds],
    )
    return {pk: reason if requested_at is not None else None for pk, requested_at, reason in rows}
