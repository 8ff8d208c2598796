"""Many watching connections in one process, as lightweight as Python allows.

During a run, a connection only stores (time, bytes) of what it reads; frames are parsed when the run has ended. So parsing doesn't
add to the measured lag, and the checks can be thorough. A run must end within 30 s, because pings are not answered during it.

    python -m bench.gateway.watchers        controlled over stdin and stdout by WatcherProcess below
"""

import asyncio
import gc
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson

from bench.gateway.client import connect_params
from bench.gateway.figures import Result
from bench.gateway.options import Options
from bench.gateway.watch_report import WatchReport, summary
from bench.gateway.websocket import END_OF_HEADERS, PING, PONG, client_frame, split_frames, upgrade_request
from bench.helper_process import HelperProcess, next_request, respond

QUIET_SECONDS = 0.5  # when nothing arrives for this long after the run, everything has arrived
MAX_WAIT_SECONDS = 10.0


class Watcher(asyncio.Protocol):
    def __init__(self, opt: Options, url: str) -> None:
        self.chunks: list[tuple[float, bytes]] = []
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._opt, self._url = opt, url
        self._buffer = b""
        self._upgraded = self._watching = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's transport has the same methods, but is not a subclass
        self._transport.write(upgrade_request(self._url))

    def data_received(self, data: bytes) -> None:
        if self._watching:
            self.chunks.append((time.time(), data))
            return
        self._buffer += data
        if not self._upgraded:
            if END_OF_HEADERS not in self._buffer:
                return
            head, _, self._buffer = self._buffer.partition(END_OF_HEADERS)
            if b" 101 " not in head.split(b"\r\n", 1)[0]:
                self.ready.set_exception(ConnectionError(head.decode(errors="replace")))
                return
            self._upgraded = True
        used = 0
        for opcode, begin, end in split_frames(self._buffer):
            used = end
            self._handle(opcode, self._buffer[begin:end])
        self._buffer = self._buffer[used:]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(ConnectionError("the gateway closed the connection"))

    def _handle(self, opcode: int, payload: bytes) -> None:
        if opcode == PING:
            self._transport.write(client_frame(payload, PONG))
        elif not self.ready.done():
            frame = orjson.loads(payload)
            if frame.get("event") == "connect.challenge":
                self._request("connect", connect_params(self._opt, frame["payload"]))
            elif frame.get("id") == "connect":
                if frame["ok"]:
                    self.ready.set_result(None)
                else:
                    self.ready.set_exception(ConnectionError(str(frame.get("error"))))

    def _request(self, method: str, params: dict[str, Any]) -> None:
        self._transport.write(client_frame(orjson.dumps({"type": "req", "id": method, "method": method, "params": params})))

    def subscribe(self, session: str) -> None:
        self._request("sessions.messages.subscribe", {"key": session})

    def watch(self) -> None:
        self._watching = True
        if self._buffer:
            self.chunks.append((time.time(), self._buffer))

    def close(self) -> None:
        self._transport.close()


async def open_watchers(opt: Options, count: int) -> list[Watcher]:
    """Connect in groups; other suites measure many simultaneous connections."""
    loop, watchers = asyncio.get_running_loop(), []
    for first in range(0, count, 20):
        group = []
        for number in range(first, min(first + 20, count)):
            url = opt.urls[number % len(opt.urls)]
            parts = urlsplit(url)
            connecting = loop.create_connection(partial(Watcher, opt, url), parts.hostname or "", parts.port or 80)
            _, watcher = await connecting
            group.append(watcher)
        await asyncio.wait_for(asyncio.gather(*(watcher.ready for watcher in group)), 60)
        watchers += group
    return watchers


async def until_quiet(watchers: Sequence[Watcher]) -> None:
    deadline = time.time() + MAX_WAIT_SECONDS
    previous = -1
    while time.time() < deadline:
        count = sum(len(watcher.chunks) for watcher in watchers)
        if count == previous:
            return
        previous = count
        await asyncio.sleep(QUIET_SECONDS)


async def main() -> None:
    setup = await next_request()
    assert setup
    watchers = await open_watchers(Options(**setup["options"]), setup["count"])
    if setup["subscribe_to"]:
        for watcher in watchers:
            watcher.subscribe(setup["subscribe_to"])
    await asyncio.sleep(QUIET_SECONDS)  # receive presence events of all these connections before the measurement
    for watcher in watchers:
        watcher.watch()
    gc.collect()
    gc.disable()  # a collection would look like lag of every connection
    respond({"ready": len(watchers)})
    if (report := await next_request()) is not None:
        await until_quiet(watchers)
        respond(summary([WatchReport.from_chunks(watcher.chunks, report["run"]) for watcher in watchers], report["tokens"]))
    for watcher in watchers:
        watcher.close()


class WatcherProcess:
    """The benchmark's side: start the process, wait until all are connected, get the report."""

    def __init__(self, opt: Options, count: int, session: str) -> None:
        self._opt, self._count, self._session = opt, count, session
        self._process = HelperProcess("bench.gateway.watchers")

    async def start(self) -> None:
        await self._process.start()
        self._opt.helper_pids.append(self._process.pid)
        subscribe_to = self._session if self._opt.subscribe else ""
        await self._process.request(options=asdict(replace(self._opt, launcher=None)), count=self._count, subscribe_to=subscribe_to)

    async def report(self, run_id: str, tokens: int) -> Result:
        return await self._process.request(run=run_id, tokens=tokens)

    async def close(self) -> None:
        self._opt.helper_pids.remove(self._process.pid)
        await self._process.close()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
