"""A minimal gateway for client tests with one session's event log. It can drop connections, skip events and stall."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.server import ServerConnection, serve

from clawsite.client import Endpoint

KEY = "agent:main:main"
Frame = dict[str, Any]


class StubGateway:
    def __init__(self) -> None:
        self.url = ""
        self.log: list[Frame] = []  # `agent` events of the one session; the cursor is the position in the list, from 1
        self.sockets: list[ServerConnection] = []
        self.requests: list[Frame] = []
        self.tick_ms = 15_000
        self.refuse: Frame | None = None  # the error with which `connect` is rejected
        self.on_request: Callable[[ServerConnection, Frame], Frame | None] = lambda socket, frame: None
        self.kept_from = 1
        self.epoch = "e1"
        self._news = asyncio.Condition()

    def endpoint(self, **fields: Any) -> Endpoint:
        return Endpoint(url=self.url, token="secret-token", **fields)

    async def write(self, run: str, seq: int, stream: str, *, live: bool = True, **data: Any) -> None:
        payload = {"runId": run, "seq": seq, "stream": stream, "ts": 1000 + seq, "sessionKey": KEY, "data": data}
        frame = {"type": "event", "event": "agent", "payload": {**payload, "cursor": len(self.log) + 1}}
        self.log.append(frame)
        if live:
            for socket in self.sockets:
                await socket.send(json.dumps(frame))

    async def wait_for_request(self, method: str) -> Frame:
        """Wait for the first request with this method."""
        async with self._news:
            await self._news.wait_for(lambda: any(frame["method"] == method for frame in self.requests))
        return next(frame for frame in self.requests if frame["method"] == method)

    async def drop_all(self) -> None:
        """Abort every connection, as when a process is killed."""
        for socket in self.sockets:
            socket.transport.abort()
            await socket.wait_closed()
        self.sockets.clear()

    async def serve_one(self, socket: ServerConnection) -> None:
        await socket.send(json.dumps({"type": "event", "event": "connect.challenge", "payload": {"nonce": "n", "ts": 1}}))
        async for raw in socket:
            frame = json.loads(raw)
            async with self._news:
                self.requests.append(frame)
                self._news.notify_all()
            answer = self.on_request(socket, frame) or self._answer(socket, frame)
            if answer.get("silent"):
                continue
            await socket.send(json.dumps({"type": "res", "id": frame["id"], "ok": "error" not in answer, **answer}))

    def _answer(self, socket: ServerConnection, frame: Frame) -> Frame:
        params = frame["params"]
        match frame["method"]:
            case "connect":
                if self.refuse:
                    return {"error": self.refuse}
                self.sockets.append(socket)
                return {"payload": {"type": "hello-ok", "protocol": 4, "policy": {"tickIntervalMs": self.tick_ms}}}
            case "chat.history":
                return {"payload": {"sessionKey": KEY, "cursor": len(self.log), "epoch": self.epoch, "messages": []}}
            case "sessions.history":
                return {"payload": {"epoch": self.epoch, **self._missed(params["fromStateVersion"], params.get("epoch"))}}
            case "agent":
                return {"payload": {"runId": params["idempotencyKey"], "status": "accepted", "sessionKey": KEY}}
            case "echo":
                return {"payload": params}
        return {"error": {"code": "INVALID_REQUEST", "message": f"unknown method: {frame['method']}"}}

    def _missed(self, position: int | str, epoch: str | None) -> Frame:
        if epoch not in (None, self.epoch):
            return {"resync_required": True, "reason": "the database was restored"}
        cursor = position if isinstance(position, int) else self.kept_from - 1
        if cursor < self.kept_from - 1:
            return {"resync_required": True, "reason": f"events up to {self.kept_from - 1} are no longer stored"}
        page = self.log[cursor : cursor + 3]  # small pages, so that paging is always exercised
        return {"events": page, "cursor": cursor + len(page), "more": cursor + len(page) < len(self.log)}


@asynccontextmanager
async def stub_gateway() -> AsyncIterator[StubGateway]:
    stub = StubGateway()
    async with serve(stub.serve_one, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        stub.url = f"ws://127.0.0.1:{port}/ws"
        yield stub
        for socket in list(stub.sockets):
            socket.transport.abort()
        await asyncio.sleep(0)
