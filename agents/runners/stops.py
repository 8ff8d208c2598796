"""Stop those of a worker's runs that were aborted or frozen."""

from agents.runners.pool import RunnerPool
from clawsite.infra import db
from sessions_app.models import Run
from sessions_app.runs import freezes, queue


async def stop_aborted_runs(worker: str, pool: RunnerPool) -> None:
    if not pool:
        return
    for pk, (lease, reason) in (await db.read(queue.list_requested_aborts, worker)).items():
        runner = pool.get(pk)
        if runner and runner.claimed.lease == lease:
            runner.stop(Run.Status.ABORTED, reason)


async def park_frozen_runs(pool: RunnerPool) -> None:
    """Park frozen runs; they continue on any worker once they are resumed."""
    if not pool:
        return
    for freeze in await db.read(freezes.list_active):
        for runner in pool:
            if freeze.covers(runner.claimed.agent, runner.claimed.pk):
                runner.stop(Run.Status.WAITING, freeze.describe)
