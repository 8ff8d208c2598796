"""One side of one engine as a process: python -m bench.queue_engines.process ENGINE sender|worker (asked by queue_bench)."""

import asyncio
import sys
import time
from typing import Any

from bench.helper_process import answer, next_question
from bench.queue_engines.base import Engine


def make_engine(name: str) -> Engine:
    """Each in its own branch: only one of the libraries is loaded."""
    if name == "clawsite":
        from bench.queue_engines.clawsite_engine import ClawsiteEngine

        return ClawsiteEngine()
    if name == "procrastinate":
        from bench.queue_engines.procrastinate_engine import ProcrastinateEngine

        return ProcrastinateEngine()
    from bench.queue_engines.dbos_engine import DbosEngine

    return DbosEngine()


async def sender(engine: Engine) -> None:
    question = await next_question()
    assert question
    sessions: list[str] = question["sessions"]
    await engine.open_sender(sessions)
    answer({"ready": True})
    while (question := await next_question()) is not None:
        if "send" not in question:
            answer({"unfinished": await engine.unfinished()})
            continue
        sent: list[tuple[int, float]] = []
        began = time.time()
        for step, number in enumerate(range(question["first"], question["first"] + question["send"])):
            pause = began + step * question["gap"] - time.time()
            if pause > 0:
                await asyncio.sleep(pause)
            sent.append((number, time.time()))
            await engine.send(number, sessions[number % len(sessions)])
        answer({"sent": sent, "seconds": time.time() - began})


class Starts:
    """Which job began when. Jobs may begin on any thread."""

    def __init__(self) -> None:
        self.noted: list[tuple[int, float]] = []
        self._wanted = 0
        self._enough = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def note(self, number: int) -> None:
        self.noted.append((number, time.time()))
        if len(self.noted) == self._wanted:
            self._loop.call_soon_threadsafe(self._enough.set)

    async def wait_for(self, count: int) -> None:
        self._wanted = count
        self._enough.clear()
        if len(self.noted) < count:
            await self._enough.wait()


async def worker(engine: Engine) -> None:
    starts = Starts()
    working = asyncio.create_task(engine.work(starts.note))
    try:
        while (question := await next_question()) is not None:
            enough = asyncio.create_task(starts.wait_for(question["count"]))
            await asyncio.wait({enough, working}, timeout=question["within"], return_when=asyncio.FIRST_COMPLETED)
            enough.cancel()
            if working.done():
                await working
            answer({"starts": starts.noted})
            starts.noted = []
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def main() -> None:
    name, role = sys.argv[1:]
    engine = make_engine(name)
    run: Any = sender(engine) if role == "sender" else worker(engine)
    if name == "dbos":
        asyncio.run(run)  # brings its own threads
    else:
        import uvloop

        uvloop.run(run)


if __name__ == "__main__":
    main()
