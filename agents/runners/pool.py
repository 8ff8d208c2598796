"""The runs that a worker is working on, up to its maximum."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from functools import partial

from django.conf import settings

from agents.deltas import DeltaWriter
from agents.runner import Runner
from clawsite.infra import clock
from clawsite.infra.clock import boot_time
from clawsite.infra.observability import metrics
from sessions_app.runs.queue import ClaimedRun

log = logging.getLogger(__name__)


class RunnerPool:
    def __init__(self, size: int) -> None:
        self.size = size
        self.draining = False
        self.claim_hint = asyncio.Event()  # set when a run may be claimable, or there may be room for one
        self.abandoned: list[ClaimedRun] = []  # released with the next heartbeat: an outage must not count as a dead worker
        self._runners: dict[int, Runner] = {}
        self._deltas = DeltaWriter()

    def __len__(self) -> int:
        return len(self._runners)

    def __iter__(self) -> Iterator[Runner]:
        return iter(list(self._runners.values()))

    def get(self, run_pk: int) -> Runner | None:
        return self._runners.get(run_pk)

    @property
    def room(self) -> int:
        return 0 if self.draining else self.size - len(self._runners)

    def start(self, runs: Sequence[ClaimedRun]) -> None:
        until = boot_time() + settings.LEASE_SECONDS - settings.HEARTBEAT_SECONDS
        for claimed in runs:
            if lapsed := self._runners.get(claimed.pk):  # the run stalled past its lease, and this same worker recovered it
                lapsed.stop(None, "lease lost")
            if claimed.first:
                metrics.queue_seconds.labels(claimed.lane).observe((clock.now() - claimed.accepted_at).total_seconds())
            runner = Runner(claimed, self._deltas)
            runner.extend_lease(until)
            self._runners[claimed.pk] = runner
            runner.start().add_done_callback(partial(self._runner_ended, runner))

    def _runner_ended(self, runner: Runner, _task: "asyncio.Task[None]") -> None:
        if self._runners.get(runner.claimed.pk) is runner:
            del self._runners[runner.claimed.pk]
        if runner.abandoned:
            self.abandoned.append(runner.claimed)
        self.claim_hint.set()

    async def drain(self) -> None:
        """Give the runs time to finish, then stop working on the rest."""
        tasks = [runner.open.owner for runner in self if runner.open.owner]
        if tasks:
            log.info("stopping: %d runs have up to %g s to finish", len(tasks), settings.DRAIN_SECONDS)
            await asyncio.wait(tasks, timeout=settings.DRAIN_SECONDS)
        left = list(self)
        for runner in left:
            runner.stop(None, "drained")
        await asyncio.gather(*(task for task in tasks if not task.done()), return_exceptions=True)
        self.abandoned += [runner.claimed for runner in left]
