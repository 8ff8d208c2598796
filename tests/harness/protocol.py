"""Clients of the gateway protocol: `SocketClient` over a real WebSocket, `InProcessClient` without one.

The in-process client passes frames to the handler that a socket would have: everything from the frame's text to the database is
real, only uvicorn and Channels are left out. Every frame that a client receives must match the published schema.
"""

import asyncio
import contextlib
import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from clawsite.gateway.server import runtime
from clawsite.gateway.server.handshake import HandshakeInfo
from clawsite.gateway.server.websocket import WebSocketHandler
from tests.harness.schema_check import SchemaChecker

TIMEOUT = 30.0  # seconds; only a guard against hangs
BACKGROUND_EVENTS = {"tick", "presence", "health", "sessions.changed"}
Frame = dict[str, Any]


class NoResponse(TimeoutError):
    """No matching frame arrived in time."""


def connect_params(token: str, *, protocol: int = 4, **params: Any) -> Frame:
    return {
        "minProtocol": protocol,
        "maxProtocol": protocol,
        "client": {"id": "test", "version": "1", "platform": "linux", "mode": "test"},
        "auth": {"token": token},
        **params,
    }


class ProtocolClient(ABC):
    """Keeps every received frame in `seen`, so that a test can look for the one it wants and ignore the others."""

    def __init__(self) -> None:
        self.seen: list[Frame] = []
        self.texts: list[str] = []
        self.faults: list[str] = []  # deviations from the schema
        self.hello: Frame = {}
        self.close_info: tuple[int, str] | None = None  # code and reason
        self._schema = SchemaChecker()
        self._changed = asyncio.Event()
        self._closed = asyncio.Event()

    @abstractmethod
    async def _send(self, data: Any) -> None: ...

    async def send(self, frame: Any) -> None:
        """Send a frame; text and bytes are sent unchanged."""
        data = frame if isinstance(frame, (str, bytes)) else json.dumps(frame)
        self._schema.note_request(data)
        await self._send(data)

    async def find(self, matches: Callable[[Frame], Any], start: int = 0, timeout: float = TIMEOUT) -> Frame:
        """Return the first frame from index `start` that matches. Waits for it."""
        at = start
        try:
            async with asyncio.timeout(timeout):
                while True:
                    assert not self.faults, "\n".join(self.faults)
                    while at < len(self.seen):
                        if matches(self.seen[at]):
                            return self.seen[at]
                        at += 1
                    if self.close_info:
                        raise AssertionError(f"closed with {self.close_info}; got {self.seen[start:]}")
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise NoResponse from None

    async def request(self, method: str, params: Any = None, *, timeout: float = TIMEOUT, **frame: Any) -> Frame:
        """Send a request and return its first response frame."""
        id = uuid.uuid4().hex
        await self.send({"type": "req", "id": id, "method": method, "params": params or {}, **frame})
        return await self.response(id, timeout=timeout)

    async def response(self, id: str, nth: int = 1, timeout: float = TIMEOUT) -> Frame:
        count = 0

        def matches(frame: Frame) -> bool:
            nonlocal count
            count += frame.get("type") == "res" and frame.get("id") == id
            return count == nth

        return await self.find(matches, timeout=timeout)

    async def call(self, method: str, params: Any = None) -> Any:
        """Return the payload of a successful response."""
        frame = await self.request(method, params)
        assert frame["ok"], frame
        return frame["payload"]

    async def event(self, name: str, **payload: Any) -> Frame:
        """Return the payload of the first event with this name and these values."""

        def matches(frame: Frame) -> bool:
            found = frame.get("payload") or {}
            return frame.get("event") == name and all(found.get(key) == value for key, value in payload.items())

        return (await self.find(matches))["payload"]

    def events(self, name: str) -> list[Frame]:
        return [frame["payload"] for frame in self.seen if frame.get("event") == name]

    async def closed(self) -> tuple[int, str]:
        """Wait until the connection is closed. Returns code and reason."""
        await asyncio.wait_for(self._closed.wait(), TIMEOUT)
        assert self.close_info
        return self.close_info

    def _receive(self, text: str) -> None:
        self.texts.append(text)
        frame = json.loads(text)
        self.faults += self._schema.find_faults(frame)
        self.seen.append(frame)
        self._changed.set()

    def _end(self, code: int, reason: str) -> None:
        self.close_info = self.close_info or (code, reason)
        self._changed.set()
        self._closed.set()


class InProcessClient(ProtocolClient):
    """Use within `running_gateway()`."""

    _handler: WebSocketHandler | None = None

    @classmethod
    async def open(cls, token: str, **params: Any) -> Self:
        """Return a connected client."""
        client = cls()
        await client.start()
        client.hello = await client.call("connect", connect_params(token, **params))
        return client

    async def start(self) -> None:
        """Open the connection without a handshake."""
        info = HandshakeInfo(origin=None, cookie="", address="127.0.0.1")
        self._handler = WebSocketHandler(
            await runtime.get_runtime(), info, send=self._on_text, send_close=self._on_close, hang_up=self._on_hang_up
        )
        self._handler.send_challenge()

    def disconnect(self) -> None:
        if self._handler:
            self._handler.handle_disconnect()

    async def _send(self, data: Any) -> None:
        assert self._handler
        await self._handler.text(data)

    async def _on_text(self, text: str) -> None:
        self._receive(text)

    async def _on_close(self, code: int, reason: str) -> None:
        self._end(code, reason)

    def _on_hang_up(self) -> None:
        self._end(1006, "cut")


@contextlib.asynccontextmanager
async def running_gateway() -> AsyncIterator[None]:
    """Run the gateway's runtime in this event loop, without a server."""
    await runtime.get_runtime()
    try:
        yield
    finally:
        await runtime.stop()


class SocketClient(ProtocolClient):
    """Reads in the background."""

    def __init__(self, ws: ClientConnection) -> None:
        super().__init__()
        self.ws = ws
        self._reader = asyncio.create_task(self._read())

    async def _send(self, data: Any) -> None:
        await self.ws.send(data)

    async def _read(self) -> None:
        try:
            with contextlib.suppress(ConnectionClosed):
                async for text in self.ws:
                    self._receive(str(text))
        finally:
            self._end(self.ws.close_code or 0, self.ws.close_reason or "")

    async def close(self) -> None:
        await self.ws.close()
        await asyncio.wait([self._reader])


class SocketClients:
    """Opens sockets to one server and closes those that a test leaves open."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._open: list[SocketClient] = []

    async def open(self, path: str = "/ws", headers: dict[str, str] | None = None, **options: Any) -> SocketClient:
        """Return a socket that has not done its handshake."""
        url = f"ws://{self.address}{path}"
        ws = await connect(url, additional_headers=headers or {}, compression=None, max_size=None, ping_interval=None, **options)
        self._open.append(SocketClient(ws))
        return self._open[-1]

    async def connect(self, token: str | None = None, *, headers: dict[str, str] | None = None, **params: Any) -> SocketClient:
        """Return a connected socket; without a token it uses the gateway token."""
        opened = await self.open(headers=headers)
        opened.hello = await opened.call("connect", connect_params("test-gateway-token" if token is None else token, **params))
        return opened

    async def close(self) -> None:
        for opened in self._open:
            await opened.close()
        faults = [fault for opened in self._open for fault in opened.faults]
        assert not faults, "\n".join(faults)
