"""Compare our queue with procrastinate and DBOS on the same machine: no-op jobs, in order within each session.

    python -m bench.queue_bench [--rounds 3] [--engines clawsite-sqlite,clawsite-postgres,procrastinate,dbos] [--out FILE]

latency   100 jobs, 20 ms apart, with an idle worker: from the enqueue call to the start of the job
drain     1,000 queued jobs of 100 sessions with one worker process: jobs per second between the first and the last start

Rounds are interleaved, and the table shows medians. Every job must run exactly once, in the order of its session, and none may
be left in the database. PostgreSQL runs with fsync off and SQLite with synchronous=NORMAL, so no engine waits for the disk at a
commit. Needs the packages of requirements-bench.txt.
"""

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.gateway.figures import Result, median_of, milliseconds
from bench.helper_process import HelperProcess
from bench.installation import CLEARED, prepare
from bench.report import align_columns
from tests.harness import services

ENGINES = {
    "clawsite-sqlite": "Clawsite, SQLite",
    "clawsite-postgres": "Clawsite, PostgreSQL",
    "procrastinate": "procrastinate, lock = session",
    "dbos": "DBOS, partitioned queue",
}
SESSIONS = [f"s{number}" for number in range(100)]
LATENCY_JOBS, GAP = 100, 0.02
BACKLOG = 1000
TIMEOUT = 120.0


class Comparison:
    """The engines with their databases and senders, which stay for all rounds. Workers are restarted in each round."""

    def __init__(self, engines: Sequence[str]) -> None:
        self.engines = engines
        self._home = Path(tempfile.mkdtemp(prefix="clawsite-queues-"))
        self._envs: dict[str, dict[str, str]] = {}
        self._senders: dict[str, HelperProcess] = {}
        self._next = 0

    async def open(self) -> None:
        base = {name: value for name, value in os.environ.items() if not name.startswith(CLEARED)}
        base |= {"DJANGO_SETTINGS_MODULE": "clawsite.settings"}
        server = redis = ""
        if set(self.engines) - {"clawsite-sqlite"}:
            server, redis = services.start_postgres(), services.start_redis()
        for engine in self.engines:
            env = {**base, "CLAWSITE_HOME": str(self._home / engine)}
            if engine != "clawsite-sqlite":
                env["DATABASE_URL"] = _new_database(server, engine.replace("-", "_"))
            if engine == "clawsite-postgres":
                env["REDIS_URL"] = redis
            if engine.startswith("clawsite"):
                await asyncio.to_thread(prepare, env)
            self._envs[engine] = env
            sender = self._senders[engine] = HelperProcess("bench.queue_engines.process", engine.split("-")[0], "sender", env=env)
            await sender.start()
            await sender.request(sessions=SESSIONS)

    async def close(self) -> None:
        for sender in self._senders.values():
            await sender.close()
        shutil.rmtree(self._home, ignore_errors=True)

    async def round(self, engine: str) -> Result:
        """Measure latency with a worker that has just run one job, then drain a backlog with a new worker."""
        sender = self._senders[engine]
        worker = await self._start_worker(engine)
        try:
            await self._send(sender, 1, 0.0)
            await worker.request(TIMEOUT, count=1, within=TIMEOUT)
            sent = await self._send(sender, LATENCY_JOBS, GAP)
            starts = (await worker.request(TIMEOUT, count=LATENCY_JOBS, within=TIMEOUT))["starts"]
            latency = _check_order(sent["sent"], starts)
            await self._wait_until_done(sender)
        finally:
            await worker.close()
        sent = await self._send(sender, BACKLOG, 0.0)
        worker = await self._start_worker(engine)
        try:
            starts = (await worker.request(TIMEOUT + 5, count=BACKLOG, within=TIMEOUT))["starts"]
            _check_order(sent["sent"], starts)
            await self._wait_until_done(sender)
        finally:
            await worker.close()
        moments = [moment for _, moment in starts]
        return {
            "latency_ms": milliseconds(latency),
            "drain_per_s": round(len(starts) / (max(moments) - min(moments)), 1),
            "enqueue_per_s": round(BACKLOG / sent["seconds"], 1),
            "load_average": round(os.getloadavg()[0], 2),
        }

    async def _start_worker(self, engine: str) -> HelperProcess:
        worker = HelperProcess("bench.queue_engines.process", engine.split("-")[0], "worker", env=self._envs[engine])
        await worker.start()
        return worker

    async def _send(self, sender: HelperProcess, count: int, gap: float) -> dict[str, Any]:
        first, self._next = self._next, self._next + count
        return await sender.request(send=count, first=first, gap=gap)

    async def _wait_until_done(self, sender: HelperProcess) -> None:
        for _ in range(100):
            left = (await sender.request())["unfinished"]
            if not left:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{left} jobs are still in the database")


def _check_order(sent: list[list[Any]], starts: list[list[Any]]) -> list[float]:
    """Check that every job ran once, and each session's in order. Return the seconds from enqueue to start."""
    enqueued = dict(sent)
    ran = [number for number, _ in starts]
    assert sorted(ran) == sorted(enqueued), f"{len(ran)} starts, {len(set(ran))} distinct, of {len(enqueued)} jobs"
    last: dict[int, int] = {}
    for number in ran:
        session = number % len(SESSIONS)
        assert number > last.get(session, -1), f"job {number} ran after job {last[session]} of the same session"
        last[session] = number
    return [moment - enqueued[number] for number, moment in starts]


def _new_database(server: str, name: str) -> str:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return server.rsplit("/", 1)[0] + f"/{name}"


async def compare(engines: Sequence[str], rounds: int) -> dict[str, list[Result]]:
    results: dict[str, list[Result]] = {engine: [] for engine in engines}
    comparison = Comparison(engines)
    try:
        await comparison.open()
        for number in range(1, rounds + 1):
            for engine in engines:
                started = time.time()
                results[engine].append(await comparison.round(engine))
                result = json.dumps(results[engine][-1])
                print(f"round {number} of {rounds}, {engine}, {time.time() - started:.0f} s: {result}", file=sys.stderr, flush=True)
    finally:
        await comparison.close()
    return results


def table(results: dict[str, list[Result]]) -> str:
    medians = {engine: median_of(rounds) for engine, rounds in results.items()}
    lines = [("engine", "enqueue → start, p50 / p95", "drain, jobs/s [rounds]", "enqueue/s", "drain, ratio to the first")]
    first = next(iter(medians.values()))["drain_per_s"]
    for engine, figures in medians.items():
        rates = [figure["drain_per_s"] for figure in results[engine]]
        latency = figures["latency_ms"]
        lines.append(
            (
                ENGINES[engine],
                f"{latency['p50']:.1f} / {latency['p95']:.1f} ms",
                f"{figures['drain_per_s']:.0f} [{min(rates):.0f}-{max(rates):.0f}]",
                f"{figures['enqueue_per_s']:.0f}",
                f"{figures['drain_per_s'] / first:.2f}",
            )
        )
    return align_columns(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench.queue_bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", type=lambda names: names.split(","), default=list(ENGINES))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = asyncio.run(compare(options.engines, options.rounds))
    print(f"\nmedians of {options.rounds} interleaved rounds\n{table(results)}")
    if options.out:
        options.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
