"""Claim, rescue and renew as SQL: how a worker gets hold of runs and keeps it. Locks and reasons are those of hot_sql.py."""

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from clawsite.infra import clock, sql
from sessions_app import tables
from sessions_app.events.journal import EntryPosition, EventBatch, NewEntry, NewEvent, insert_entries, insert_events, new_message_id
from sessions_app.origin import WEBHOOK_KEY, reader_origin
from sessions_app.runs import client_tools, system_events
from sessions_app.runs.types import ClaimedRun
from sessions_app.tables import FREEZE, LANE, RUN, SESSION, SYSTEM_EVENT
from sessions_app.transcript.prompt_content import COMPACT, build_prompt_content

UNFINISHED = "('accepted', 'running', 'waiting')"  # letter for letter the condition of the partial index

# Of the run `c`: nobody has stopped it, its agent or everything. The table holds nothing that is in force on almost every day.
NOT_FROZEN = f"""
NOT EXISTS (
  SELECT 1 FROM {FREEZE} f WHERE f.lifted_at IS NULL AND (
    f.scope = 'all'
    OR (f.scope = 'run' AND f.subject = CAST(c.id AS varchar(64)))
    OR (f.scope = 'agent' AND f.subject = (SELECT s.agent FROM {SESSION} s WHERE s.id = c.session_id))
  )
)
"""


def claim_runs(*, worker: str, lane: str, most: int, lease_seconds: float) -> list[tuple[ClaimedRun, EventBatch]]:
    """Take up to `most` runs of a lane: parked ones that may go on first, then the heads of sessions, fair between owners."""
    # Locking the lane and counting are two statements: in a single one, two PostgreSQL workers got past a maximum of 1.
    limit = sql.fetch_row(f"SELECT max_running FROM {LANE} WHERE name = %s{sql.for_update()}", [lane])[0]
    running = sql.fetch_row(f"SELECT count(*) FROM {RUN} WHERE lane = %s AND status = 'running'", [lane])[0]
    room = min(most, limit - running)
    if room <= 0:
        return []
    # Next is the owner with the fewest running, then the oldest: row_number continues that count inside one claim.
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
          WHERE {NOT_FROZEN}
        ) ranked ORDER BY late, turn, id LIMIT %s
        """,
        [lane, lane, lane, room],
    )
    return _take_runs(
        picked, _ClaimStatement("status IN ('accepted', 'waiting')", "ready_at = NULL", "resume"), worker, lease_seconds
    )


def recover_runs(*, worker: str, most: int, lease_seconds: float) -> list[tuple[ClaimedRun, EventBatch]]:
    """Take running runs whose lease has run out. Their lane slot is still theirs, so no lane is asked."""
    expired = f"status = 'running' AND lease_until < {sql.now_expression()}"
    picked = sql.fetch_rows(f"SELECT id, session_id FROM {RUN} WHERE {expired} ORDER BY id LIMIT %s", [most])
    # A lease given back by its owner (0) is a hand-over, not a death, and does not count towards the poison limit.
    change = """
        rescues = rescues + CASE WHEN lease_until > 0 THEN 1 ELSE 0 END,
        running_seconds = running_seconds + CASE WHEN lease_until > claimed_at THEN lease_until - claimed_at ELSE 0 END
    """
    return _take_runs(picked, _ClaimStatement(expired, change, "rescued"), worker, lease_seconds)


@dataclass(frozen=True, slots=True)
class _ClaimStatement:
    condition: str  # checked again under the lock
    change: str
    phase: str  # told when the run had begun before


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
          lease_until = {sql.now_expression()} + %s, claimed_at = {sql.now_expression()}, worker = %s, started_at = coalesce(started_at, %s),
          seq = seq + 1, steps = CASE WHEN seq = 1 THEN 1 ELSE steps END
        WHERE id IN ({sql.placeholders(run_pks)}) AND {taking.condition}
        RETURNING id, run_id, session_id, owner_id, generation, lane, lease_token, seq, steps, prompt, options,
          timeout_seconds, running_seconds, rescues, accepted_at, started_at, abort_reason
        """,
        [lease_seconds, worker, sql.datetime_value(now), *run_pks],
    )
    if not rows:
        return []
    # seq was 1 (accepted) and is 2 now: the first start, which also brings the prompt into the transcript.
    first = {row[2]: row[7] == 2 for row in rows}
    opening = {row[2]: _count_opening_entries(orjson.loads(row[10])) for row in rows if first[row[2]]}
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
    held = [_to_claimed_run(row, sessions[row[2]], first[row[2]]) for row in rows]
    # No model reads the run of a call by hand; one that begins with results of tools or only summarises has no words: not told.
    may_be_told = [
        claimed for claimed in held if claimed.first and not claimed.options.keys() & set(system_events.OPTIONS_WITHOUT_EVENTS)
    ]
    waiting = {sql.as_uuid(session_id) for session_id, *_, some_wait in numbers if some_wait}
    happened = _take_system_events([claimed for claimed in may_be_told if claimed.session_id in waiting])
    taken, prompts = [], []
    for row, claimed in zip(rows, held, strict=True):
        session = sessions[row[2]]
        begun = NewEvent("lifecycle", {"phase": taking.phase, "rescues": claimed.rescues})
        if claimed.first:
            entries = _opening_entries(claimed, happened.get(claimed.session_id, ""))
            place = session[2] - len(entries) + 1
            for step, entry in enumerate(entries):
                prompts.append((EntryPosition(claimed.session_id, claimed.generation, place + step, claimed.pk, step), entry))
            if len(entries) != 1:
                sql.execute(f"UPDATE {RUN} SET steps = %s WHERE id = %s", [len(entries), claimed.pk])
            message = {"messageId": entries[0].message_id} if entries else {}
            begun = NewEvent("lifecycle", {"phase": "start", "startedAt": claimed.started_ms, **message})
        taken.append((claimed, EventBatch(session[1], claimed.seq, clock.to_ms(now), [begun])))
    insert_entries(prompts, now)
    insert_events([(claimed.session_id, claimed.pk, told) for claimed, told in taken])
    return taken


def _to_claimed_run(row: tuple[Any, ...], session: tuple[Any, ...], first: bool) -> ClaimedRun:
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
        options=orjson.loads(row[10]),
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


def _count_opening_entries(options: dict[str, Any]) -> int:
    """How many entries a run begins with."""
    return 0 if COMPACT in options else len(client_tools.tool_results_in(options)) or 1


def _opening_entries(claimed: ClaimedRun, happened: str) -> list[NewEntry]:
    """What a run begins with: its prompt, the results of calls that its caller has made, or nothing."""
    if COMPACT in claimed.options:
        return []
    results = client_tools.tool_results_in(claimed.options)
    entries = client_tools.to_entries(results) if results else [_build_prompt_entry(claimed, happened)]
    origin = reader_origin(claimed.options, claimed.session_key)
    return [replace(entry, meta={**entry.meta, **origin}) for entry in entries] if origin else entries


def _take_system_events(runs: Sequence[ClaimedRun]) -> dict[uuid.UUID, str]:
    """Take what waits for these runs; -> session: what its run is told. No statement where nothing waits.

    A run takes what came by the webhook whose limits it has, and every other run what came by none.
    """
    if not runs:
        return {}
    found = sql.fetch_rows(
        f"""
        DELETE FROM {SYSTEM_EVENT} WHERE {" OR ".join(["(session_id = %s AND hook = %s)"] * len(runs))}
        RETURNING id, session_id, text, created_at
        """,
        [value for run in runs for value in (sql.uuid_value(run.session_id), run.options.get(WEBHOOK_KEY, ""))],
    )
    told: dict[uuid.UUID, list[tuple[str, dt.datetime]]] = {}
    for _, session_id, text, moment in sorted(found, key=lambda row: int(row[0])):
        told.setdefault(sql.as_uuid(session_id), []).append((text, sql.as_datetime(moment)))
    return {session_id: system_events.format_for_model(events) for session_id, events in told.items()}


def _build_prompt_entry(claimed: ClaimedRun, happened: str) -> NewEntry:
    """The prompt, behind what happened meanwhile."""
    content, text = build_prompt_content(claimed.prompt, claimed.options), claimed.prompt
    if happened:
        content, text = [{"type": "text", "text": happened}, *content], f"{happened}\n\n{text}".strip()
    return NewEntry("message", "user", content, text, new_message_id())


def renew_leases(held: Sequence[tuple[int, int]], *, lease_seconds: float) -> dict[int, str | None]:
    """Prolong the leases still held; -> run pk: None, or the reason of a wished abort. Missing ones are lost."""
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
    return {pk: reason if asked is not None else None for pk, asked, reason in rows}
