"""The worker process: claims runs and works on them; drains on request. Its host runs everything else that apps registered.

Bus hints wake it up and polling backs up every hint: a lost hint costs a second, never a run.
"""

import asyncio
import logging
import os
import signal
import socket
import uuid
from collections.abc import Sequence

from django.conf import settings

from agents.runners.leases import LeaseKeeper
from agents.runners.pool import RunnerPool
from clawsite.infra import db
from clawsite.infra.periodic import PeriodicTask, TaskRunner
from clawsite.infra.process.host import Host
from sessions_app.runs import queue, workers

log = logging.getLogger(__name__)


class Worker:
    def __init__(self, *, concurrency: int | None = None) -> None:
        self.id = f"{socket.gethostname()[:32]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.runners = RunnerPool(concurrency or settings.WORKER_CONCURRENCY)
        self.host = Host("worker", self.id)
        leases = LeaseKeeper(self.id, self.runners)
        self.host.provide(self.runners)
        self.host.provide(leases)
        self.host.on_stop(leases.unregister)  # called last, when the commands of this worker have ended
        self._lane = ""  # last lane served

    def drain(self) -> None:
        """Claim no more runs, give running ones time to finish, then hand over the rest."""
        self.runners.draining = True
        self.runners.claim_hint.set()

    async def run(self) -> None:
        try:
            await self.host.start()
            log.info("worker %s is ready for %d runs", self.id, self.runners.size)
            await self._claim_until_drained()
            await db.write(workers.mark_draining, self.id)
            await self.runners.drain()
        finally:
            await self.host.stop()
            db.close()
            log.info("worker %s has stopped", self.id)

    async def _claim_until_drained(self) -> None:
        task = PeriodicTask("claim runs", self._claim, lambda: settings.POLL_SECONDS)
        claiming = TaskRunner(task, self.runners.claim_hint)
        while not self.runners.draining:
            await claiming.run_once()
            await claiming.wait()

    async def _claim(self) -> None:
        """Claim runs up to the concurrency limit, lane by lane, starting after the lane served last."""
        others: Sequence[str] = ()
        while (room := self.runners.room) > 0:
            turn = await db.write(queue.claim_runs, self.id, room, lanes=others, after=self._lane, alone=True)
            self.runners.start(turn.runs)
            if turn.runs:
                self._lane = turn.lane
            others = turn.others
            if not others:
                return


async def run_worker(*, concurrency: int | None = None) -> None:
    """Run until SIGTERM or SIGINT."""
    worker = Worker(concurrency=concurrency)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, worker.drain)
    await worker.run()
