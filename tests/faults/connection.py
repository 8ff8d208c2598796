"""A plain connection of protocol 4 that delivers every frame as it arrives.

clawsite.client would reconnect and drop duplicates, which is what has to be checked here.
"""

import asyncio
import itertools
import json
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

Frame = dict[str, Any]


class ConnectionLost(Exception):
    """The connection is gone; the outcome of the request is unknown."""


class RequestFailed(Exception):
    def __init__(self, error: dict[str, Any], payload: Any) -> None:
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code, self.error, self.payload = str(error.get("code")), error, payload


class RawConnection:
    def __init__(self, socket: ClientConnection, on_event: Callable[[Frame], None]) -> None:
        self._socket, self._on_event = socket, on_event
        self._ids = itertools.count(1)
        self._responses: dict[str, asyncio.Queue[Frame | None]] = {}
        self._on_response: dict[str, Callable[[Any], None]] = {}
        self._may_read = asyncio.Event()
        self._may_read.set()
        self.ended = asyncio.Event()
        self.last_seq = 0
        self.frame_gap = ""  # the first gap in the frame numbers
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def open(
        cls,
        url: str,
        token: str,
        *,
        on_event: Callable[[Frame], None] = lambda _: None,
        caps: tuple[str, ...] = (),
        buffer: int = 0,
    ) -> "RawConnection":
        """Connect, or raise ConnectionLost. `buffer` limits the receive buffer of the socket."""
        options: dict[str, Any] = {}
        if buffer:
            host, port = url.removeprefix("ws://").partition("/")[0].split(":")
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            sock.connect((host, int(port)))
            options = {"sock": sock, "max_queue": 1}
        try:
            opened = await connect(
                url, compression=None, max_size=None, ping_interval=None, open_timeout=5, close_timeout=0.2, **options
            )
            line = cls(opened, on_event)
            who = {"id": "cli", "version": "1", "platform": "test", "mode": "cli"}
            wanted = {"minProtocol": 4, "maxProtocol": 4, "client": who, "role": "operator", "scopes": []}
            await line.request("connect", {**wanted, "caps": ["tool-events", *caps], "auth": {"token": token}})
        except (OSError, InvalidHandshake, TimeoutError, ConnectionClosed) as error:
            raise ConnectionLost(str(error)) from error
        return line

    async def request(
        self, method: str, params: dict[str, Any], *, seconds: float = 5.0, on_response: Callable[[Any], None] | None = None
    ) -> Any:
        """Return the first response. `on_response` is called with it before any later frame is processed."""
        responses = self.responses(method, params, seconds=seconds, on_response=on_response)
        async with aclosing(responses):
            return await anext(responses)

    async def responses(
        self,
        method: str,
        params: dict[str, Any],
        *,
        seconds: float = 5.0,
        later: float = 60.0,
        on_response: Callable[[Any], None] | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Yield all responses to a request; wait `seconds` for the first and `later` for each further one."""
        number = str(next(self._ids))
        queue = self._responses[number] = asyncio.Queue()
        if on_response:
            self._on_response[number] = on_response
        try:
            if self.ended.is_set():
                raise ConnectionLost("the connection was closed")
            await self._socket.send(json.dumps({"type": "req", "id": number, "method": method, "params": params}))
            while True:
                frame = await asyncio.wait_for(queue.get(), seconds)
                if frame is None:
                    raise ConnectionLost(f"the connection closed with {self.close_code}")
                if not frame["ok"]:
                    raise RequestFailed(frame.get("error") or {}, frame.get("payload"))
                yield frame.get("payload")
                seconds = later
        except (ConnectionClosed, TimeoutError) as error:
            raise ConnectionLost(str(error) or "no response in time") from error
        finally:
            self._responses.pop(number, None)

    def pause(self) -> None:
        """Stop reading, so that the peer's buffers fill."""
        self._may_read.clear()

    def resume(self) -> None:
        self._may_read.set()

    def cut(self) -> None:
        """Abort the TCP connection."""
        self._may_read.set()
        self._socket.transport.abort()

    @property
    def close_code(self) -> int | None:
        return self._socket.close_code

    @property
    def close_reason(self) -> str:
        return self._socket.close_reason or ""

    async def _read(self) -> None:
        try:
            while True:
                await self._may_read.wait()
                self._take(json.loads(await self._socket.recv()))
        except ConnectionClosed:
            pass
        finally:
            self.ended.set()
            for queue in self._responses.values():
                queue.put_nowait(None)

    def _take(self, frame: Frame) -> None:
        if frame["type"] == "res":
            if frame["ok"] and (on_response := self._on_response.pop(frame["id"], None)):
                on_response(frame.get("payload"))
            if queue := self._responses.get(frame["id"]):
                queue.put_nowait(frame)
            return
        if "seq" in frame:
            if frame["seq"] != self.last_seq + 1:
                self.frame_gap = self.frame_gap or f"frame {frame['seq']} came after {self.last_seq}"
            self.last_seq = frame["seq"]
        self._on_event(frame)

    async def close(self) -> None:
        self._may_read.set()
        await self._socket.close()
        await self._reader
