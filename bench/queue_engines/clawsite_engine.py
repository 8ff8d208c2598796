"""Our queue: `accept_run` and the real worker with leases and heartbeats, with runs that end immediately.

Unlike the other engines, it also writes events and a transcript entry for every job, as accepting and ending a run requires.
"""

import asyncio
from typing import Any
from unittest import mock

import django

from bench.queue_engines.base import CONCURRENCY, Started


class ClawsiteEngine:
    def __init__(self) -> None:
        django.setup()
        self._sessions: dict[str, Any] = {}

    async def open_sender(self, sessions: list[str]) -> None:
        from django.conf import settings

        from clawsite.accounts.tokens import ensure_service_user
        from clawsite.infra import bus, db
        from sessions_app.sessions.service import ensure_session

        settings.MAX_QUEUED_PER_USER = 1_000_000  # one user has the whole backlog
        await bus.start()
        self._user = await db.write(ensure_service_user, "bench")
        self._sessions = {name: await db.write(ensure_session, self._user, f"agent:main:{name}") for name in sessions}

    async def send(self, number: int, session: str) -> None:
        from clawsite.infra import db
        from sessions_app.runs.lifecycle import accept_run

        row = self._sessions[session]
        await db.write(accept_run, user=self._user, session=row, run_id=f"{session}-{number}", prompt=str(number), key=str(row.id))

    async def unfinished(self) -> int:
        from clawsite.infra import db
        from sessions_app.models import Run

        return await db.read(Run.objects.filter(status__in=Run.UNFINISHED).count)

    async def work(self, started: Started) -> None:
        from agents import worker
        from agents.runner import Runner
        from agents.runners import pool
        from clawsite.infra import db
        from sessions_app.models import Run
        from sessions_app.runs import queue

        class NoOpRunner(Runner):
            async def _run(self) -> None:
                started(int(self.claimed.prompt))
                await db.write(queue.end_run, self.claimed, Run.Status.COMPLETED, "stop", key=str(self.claimed.session_id))

        with mock.patch.object(pool, "Runner", NoOpRunner):
            process = worker.Worker(concurrency=CONCURRENCY)
            running = asyncio.create_task(process.run())
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                process.drain()
                await running
