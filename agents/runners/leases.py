"""Record in the database that this worker is alive: register it, renew its runs' leases, and return them when it stops."""

from collections.abc import Sequence

from django.conf import settings

from agents.runners.pool import RunnerPool
from clawsite.infra import db
from clawsite.infra.clock import boot_time
from clawsite.infra.process.identity import own_identity
from clawsite.infra.version import version
from sessions_app.models import Run
from sessions_app.runs import queue, workers
from sessions_app.runs.queue import ClaimedRun


class LeaseKeeper:
    def __init__(self, worker: str, pool: RunnerPool) -> None:
        self._worker = worker
        self._pool = pool

    async def register(self) -> None:
        await db.write(workers.register, self._worker, version=version(), identity=own_identity())

    async def renew(self) -> None:
        """Renew the leases of running runs; stop runs whose lease was lost or that should be aborted."""
        if abandoned := self._pool.abandoned[:]:
            await db.write(queue.release_runs, abandoned, alone=True)
            del self._pool.abandoned[: len(abandoned)]
        held = list(self._pool)
        asked_at = boot_time()
        abort_reasons = await db.write(_send_heartbeat, self._worker, [runner.claimed for runner in held], alone=True)
        for runner in held:
            pk = runner.claimed.pk
            if pk not in abort_reasons:
                runner.stop(None, "lease lost")
            elif (reason := abort_reasons[pk]) is not None:
                runner.stop(Run.Status.ABORTED, reason)
            else:
                runner.extend_lease(asked_at + settings.LEASE_SECONDS)

    async def unregister(self) -> None:
        """Return the runs that are left; other workers continue them."""
        await db.write(_unregister, self._worker, self._pool.abandoned, alone=True)


def _send_heartbeat(worker: str, held: Sequence[ClaimedRun]) -> dict[int, str | None]:
    workers.record_heartbeat(worker)
    return queue.renew_leases(held) if held else {}


def _unregister(worker: str, held: Sequence[ClaimedRun]) -> None:
    queue.release_runs(held)
    workers.unregister(worker)
