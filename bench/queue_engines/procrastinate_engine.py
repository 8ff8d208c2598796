"""procrastinate, which only supports PostgreSQL. The session is the job's lock. It has no global limit, only one per worker."""

import os

import procrastinate

from bench.queue_engines.base import CONCURRENCY, Started


class ProcrastinateEngine:
    def __init__(self) -> None:
        self._app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["DATABASE_URL"]))

    async def open_sender(self, sessions: list[str]) -> None:
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()

    async def send(self, number: int, session: str) -> None:
        await self._app.configure_task("nothing", lock=session).defer_async(number=number)

    async def unfinished(self) -> int:
        jobs = await self._app.job_manager.list_jobs_async()
        return sum(job.status in ("todo", "doing") for job in jobs)

    async def work(self, started: Started) -> None:
        @self._app.task(name="nothing")
        async def nothing(number: int) -> None:
            started(number)

        async with self._app.open_async():
            await self._app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
