"""Clients that follow one session, are all cut off at once, and come back by themselves, in one process of their own.

Each dials again as our clients do, after a random part of a growing delay, and asks for what it has missed. What it was told is
kept by cursor, so that an event that was lost or told twice is seen.

    python -m bench.gateway.storm_clients        driven over stdin and stdout by the suite `storm`
"""

import asyncio
import random
import time
from collections import Counter
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson

from bench.gateway.figures import milliseconds
from bench.gateway.options import Options
from bench.gateway.watchers import Watcher
from bench.gateway.websocket import TEXT
from bench.helper_process import answer, next_question

FIRST_DELAY, LONGEST_DELAY = 0.25, 15.0
AT_ONCE = 20  # while they come for the first time
DIAL_SECONDS = 30.0


class Line(Watcher):
    """One socket; every frame after the handshake is told."""

    def __init__(self, opt: Options, url: str, hear: Any) -> None:
        super().__init__(opt, url)
        self._hear = hear
        self.lost = asyncio.Event()

    def _answer(self, opcode: int, payload: bytes) -> None:
        if opcode == TEXT and self.ready.done():
            self._hear(orjson.loads(payload))
        else:
            super()._answer(opcode, payload)

    def follow(self, session: str, place: int) -> None:
        self._request("sessions.messages.subscribe", {"key": session, "fromStateVersion": place})

    def cut(self) -> None:
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set()


class Member:
    """One client over all its sockets."""

    def __init__(self, opt: Options, number: int, session: str) -> None:
        self._opt, self._url, self._session = opt, opt.urls[number % len(opt.urls)], session
        self.told: Counter[int] = Counter()
        self.place = 0
        self.tries = 0
        self.line: Line | None = None
        self.cut_at = self.back_at = 0.0

    async def dial(self) -> None:
        parts = urlsplit(self._url)
        connecting = asyncio.get_running_loop().create_connection(
            partial(Line, self._opt, self._url, self._heard), parts.hostname or "", parts.port or 80
        )
        self.tries += 1
        async with asyncio.timeout(DIAL_SECONDS):
            _, line = await connecting
            await line.ready
        self.line = line
        line.follow(self._session, self.place)

    async def come_back(self) -> None:
        delay = FIRST_DELAY
        while True:
            await asyncio.sleep(delay * random.uniform(0.5, 1))
            try:
                await self.dial()
            except (OSError, TimeoutError):
                delay = min(delay * 2, LONGEST_DELAY)
            else:
                self.back_at = time.time()
                return

    def _heard(self, frame: dict[str, Any]) -> None:
        payload = frame.get("payload") or {}
        if frame.get("event") in ("agent", "session") and "cursor" in payload:
            self.told[payload["cursor"]] += 1
            self.place = max(self.place, payload["cursor"])

    def cut(self) -> None:
        assert self.line
        self.cut_at = time.time()
        self.line.cut()


async def main() -> None:
    asked = await next_question()
    assert asked
    members = [Member(Options(**asked["options"]), number, asked["session"]) for number in range(asked["count"])]
    for first in range(0, len(members), AT_ONCE):
        await asyncio.gather(*(member.dial() for member in members[first : first + AT_ONCE]))
    answer({"ready": len(members)})
    await next_question()
    for member in members:
        member.tries = 0
        member.cut()
    await asyncio.gather(*(member.come_back() for member in members))
    answer(
        {"back": milliseconds(member.back_at - member.cut_at for member in members), "tries": sum(each.tries for each in members)}
    )
    if (last := await next_question()) is not None:
        deadline = time.time() + 30
        while time.time() < deadline and any(member.place < last["cursor"] for member in members):  # noqa: ASYNC110  # nothing is measured now
            await asyncio.sleep(0.1)
        whole = set(range(last["first"], last["cursor"] + 1))
        answer(
            {
                "clients_missing_events": sum(not whole <= set(member.told) for member in members),
                "clients_told_twice": sum(any(count > 1 for count in member.told.values()) for member in members),
            }
        )
    for member in members:
        if member.line:
            member.line.cut()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
