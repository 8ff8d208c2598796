"""Our own queue: accept_run, the real worker with its leases and heartbeats, and runs that end as soon as they begin.

Unlike the others it also writes events and a transcript entry for every job: they are part of accepting and ending a run.
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

        settings.MAX_QUEUED_PER_USER = 1_000_000  # the backlog is one user's, and that limit is not what we measure
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
        from clawsite.infra import db
        from sessions_app.models import Run
        from sessions_app.runs import queue

        class NothingToDo(Runner):
            async def _run(self) -> None:
                started(int(self.claimed.prompt))
                await db.write(queue.end_run, self.claimed, Run.Status.COMPLETED, "stop", key=str(self.claimed.session_id))

        with mock.patch.object(worker, "Runner", NothingToDo):
            ours = worker.Worker(concurrency=CONCURRENCY)
            running = asyncio.create_task(ours.run())
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                ours.drain()
                await running
