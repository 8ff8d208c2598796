"""The sender or worker process of an engine, started by queue_bench: `bench.queue_engines.process ENGINE sender|worker`."""

import asyncio
import sys
import time
from typing import Any

from bench.helper_process import next_request, respond
from bench.queue_engines.base import Engine


def make_engine(name: str) -> Engine:
    """Import only the library of this engine."""
    if name == "clawsite":
        from bench.queue_engines.clawsite_engine import ClawsiteEngine

        return ClawsiteEngine()
    if name == "procrastinate":
        from bench.queue_engines.procrastinate_engine import ProcrastinateEngine

        return ProcrastinateEngine()
    from bench.queue_engines.dbos_engine import DbosEngine

    return DbosEngine()


async def sender(engine: Engine) -> None:
    request = await next_request()
    assert request
    sessions: list[str] = request["sessions"]
    await engine.open_sender(sessions)
    respond({"ready": True})
    while (request := await next_request()) is not None:
        if "send" not in request:
            respond({"unfinished": await engine.unfinished()})
            continue
        sent: list[tuple[int, float]] = []
        started = time.time()
        for step, number in enumerate(range(request["first"], request["first"] + request["send"])):
            pause = started + step * request["gap"] - time.time()
            if pause > 0:
                await asyncio.sleep(pause)
            sent.append((number, time.time()))
            await engine.send(number, sessions[number % len(sessions)])
        respond({"sent": sent, "seconds": time.time() - started})


class StartLog:
    """Records when each job started. Jobs can start on any thread."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, float]] = []
        self._expected = 0
        self._complete = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def record(self, number: int) -> None:
        self.entries.append((number, time.time()))
        if len(self.entries) == self._expected:
            self._loop.call_soon_threadsafe(self._complete.set)

    async def wait_for(self, count: int) -> None:
        self._expected = count
        self._complete.clear()
        if len(self.entries) < count:
            await self._complete.wait()


async def worker(engine: Engine) -> None:
    starts = StartLog()
    working = asyncio.create_task(engine.work(starts.record))
    try:
        while (request := await next_request()) is not None:
            complete = asyncio.create_task(starts.wait_for(request["count"]))
            await asyncio.wait({complete, working}, timeout=request["within"], return_when=asyncio.FIRST_COMPLETED)
            complete.cancel()
            if working.done():
                await working
            respond({"starts": starts.entries})
            starts.entries = []
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def main() -> None:
    name, role = sys.argv[1:]
    engine = make_engine(name)
    run: Any = sender(engine) if role == "sender" else worker(engine)
    if name == "dbos":
        asyncio.run(run)  # this engine uses its own threads
    else:
        import uvloop

        uvloop.run(run)


if __name__ == "__main__":
    main()
