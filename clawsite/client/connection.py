"""One socket to the gateway: handshake, requests with timeouts, events. Independent of Django; `client.py` builds on it."""

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

PROTOCOL = 4
REQUEST_SECONDS = 30.0
HANDSHAKE_SECONDS = 15.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")  # ignore proxies from the environment: they can't reach this host
TICK_TIMEOUT = 4000  # close code: no frame for two ticks

Frame = dict[str, Any]


class GatewayError(Exception):
    """The gateway responded with an error."""

    def __init__(self, error: dict[str, Any], payload: Any = None) -> None:
        super().__init__(error.get("message") or "the gateway gave no reason")
        self.error = error
        self.code = str(error.get("code", ""))
        self.retryable = bool(error.get("retryable"))
        self.retry_after = error.get("retryAfterMs", 0) / 1000
        self.payload = payload

    @property
    def is_about_auth(self) -> bool:
        return str((self.error.get("details") or {}).get("code", "")).startswith("AUTH_")


class ConnectionLost(Exception):
    """The socket closed. A pending request may or may not have been carried out."""


class Unreachable(Exception):
    """No gateway responds at that address."""


@dataclass(frozen=True)
class Endpoint:
    """The gateway's address and the caller's identity. Without scopes, the connection gets all scopes of its account."""

    url: str
    token: str = ""
    client_id: str = "cli"
    mode: str = "cli"
    version: str = "1"
    protocol: int = PROTOCOL
    scopes: tuple[str, ...] = ()
    caps: tuple[str, ...] = ("tool-events",)

    @classmethod
    def with_token_file(cls, url: str, file: str | Path, **fields: Any) -> "Endpoint":
        """Read the token from a file, so that it doesn't appear in scripts or process lists."""
        return cls(url, Path(file).expanduser().read_text().strip(), **fields)


@dataclass
class _Pending:
    response: "asyncio.Future[Frame]"
    expect_final: bool


class Connection:
    """One open socket. Every event goes to every listener, in order; `None` means that the socket has closed."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._pending: dict[str, _Pending] = {}
        self._listeners: list[asyncio.Queue[Frame | None]] = []
        self._silence = HANDSHAKE_SECONDS
        self._watchdog = asyncio.timeout(HANDSHAKE_SECONDS)
        self._reader: asyncio.Task[None] | None = None
        self.hello: dict[str, Any] = {}
        self.lost_because: str | None = None

    @classmethod
    async def open(cls, endpoint: Endpoint) -> "Connection":
        try:
            # No pings: the gateway sends a tick every 15 s.
            socket = await connect(
                endpoint.url,
                max_size=None,
                compression=None,
                ping_interval=None,
                open_timeout=HANDSHAKE_SECONDS,
                proxy=None if urlsplit(endpoint.url).hostname in LOOPBACK else True,
            )
        except (OSError, InvalidHandshake, InvalidURI, TimeoutError) as error:
            raise Unreachable(f"no gateway responds at {endpoint.url}: {error or type(error).__name__}") from error
        connection = cls(socket)
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await socket.recv()  # connect.challenge; its nonce is only needed for device identities
                connection._reader = asyncio.create_task(connection._read())
                connection.hello = await connection.request("connect", _connect_params(endpoint))
        except (ConnectionClosed, ConnectionLost, TimeoutError) as error:
            await socket.close()
            raise Unreachable(f"{endpoint.url} ended the handshake: {error or 'timeout'}") from error
        except GatewayError:
            await socket.close()
            raise
        connection._silence = 2 * connection.hello.get("policy", {}).get("tickIntervalMs", 30_000) / 1000
        connection._reset_watchdog()
        return connection

    async def request(
        self, method: str, params: dict[str, Any] | None = None, *, timeout: float = REQUEST_SECONDS, expect_final: bool = False
    ) -> Any:
        """Send a request and return the response's payload. With `expect_final`, skip `accepted` and wait for the final one."""
        if self.lost_because is not None:
            raise ConnectionLost(self.lost_because)
        number = str(next(self._ids))
        pending = self._pending[number] = _Pending(asyncio.get_running_loop().create_future(), expect_final)
        try:
            await self._socket.send(json.dumps({"type": "req", "id": number, "method": method, "params": params or {}}))
            frame = await asyncio.wait_for(pending.response, timeout)
        except ConnectionClosed as error:
            raise ConnectionLost(str(error)) from error
        finally:
            self._pending.pop(number, None)
        if not frame.get("ok"):
            raise GatewayError(frame.get("error") or {}, frame.get("payload"))
        return frame.get("payload")

    @contextlib.contextmanager
    def listen(self) -> "Iterator[asyncio.Queue[Frame | None]]":
        """Return a queue that receives all events from now on."""
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
            async with self._watchdog:
                while True:
                    self._handle_frame(json.loads(await self._socket.recv()))
                    self._reset_watchdog()
        except TimeoutError:
            reason = "no frame from the gateway for two ticks"
            await self._socket.close(TICK_TIMEOUT, "tick timeout")
        except ConnectionClosed as error:
            reason = str(error)
        finally:
            self._end(reason)

    def _reset_watchdog(self) -> None:
        if self.lost_because is None and not self._watchdog.expired():
            self._watchdog.reschedule(asyncio.get_running_loop().time() + self._silence)

    def _handle_frame(self, frame: Frame) -> None:
        if frame.get("type") == "event":
            for queue in self._listeners:
                queue.put_nowait(frame)
        elif frame.get("type") == "res" and (pending := self._pending.get(frame.get("id", ""))):
            payload = frame.get("payload")
            is_accepted = frame.get("ok") and isinstance(payload, dict) and payload.get("status") == "accepted"
            if not pending.response.done() and not (pending.expect_final and is_accepted):
                pending.response.set_result(frame)

    def _end(self, reason: str) -> None:
        self.lost_because = reason
        for pending in self._pending.values():
            if not pending.response.done():
                pending.response.set_exception(ConnectionLost(reason))
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
