"""DBOS on PostgreSQL: one partition per session, one workflow at a time in each, and a global limit.

DBOS polls its queues, here every 10 ms: with its default of one second, latency would only measure the polling.
"""

import asyncio
import os

import sqlalchemy
from dbos import DBOS, DBOSClient, DBOSConfig

from bench.queue_engines.base import CONCURRENCY, Started

QUEUE = "bench"
POLLING_SECONDS = 0.01


class DbosEngine:
    def __init__(self) -> None:
        self._url = os.environ["DATABASE_URL"]

    def _launch(self) -> None:
        config: DBOSConfig = {"name": "bench", "system_database_url": self._url, "application_version": "1", "log_level": "WARNING"}
        DBOS(config=config)

    async def open_sender(self, sessions: list[str]) -> None:
        def prepare() -> None:
            self._launch()
            DBOS.launch()  # creates the tables
            DBOS.destroy()

        await asyncio.to_thread(prepare)
        self._client = DBOSClient(system_database_url=self._url)
        self._engine = sqlalchemy.create_engine(self._url.replace("postgresql:", "postgresql+psycopg:"))

    async def send(self, number: int, session: str) -> None:
        # The sync call; the async version only runs it in a thread.
        self._client.enqueue(
            {"workflow_name": "nothing", "queue_name": QUEUE, "queue_partition_key": session, "app_version": "1"}, number
        )

    async def unfinished(self) -> int:
        query = "SELECT count(*) FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING')"
        with self._engine.connect() as connection:
            return int(connection.execute(sqlalchemy.text(query)).scalar_one())

    async def work(self, started: Started) -> None:
        def launch() -> None:
            self._launch()

            @DBOS.workflow(name="nothing")
            def nothing(number: int) -> None:
                started(number)

            DBOS.launch()
            DBOS.register_queue(
                QUEUE,
                partition_concurrency=1,
                global_concurrency=CONCURRENCY,
                polling_interval_sec=POLLING_SECONDS,
                on_conflict="always_update",
            )

        await asyncio.to_thread(launch)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.to_thread(DBOS.destroy)
