"""Many clients in one process that follow a session, are disconnected at the same time, and reconnect.

Like our clients, each reconnects after a growing delay with jitter and requests the events it missed. Events are counted by
cursor, so that lost and repeated ones are noticed.

    python -m bench.gateway.storm_clients        controlled over stdin and stdout by the suite `storm`
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
from bench.helper_process import next_request, respond

FIRST_DELAY, MAX_DELAY = 0.25, 15.0
BATCH_SIZE = 20  # concurrent first connections
CONNECT_SECONDS = 30.0


class FollowerSocket(Watcher):
    """One socket. Every frame after the handshake is passed to `on_frame`."""

    def __init__(self, opt: Options, url: str, on_frame: Any) -> None:
        super().__init__(opt, url)
        self._on_frame = on_frame
        self.lost = asyncio.Event()

    def _handle(self, opcode: int, payload: bytes) -> None:
        if opcode == TEXT and self.ready.done():
            self._on_frame(orjson.loads(payload))
        else:
            super()._handle(opcode, payload)

    def follow(self, session: str, cursor: int) -> None:
        self._request("sessions.messages.subscribe", {"key": session, "fromStateVersion": cursor})

    def abort(self) -> None:
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set()


class StormClient:
    """One client, across all its sockets."""

    def __init__(self, opt: Options, number: int, session: str) -> None:
        self._opt, self._url, self._session = opt, opt.urls[number % len(opt.urls)], session
        self.received: Counter[int] = Counter()
        self.cursor = 0
        self.attempts = 0
        self.socket: FollowerSocket | None = None
        self.disconnected_at = self.reconnected_at = 0.0

    async def connect(self) -> None:
        parts = urlsplit(self._url)
        connecting = asyncio.get_running_loop().create_connection(
            partial(FollowerSocket, self._opt, self._url, self._on_frame), parts.hostname or "", parts.port or 80
        )
        self.attempts += 1
        async with asyncio.timeout(CONNECT_SECONDS):
            _, socket = await connecting
            await socket.ready
        self.socket = socket
        socket.follow(self._session, self.cursor)

    async def reconnect(self) -> None:
        delay = FIRST_DELAY
        while True:
            await asyncio.sleep(delay * random.uniform(0.5, 1))
            try:
                await self.connect()
            except (OSError, TimeoutError):
                delay = min(delay * 2, MAX_DELAY)
            else:
                self.reconnected_at = time.time()
                return

    def _on_frame(self, frame: dict[str, Any]) -> None:
        payload = frame.get("payload") or {}
        if frame.get("event") in ("agent", "session") and "cursor" in payload:
            self.received[payload["cursor"]] += 1
            self.cursor = max(self.cursor, payload["cursor"])

    def disconnect(self) -> None:
        assert self.socket
        self.disconnected_at = time.time()
        self.socket.abort()


async def main() -> None:
    setup = await next_request()
    assert setup
    clients = [StormClient(Options(**setup["options"]), number, setup["session"]) for number in range(setup["count"])]
    for first in range(0, len(clients), BATCH_SIZE):
        await asyncio.gather(*(client.connect() for client in clients[first : first + BATCH_SIZE]))
    respond({"ready": len(clients)})
    await next_request()
    for client in clients:
        client.attempts = 0
        client.disconnect()
    await asyncio.gather(*(client.reconnect() for client in clients))
    respond(
        {
            "back": milliseconds(client.reconnected_at - client.disconnected_at for client in clients),
            "tries": sum(each.attempts for each in clients),
        }
    )
    if (last := await next_request()) is not None:
        deadline = time.time() + 30
        while time.time() < deadline and any(client.cursor < last["cursor"] for client in clients):  # noqa: ASYNC110  # not measured
            await asyncio.sleep(0.1)
        expected = set(range(last["first"], last["cursor"] + 1))
        respond(
            {
                "clients_missing_events": sum(not expected <= set(client.received) for client in clients),
                "clients_with_repeated_events": sum(any(count > 1 for count in client.received.values()) for client in clients),
            }
        )
    for client in clients:
        if client.socket:
            client.socket.abort()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
