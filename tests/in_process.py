"""Clients of the gateway without a socket: frames go straight into the `Peer` that a socket would have, and come out of it.

Everything from the text of a frame to the database is the real thing; what uvicorn and Channels add is not here.
"""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from clawsite.gateway.server import runtime
from clawsite.gateway.server.handshake import HandshakeInfo
from clawsite.gateway.server.websocket import WebSocketHandler
from tests.protocol.published import Published

PATIENCE = 30.0  # a guard against hangs
Frame = dict[str, Any]


class NoAnswer(Exception):
    """Within the time that was given."""


class Desk:
    """One client. What the gateway sends is kept in `seen`, and must be as published; `closed` is its close code and reason."""

    def __init__(self) -> None:
        self.seen: list[Frame] = []
        self.texts: list[str] = []
        self._published = Published()
        self._faults: list[str] = []
        self.closed: tuple[int, str] | None = None
        self._ids = itertools.count(1)
        self._news = asyncio.Event()
        self.ended = asyncio.Event()
        self._peer: WebSocketHandler | None = None

    @classmethod
    async def open(cls, token: str, *, protocol: int = 4, **params: Any) -> "Desk":
        """A client after its handshake."""
        desk = cls()
        await desk.knock()
        first = {
            "minProtocol": protocol,
            "maxProtocol": protocol,
            "client": {"id": "test", "version": "1", "platform": "linux", "mode": "test"},
            "auth": {"token": token},
            **params,
        }
        answer = await desk.request("connect", first)
        assert answer["ok"], answer
        return desk

    async def knock(self) -> None:
        """Come without saying who it is."""
        knock = HandshakeInfo(origin=None, cookie="", address="127.0.0.1")
        self._peer = WebSocketHandler(await runtime.get_runtime(), knock, send=self._take, send_close=self._end, hang_up=self._cut)
        self._peer.send_challenge()

    async def text(self, text: str) -> None:
        """One frame as it stands."""
        assert self._peer
        self._published.asked(text)
        await self._peer.text(text)

    async def request(self, method: str, params: Any = None, *, patience: float = PATIENCE) -> Frame:
        """The whole first answer; NoAnswer when there is none in time."""
        id = f"a-request-of-the-desk-{next(self._ids)}"
        await self.text(json.dumps({"type": "req", "id": id, "method": method, "params": params or {}}))
        return await self.answer(id, patience)

    async def answer(self, id: str, patience: float = PATIENCE) -> Frame:
        return await self.find(lambda frame: frame.get("type") == "res" and frame.get("id") == id, patience)

    async def find(self, wanted: Any, patience: float = PATIENCE, start: int = 0) -> Frame:
        """The first frame from `start` on for which `wanted(frame)` holds; waits for it to come."""
        at = start
        try:
            async with asyncio.timeout(patience):
                while True:
                    self._news.clear()
                    assert not self._faults, "\n".join(self._faults)
                    while at < len(self.seen):
                        if wanted(self.seen[at]):
                            return self.seen[at]
                        at += 1
                    if self.closed:
                        raise AssertionError(f"closed with {self.closed}")
                    await self._news.wait()
        except TimeoutError:
            raise NoAnswer from None

    def leave(self) -> None:
        if self._peer:
            self._peer.handle_disconnect()

    async def _take(self, text: str) -> None:
        self.texts.append(text)
        frame = json.loads(text)
        self._faults += self._published.faults(frame)
        self.seen.append(frame)
        self._news.set()

    async def _end(self, code: int, reason: str) -> None:
        self.closed = (code, reason)
        self._news.set()
        self.ended.set()

    def _cut(self) -> None:
        self.closed = self.closed or (1006, "cut")
        self._news.set()
        self.ended.set()


@contextlib.asynccontextmanager
async def gateway() -> AsyncIterator[None]:
    """A gateway runs in this loop, and ends with the block."""
    await runtime.get_runtime()
    try:
        yield
    finally:
        await runtime.stop()
