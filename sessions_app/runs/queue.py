"""What a worker does to runs it may hold: claim, renew, write steps under the fence, park, end, give back, rescue."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import transaction

from clawsite.infra import sql
from clawsite.infra.observability import metrics
from sessions_app import tables
from sessions_app.events import announce
from sessions_app.events.journal import NewEvent
from sessions_app.models import Run, Worker
from sessions_app.origin import reader_origin
from sessions_app.runs import claim_sql, freezes, hot_sql, lifecycle, tool_calls
from sessions_app.runs.announce import announce_run
from sessions_app.runs.hot_sql import EventAppend, LeaseLost, RunStep
from sessions_app.runs.types import ClaimedRun

log = logging.getLogger(__name__)

__all__ = ["ClaimedRun", "LeaseLost"]

FROZEN = "frozen"  # reason of a run that waits because people stopped it


@dataclass(frozen=True, slots=True)
class Claim:
    """What one claim took, from which lane, and the lanes that have work besides."""

    runs: list[ClaimedRun]
    lane: str = ""
    others: Sequence[str] = ()


def claim_runs(worker: str, most: int, *, lanes: Sequence[str] = (), after: str = "") -> Claim:
    """Take what may start now in the first of the lanes; not given: those with work, going round after the one named.

    One lane for each transaction: a claim locks its lane and then sessions, so a second lane would come after sessions.
    """
    lane, *others = lanes or _lanes_with_work(after) or [""]
    taken = claim_sql.claim_runs(worker=worker, lane=lane, most=most, lease_seconds=settings.LEASE_SECONDS) if lane else []
    for claimed, told in taken:
        announce_run(claimed, told)
    return Claim([claimed for claimed, _ in taken], lane, others)


def recover_runs(worker: str, most: int) -> list[ClaimedRun]:
    """Take over running runs whose lease ran out. What was in flight is marked, what is beyond help is ended.

    What people have stopped meanwhile is taken from its lost worker too, and waits instead of being handed out.
    """
    helped = []
    for claimed, told in claim_sql.recover_runs(worker=worker, most=most, lease_seconds=settings.LEASE_SECONDS):
        announce_run(claimed, told)
        transaction.on_commit(metrics.runs_rescued.inc)
        log.warning("run %d is taken over from a lost worker (attempt %d)", claimed.pk, claimed.rescues + 1)
        tool_calls.interrupt_started(claimed)
        if claimed.abort_reason:
            end_run(claimed, Run.Status.ABORTED, claimed.abort_reason)
        elif claimed.rescues >= settings.MAX_RESCUES:
            end_run(
                claimed,
                Run.Status.FAILED,
                "poisoned",
                f"the worker died {claimed.rescues} times during this run, so it was not tried again",
            )
        elif freezes.is_frozen(claimed.agent, claimed.pk):
            park_frozen_run(claimed)
        else:
            helped.append(claimed)
    return helped


def renew_leases(held: Sequence[ClaimedRun]) -> dict[int, str | None]:
    """Prolong the leases; -> run pk: None or the reason of a wished abort. A run that is missing is lost."""
    return claim_sql.renew_leases([(claimed.pk, claimed.lease) for claimed in held], lease_seconds=settings.LEASE_SECONDS)


def append_events(batch: Sequence[tuple[ClaimedRun, Sequence[NewEvent]]]) -> set[int]:
    """Append events to many runs in one transaction; -> the runs that are still held."""
    told = hot_sql.append_events([EventAppend(claimed.pk, claimed.session_id, claimed.lease, list(new)) for claimed, new in batch])
    for claimed, _ in batch:
        if claimed.pk in told:
            announce_run(claimed, told[claimed.pk])
    return set(told)


def write_step(claimed: ClaimedRun, *, to: Run.Status | None = None, **what: Any) -> None:
    """Commit one step of a held run (fields of `Step`) and tell it; LeaseLost when it is not held any more."""
    if what.get("entries") and (origin := reader_origin(claimed.options, claimed.session_key)):
        what["entries"] = [replace(entry, meta={**entry.meta, **origin}) for entry in what["entries"]]
    write = RunStep(claimed.pk, claimed.session_id, claimed.lease, generation=claimed.generation, to=to, **what)
    announce_run(claimed, hot_sql.commit_step(write))
    if to:
        announce.notify_workers(claimed.pk, "ended" if to in Run.ENDED else "parked")
    if to in Run.ENDED:
        transaction.on_commit(metrics.runs_ended.labels(to).inc)


def end_run(claimed: ClaimedRun, to: Run.Status, reason: str, error: str = "", *, before: Sequence[NewEvent] = ()) -> None:
    """End a held run without a further answer: an error or an abort."""
    last = lifecycle.build_end_event(to, reason, error, startedAt=claimed.started_ms)
    undecided, results = tool_calls.close_waiting(claimed.pk, reason)
    write_step(claimed, to=to, reason=reason, error=error, events=[*before, *undecided, last], entries=results)
    lifecycle.unowned_run_ended.send(Run, run_pk=claimed.pk, reason=reason)


def park_run(claimed: ClaimedRun, reason: str) -> None:
    """The run waits for people or children: it keeps the session's turn, but no worker and no lane slot."""
    write_step(
        claimed, to=Run.Status.WAITING, reason=reason, events=[NewEvent("lifecycle", {"phase": "waiting", "reason": reason})]
    )


def park_frozen_run(claimed: ClaimedRun, *, before: Sequence[NewEvent] = ()) -> None:
    """People stopped the run. It is ready at once: what keeps it from being claimed is the freeze alone, so lifting that is enough,
    also if it happened a moment ago."""
    waiting = NewEvent("lifecycle", {"phase": "waiting", "reason": FROZEN})
    write_step(claimed, to=Run.Status.WAITING, reason=FROZEN, events=[*before, waiting])
    lifecycle.make_runs_ready([claimed.pk])


def release_runs(held: Sequence[ClaimedRun]) -> None:
    """Drain: expire one's own leases, so that the next worker continues at once. 0 marks a hand-over, not a death.

    The time worked is counted here: until the next worker comes, nobody works on it.
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
    """A worker of this host is provably gone: do not wait for its leases to run out."""
    changed = sql.fetch_rows(
        f"UPDATE {tables.RUN} SET lease_until = {sql.now_expression()} - 0.001 "
        f"WHERE worker = %s AND status = 'running' AND lease_until > {sql.now_expression()} RETURNING id",
        [worker],
    )
    Worker.objects.filter(pk=worker).delete()
    return len(changed)


def list_requested_aborts(worker: str) -> dict[int, tuple[int, str]]:
    """Runs of this worker that somebody wants stopped: pk -> (lease, reason). The poll behind the hint."""
    wished = Run.objects.filter(worker=worker, status=Run.Status.RUNNING, abort_requested_at__isnull=False)
    return {pk: (lease, reason) for pk, lease, reason in wished.values_list("pk", "lease_token", "abort_reason")}


def _lanes_with_work(after: str) -> list[str]:
    """Lanes with a run to take, beginning after the one served last: a busy lane must not keep another from its turn."""
    waiting = sql.fetch_rows(
        f"""
        SELECT name FROM {tables.LANE} WHERE name IN (
          SELECT lane FROM {tables.RUN} WHERE status = 'accepted'
          UNION
          SELECT lane FROM {tables.RUN} WHERE status IN {claim_sql.UNFINISHED} AND status = 'waiting' AND ready_at IS NOT NULL
        )
        """
    )
    return sorted((lane for (lane,) in waiting), key=lambda lane: (lane <= after, lane))
