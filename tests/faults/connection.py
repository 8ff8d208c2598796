"""A socket of protocol 4 that hides nothing: every frame is seen as it came, nothing is repaired or told apart.

clawsite.client would dial again and drop what it has seen already; here that is what has to be checked.
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
    """The line is gone; what was asked may or may not have been done."""


class RequestFailed(Exception):
    def __init__(self, error: dict[str, Any], payload: Any) -> None:
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code, self.error, self.payload = str(error.get("code")), error, payload


class RawConnection:
    def __init__(self, socket: ClientConnection, hear: Callable[[Frame], None]) -> None:
        self._socket, self._hear = socket, hear
        self._ids = itertools.count(1)
        self._answers: dict[str, asyncio.Queue[Frame | None]] = {}
        self._at_answer: dict[str, Callable[[Any], None]] = {}
        self._may_read = asyncio.Event()
        self._may_read.set()
        self.ended = asyncio.Event()
        self.last_seq = 0
        self.torn = ""  # what was wrong with the numbers of the frames
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def open(
        cls, url: str, token: str, *, hear: Callable[[Frame], None] = lambda _: None, caps: tuple[str, ...] = (), buffer: int = 0
    ) -> "RawConnection":
        """Dial and shake hands; Cut when that fails. `buffer` makes the receive buffer of the system that small."""
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
            line = cls(opened, hear)
            who = {"id": "cli", "version": "1", "platform": "test", "mode": "cli"}
            wanted = {"minProtocol": 4, "maxProtocol": 4, "client": who, "role": "operator", "scopes": []}
            await line.request("connect", {**wanted, "caps": ["tool-events", *caps], "auth": {"token": token}})
        except (OSError, InvalidHandshake, TimeoutError, ConnectionClosed) as error:
            raise ConnectionLost(str(error)) from error
        return line

    async def request(
        self, method: str, params: dict[str, Any], *, seconds: float = 5.0, at_answer: Callable[[Any], None] | None = None
    ) -> Any:
        """The first answer. `at_answer` is called with it before any later frame is looked at."""
        answers = self.answers(method, params, seconds=seconds, at_answer=at_answer)
        async with aclosing(answers):
            return await anext(answers)

    async def answers(
        self,
        method: str,
        params: dict[str, Any],
        *,
        seconds: float = 5.0,
        later: float = 60.0,
        at_answer: Callable[[Any], None] | None = None,
    ) -> AsyncGenerator[Any, None]:
        """All answers of a request, until the line ends; `seconds` for the first, `later` for each further one."""
        number = str(next(self._ids))
        queue = self._answers[number] = asyncio.Queue()
        if at_answer:
            self._at_answer[number] = at_answer
        try:
            if self.ended.is_set():
                raise ConnectionLost("the line had ended")
            await self._socket.send(json.dumps({"type": "req", "id": number, "method": method, "params": params}))
            while True:
                frame = await asyncio.wait_for(queue.get(), seconds)
                if frame is None:
                    raise ConnectionLost(f"the line ended with {self.close_code}")
                if not frame["ok"]:
                    raise RequestFailed(frame.get("error") or {}, frame.get("payload"))
                yield frame.get("payload")
                seconds = later
        except (ConnectionClosed, TimeoutError) as error:
            raise ConnectionLost(str(error) or "no answer in time") from error
        finally:
            self._answers.pop(number, None)

    def pause(self) -> None:
        """Stop reading: the peer's buffers fill."""
        self._may_read.clear()

    def resume(self) -> None:
        self._may_read.set()

    def cut(self) -> None:
        """End the TCP connection without a word."""
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
            for queue in self._answers.values():
                queue.put_nowait(None)

    def _take(self, frame: Frame) -> None:
        if frame["type"] == "res":
            if frame["ok"] and (at_answer := self._at_answer.pop(frame["id"], None)):
                at_answer(frame.get("payload"))
            if queue := self._answers.get(frame["id"]):
                queue.put_nowait(frame)
            return
        if "seq" in frame:
            if frame["seq"] != self.last_seq + 1:
                self.torn = self.torn or f"frame {frame['seq']} came after {self.last_seq}"
            self.last_seq = frame["seq"]
        self._hear(frame)

    async def close(self) -> None:
        self._may_read.set()
        await self._socket.close()
        await self._reader
