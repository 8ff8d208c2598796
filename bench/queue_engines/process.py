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


async def worker(engine: Engine) -> None:
    starts: list[tuple[int, float]] = []

    def started(number: int) -> None:
        starts.append((number, time.time()))

    working = asyncio.create_task(engine.work(started))
    try:
        while (question := await next_question()) is not None:
            deadline = time.time() + question["within"]
            while len({number for number, _ in starts}) < question["count"] and time.time() < deadline and not working.done():
                await asyncio.sleep(0.02)
            if working.done():
                await working
            answer({"starts": starts})
            starts.clear()
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
