"""Python client of the gateway's WebSocket protocol, for the command line, tests and programs. Knows nothing of Django.

`Connection` is one socket: handshake, requests, events. `Client` outlives sockets: it dials again after a loss and follows
a session by its cursor or a run by its idempotency key, so that no event is missed or told twice.
"""

import asyncio
import contextlib
import itertools
import json
import random
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

PROTOCOL = 4
REQUEST_SECONDS = 30.0
HANDSHAKE_SECONDS = 15.0
FIRST_DELAY, LONGEST_DELAY, GROWTH = 0.25, 15.0, 1.7
TICK_TIMEOUT = 4000  # close code: nothing was heard for two ticks

Frame = dict[str, Any]


class GatewayError(Exception):
    """The gateway's answer was an error frame."""

    def __init__(self, error: dict[str, Any], payload: Any = None) -> None:
        super().__init__(error.get("message") or "the gateway gave no reason")
        self.error = error
        self.code = str(error.get("code", ""))
        self.retryable = bool(error.get("retryable"))
        self.retry_after = error.get("retryAfterMs", 0) / 1000
        self.payload = payload


class ConnectionLost(Exception):
    """The socket ended; what was asked may or may not have been done."""


class Unreachable(Exception):
    """Nobody answers at that address, or not as a gateway does."""


@dataclass(frozen=True)
class Endpoint:
    """Where the gateway is and who is calling. Without scopes the connection gets all that its account has."""

    url: str
    token: str = ""
    client_id: str = "cli"
    mode: str = "cli"
    version: str = "1"
    protocol: int = PROTOCOL
    scopes: tuple[str, ...] = ()
    caps: tuple[str, ...] = ("tool-events",)


@dataclass
class _Pending:
    answer: "asyncio.Future[Frame]"
    expect_final: bool


class Connection:
    """One open socket. Every event goes to every listener, in order; `None` tells a listener that the socket has ended."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._pending: dict[str, _Pending] = {}
        self._listeners: list[asyncio.Queue[Frame | None]] = []
        self._silence = HANDSHAKE_SECONDS
        self._reader: asyncio.Task[None] | None = None
        self.hello: dict[str, Any] = {}
        self.lost_because: str | None = None

    @classmethod
    async def open(cls, endpoint: Endpoint) -> "Connection":
        try:
            # The gateway sends a tick every 15 s, so pings of our own would add nothing.
            socket = await connect(endpoint.url, max_size=None, compression=None, ping_interval=None, open_timeout=HANDSHAKE_SECONDS)
        except (OSError, InvalidHandshake, TimeoutError) as error:
            raise Unreachable(f"no gateway answers at {endpoint.url}: {error or type(error).__name__}") from error
        connection = cls(socket)
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await socket.recv()  # connect.challenge; its nonce is for device identities, which we do not have
                connection._reader = asyncio.create_task(connection._read())
                connection.hello = await connection.request("connect", _connect_params(endpoint))
        except (ConnectionClosed, ConnectionLost, TimeoutError) as error:
            await socket.close()
            raise Unreachable(f"{endpoint.url} ended the handshake: {error or 'it took too long'}") from error
        except GatewayError:
            await socket.close()
            raise
        connection._silence = 2 * connection.hello.get("policy", {}).get("tickIntervalMs", 30_000) / 1000
        return connection

    async def request(
        self, method: str, params: dict[str, Any] | None = None, *, timeout: float = REQUEST_SECONDS, expect_final: bool = False
    ) -> Any:
        """The payload of the answer. `expect_final` passes over `accepted` and waits for the second answer of `agent`."""
        if self.lost_because is not None:
            raise ConnectionLost(self.lost_because)
        number = str(next(self._ids))
        pending = self._pending[number] = _Pending(asyncio.get_running_loop().create_future(), expect_final)
        try:
            await self._socket.send(json.dumps({"type": "req", "id": number, "method": method, "params": params or {}}))
            frame = await asyncio.wait_for(pending.answer, timeout)
        except ConnectionClosed as error:
            raise ConnectionLost(str(error)) from error
        finally:
            self._pending.pop(number, None)
        if not frame.get("ok"):
            raise GatewayError(frame.get("error") or {}, frame.get("payload"))
        return frame.get("payload")

    @contextlib.contextmanager
    def listen(self) -> "Iterator[asyncio.Queue[Frame | None]]":
        """A queue of all events from now on."""
        queue: asyncio.Queue[Frame | None] = asyncio.Queue()
        if self.lost_because is not None:
            queue.put_nowait(None)
        self._listeners.append(queue)
        try:
            yield queue
        finally:
            self._listeners.remove(queue)

    async def close(self) -> None:
        await self._socket.close()
        if self._reader:
            await asyncio.wait([self._reader])

    async def _read(self) -> None:
        reason = "the gateway closed the connection"
        try:
            while True:
                async with asyncio.timeout(self._silence):
                    raw = await self._socket.recv()
                self._take(json.loads(raw))
        except TimeoutError:
            reason = "nothing was heard from the gateway for two ticks"
            await self._socket.close(TICK_TIMEOUT, "tick timeout")
        except ConnectionClosed as error:
            reason = str(error)
        finally:
            self._end(reason)

    def _take(self, frame: Frame) -> None:
        if frame.get("type") == "event":
            for queue in self._listeners:
                queue.put_nowait(frame)
        elif frame.get("type") == "res" and (pending := self._pending.get(frame.get("id", ""))):
            payload = frame.get("payload")
            first_of_two = frame.get("ok") and isinstance(payload, dict) and payload.get("status") == "accepted"
            if not pending.answer.done() and not (pending.expect_final and first_of_two):
                pending.answer.set_result(frame)

    def _end(self, reason: str) -> None:
        self.lost_because = reason
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(ConnectionLost(reason))
        for queue in self._listeners:
            queue.put_nowait(None)


def _connect_params(endpoint: Endpoint) -> dict[str, Any]:
    params: dict[str, Any] = {
        "minProtocol": endpoint.protocol,
        "maxProtocol": endpoint.protocol,
        "client": {"id": endpoint.client_id, "version": endpoint.version, "platform": sys.platform, "mode": endpoint.mode},
        "role": "operator",
        "scopes": list(endpoint.scopes),
        "caps": list(endpoint.caps),
    }
    if endpoint.token:
        params["auth"] = {"token": endpoint.token}
    return params


@dataclass(frozen=True)
class Event:
    """One event of a session's log. `cursor` counts the session's events; `run_id` and `seq` are those of a run, if it is one's."""

    session_key: str
    cursor: int
    ts: int
    stream: str
    data: dict[str, Any]
    run_id: str = ""
    seq: int = 0

    @property
    def ends_run(self) -> bool:
        return self.stream == "lifecycle" and self.data.get("phase") in ("end", "error")


def log_event(frame: Frame) -> Event | None:
    """The event of a session's log in a frame; None for presence, ticks, and `chat`, which tells the same in another form."""
    payload = frame.get("payload") or {}
    if frame.get("event") == "agent":
        run = {"run_id": payload["runId"], "seq": payload["seq"]}
        return Event(payload["sessionKey"], payload["cursor"], payload["ts"], payload["stream"], payload["data"], **run)
    if frame.get("event") == "session" and "cursor" in payload:
        data = {name: value for name, value in payload.items() if name not in ("sessionKey", "sessionId", "cursor", "ts")}
        return Event(payload["sessionKey"], payload["cursor"], payload["ts"], "session", data)
    return None


class Client:
    """Stays in touch with a gateway. The first dial fails at once; after a loss it is tried again for `patience` seconds."""

    def __init__(self, endpoint: Endpoint, *, patience: float = 60.0, on_lost: Callable[[str], None] | None = None) -> None:
        self.endpoint = endpoint
        self._patience = patience
        self._on_lost = on_lost
        self._connection: Connection | None = None
        self._dialling = asyncio.Lock()

    async def __aenter__(self) -> "Client":
        await self.connection()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection:
            await self._connection.close()

    async def connection(self) -> Connection:
        """The open connection; a new one when it was lost."""
        async with self._dialling:
            if self._connection is None:
                self._connection = await Connection.open(self.endpoint)
            elif (reason := self._connection.lost_because) is not None:
                if self._on_lost:
                    self._on_lost(reason)
                self._connection = await self._dial_again()
            return self._connection

    async def request(self, method: str, params: dict[str, Any] | None = None, **options: Any) -> Any:
        """As `Connection.request`. Not repeated after a loss: only the caller knows whether that is safe."""
        return await (await self.connection()).request(method, params, **options)

    async def follow(self, session_key: str, cursor: int = 0, *, live: bool = True) -> AsyncIterator[Event]:
        """Every event of a session after `cursor`, once and in order, over any number of losses; with `live` without end."""
        while True:
            connection = await self.connection()
            with contextlib.suppress(ConnectionLost):
                async for event in _events(connection, session_key, cursor, live=live):
                    cursor = event.cursor
                    yield event
                if not live:
                    return

    async def run(self, text: str, *, session_key: str, idempotency_key: str = "", **wishes: Any) -> AsyncIterator[Event]:
        """Start a run and yield its events, once and in order, to its end. After a loss the same key finds the same run."""
        run_id = idempotency_key or str(uuid.uuid4())
        params = {"message": text, "sessionKey": session_key, "idempotencyKey": run_id, **wishes}
        cursor, seq = None, 0
        while True:
            connection = await self.connection()
            with contextlib.suppress(ConnectionLost):
                if cursor is None:
                    cursor = await _head(connection, session_key)
                await connection.request("agent", params)
                async for event in _events(connection, session_key, cursor):
                    cursor = event.cursor
                    if event.run_id == run_id:
                        yield event
                        if event.ends_run:
                            return

    async def _dial_again(self) -> Connection:
        give_up = time.monotonic() + self._patience
        delay = FIRST_DELAY
        while True:
            # Jitter: after a restart of the gateway its clients come back one after another, not all at once.
            await asyncio.sleep(delay * random.uniform(0.5, 1))
            delay = min(delay * GROWTH, LONGEST_DELAY)
            try:
                return await Connection.open(self.endpoint)
            except Unreachable:
                if time.monotonic() + delay > give_up:
                    raise
            except GatewayError as error:
                if not error.retryable or time.monotonic() + error.retry_after > give_up:
                    raise
                delay = max(delay, error.retry_after)


async def _events(connection: Connection, session_key: str, cursor: int, *, live: bool = True) -> AsyncIterator[Event]:
    """Events after `cursor`: from the rows up to now, then as they come, and from the rows again wherever one is missing."""
    with connection.listen() as frames:
        while True:
            async for event in _stored(connection, session_key, cursor):
                cursor = event.cursor
                yield event
            if not live:
                return
            while (frame := await frames.get()) is not None:
                told = log_event(frame)
                if told is None or told.session_key != session_key or told.cursor <= cursor:
                    continue
                if told.cursor > cursor + 1:
                    break
                cursor = told.cursor
                yield told
            else:
                raise ConnectionLost(connection.lost_because or "closed")


async def _stored(connection: Connection, session_key: str, cursor: int) -> AsyncIterator[Event]:
    more = True
    while more:
        page = await connection.request("sessions.history", {"sessionKey": session_key, "fromStateVersion": cursor})
        for frame in page["events"]:
            if event := log_event(frame):
                cursor = event.cursor
                yield event
        more = page.get("more", False)


async def _head(connection: Connection, session_key: str) -> int:
    ...
