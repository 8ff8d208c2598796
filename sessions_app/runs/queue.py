"""Worker operations on runs: claim, renew, write steps under the lease, park, end, release, recover."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import transaction

from clawsite.infra import sql
from clawsite.infra.observability import metrics
from clawsite.infra.reasons import Reason
from sessions_app import tables
from sessions_app.events import announce
from sessions_app.events.journal import NewEntry, NewEvent
from sessions_app.models import Run, Worker
from sessions_app.run_request import reader_origin
from sessions_app.runs import claim_sql, freezes, hot_sql, lifecycle, tool_calls, waiting
from sessions_app.runs.announce import announce_run
from sessions_app.runs.hot_sql import EventAppend, LeaseLost, RunStep
from sessions_app.runs.types import ClaimedRun

log = logging.getLogger(__name__)

__all__ = ["ClaimedRun", "LeaseLost"]


@dataclass(frozen=True, slots=True)
class Claim:
    """The runs taken by one claim, their lane, and the other lanes with work."""

    runs: list[ClaimedRun]
    lane: str = ""
    others: Sequence[str] = ()


def claim_runs(worker: str, limit: int, *, lanes: Sequence[str] = (), after: str = "") -> Claim:
    """Claim runs that can start, from the first of the given lanes, or from those with work, rotating after `after`.

    One lane per transaction: a claim locks its lane and then sessions, so a second lane would break the lock order.
    """
    lane, *others = lanes or _lanes_with_work(after) or [""]
    claims = claim_sql.claim_runs(worker=worker, lane=lane, max_runs=limit, lease_seconds=settings.LEASE_SECONDS) if lane else []
    for claimed, events in claims:
        announce_run(claimed, events)
    return Claim([claimed for claimed, _ in claims], lane, others)


def recover_runs(worker: str, limit: int) -> list[ClaimedRun]:
    """Take over running runs whose lease expired. Calls in flight are marked, runs beyond the recovery limit are ended.

    Frozen runs are also taken from their lost worker, but parked instead of returned.
    """
    helped = []
    for claimed, events in claim_sql.recover_runs(worker=worker, limit=limit, lease_seconds=settings.LEASE_SECONDS):
        announce_run(claimed, events)
        transaction.on_commit(metrics.runs_rescued.inc)
        log.warning("recovered run %d from a lost worker (attempt %d)", claimed.pk, claimed.rescues + 1)
        tool_calls.interrupt_started(claimed)
        if claimed.abort_reason:
            end_run(claimed, Run.Status.ABORTED, claimed.abort_reason)
        elif claimed.rescues >= settings.MAX_RESCUES:
            end_run(
                claimed,
                Run.Status.FAILED,
                "poisoned",
                Reason("run_error.poisoned", times=claimed.rescues),
            )
        elif freezes.is_frozen(claimed.agent, claimed.pk):
            waiting.park_frozen(claimed)
        else:
            helped.append(claimed)
    return helped


def renew_leases(held: Sequence[ClaimedRun]) -> dict[int, str | None]:
    """Renew the leases; map run pk to None or the requested abort reason. A missing run is lost."""
    return claim_sql.renew_leases([(claimed.pk, claimed.lease) for claimed in held], lease_seconds=settings.LEASE_SECONDS)


def append_events(batch: Sequence[tuple[ClaimedRun, Sequence[NewEvent]]]) -> set[int]:
    """Append events to many runs in one transaction; return the runs still held."""
    batches = hot_sql.append_events(
        [EventAppend(claimed.pk, claimed.session_id, claimed.lease, list(new)) for claimed, new in batch]
    )
    for claimed, _ in batch:
        if claimed.pk in batches:
            announce_run(claimed, batches[claimed.pk])
    return set(batches)


def write_step(claimed: ClaimedRun, *, to: Run.Status | None = None, **what: Any) -> None:
    """Commit one step of a held run (fields of `RunStep`) and publish it; raise LeaseLost if it is no longer held."""
    if what.get("entries") and (origin := reader_origin(claimed.request, claimed.session_key)):
        what["entries"] = [replace(entry, meta={**entry.meta, **origin}) for entry in what["entries"]]
    write = RunStep(claimed.pk, claimed.session_id, claimed.lease, generation=claimed.generation, to=to, **what)
    announce_run(claimed, hot_sql.commit_step(write))
    if to in Run.ENDED:
        announce.notify_workers(claimed.pk, "ended")
        waiting.notify_ended(claimed.lane)
        transaction.on_commit(metrics.runs_ended.labels(to).inc)


def end_run(
    claimed: ClaimedRun,
    to: Run.Status,
    reason: str,
    error: Reason | None = None,
    *,
    before: Sequence[NewEvent] = (),
    entries: Sequence[NewEntry] = (),
) -> None:
    """End a run that this worker holds, without a complete answer: after an error or an abort.

    The session is locked before the rows of calls and approvals, as everywhere.
    """
    tables.lock_sessions([sql.uuid_value(claimed.session_id)])
    last = lifecycle.build_end_event(to, reason, error, startedAt=claimed.started_ms)
    undecided, results = tool_calls.close_waiting(claimed.pk, reason)
    events = [*before, *undecided, last]
    write_step(claimed, to=to, reason=reason, error=error, events=events, entries=[*results, *entries])
    lifecycle.run_ended.send(Run, run_pk=claimed.pk, reason=reason)


def release_runs(held: Sequence[ClaimedRun]) -> None:
    """Drain: expire own leases so that the next worker continues immediately. 0 marks a handover, not a crash.

    Working time is counted here, because the run is idle until the next worker takes it.
    """
    for claimed in sorted(held, key=lambda claimed: claimed.session_id):
        sql.execute(
            f"""
            UPDATE {tables.RUN} SET lease_until = 0, running_seconds = running_seconds + ({sql.now_expression()} - claimed_at)
            WHERE id = %s AND lease_token = %s AND status = 'running' AND lease_until > 0
            """,
            [claimed.pk, claimed.lease],
        )
        announce.notify_workers(claimed.pk, "handed over")


def expire_leases(worker: str) -> int:
    """Expire the leases of a worker on this host that is known to be dead."""
    changed = sql.fetch_rows(
        f"UPDATE {tables.RUN} SET lease_until = {sql.now_expression()} - 0.001 "
        f"WHERE worker = %s AND status = 'running' AND lease_until > {sql.now_expression()} RETURNING id",
        [worker],
    )
    Worker.objects.filter(pk=worker).delete()
    return len(changed)


def list_requested_aborts(worker: str) -> dict[int, tuple[int, str]]:
    """Return this worker's runs with a requested abort: pk -> (lease, reason). Polling backs up the bus hint."""
    aborts = Run.objects.filter(worker=worker, status=Run.Status.RUNNING, abort_requested_at__isnull=False)
    return {pk: (lease, reason) for pk, lease, reason in aborts.values_list("pk", "lease_token", "abort_reason")}


def _lanes_with_work(after: str) -> list[str]:
    """List lanes with claimable runs, starting after the one served last, so that a busy lane can't starve others."""
    rows = sql.fetch_rows(
        f"""
        SELECT name FROM {tables.LANE} WHERE name IN (
          SELECT lane FROM {tables.RUN} WHERE status = 'accepted'
          UNION
          SELECT lane FROM {tables.RUN} WHERE status IN {claim_sql.UNFINISHED} AND status = 'waiting' AND ready_at IS NOT NULL
        )
        """
    )
    return sorted((lane for (lane,) in rows), key=lambda lane: (lane <= after, lane))
