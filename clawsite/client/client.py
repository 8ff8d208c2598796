"""Python client for the gateway's WebSocket protocol, for the command line, tests and programs. Independent of Django.

`Client` outlives sockets: it reconnects when the connection is lost, and follows a session by its cursor or a run by its
idempotency key, so that no event is missed or repeated. `Connection` is one socket.
"""

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from clawsite.client.connection import Connection, ConnectionLost, Endpoint, Frame, GatewayError, Unreachable

FIRST_DELAY, MAX_DELAY, GROWTH = 0.25, 15.0, 1.7
BEGINNING = "1970-01-01T00:00:00Z"  # before every stored event; cursor 0 is invalid once old events are deleted

Position = int | str  # a cursor, or an ISO time


class EventsGone(Exception):
    """The events after this position were deleted, or it belongs to another log, such as after a restore: reload the session."""


class RunFailed(Exception):
    """The run ended without an answer: it failed or was stopped."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(reason)
        self.run_id = run_id


@dataclass
class _ReadPosition:
    """How far a session has been read, and in which log."""

    session_key: str
    position: Position
    epoch: str = ""


@dataclass(frozen=True)
class Event:
    """One event of a session's log. `cursor` counts the session's events; `run_id` and `seq` are set for events of a run."""

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
    """Return the session event in a frame; None for presence, ticks and `chat`, which has the same content in another form."""
    payload = frame.get("payload") or {}
    if frame.get("event") == "agent":
        run = {"run_id": payload["runId"], "seq": payload["seq"]}
        return Event(payload["sessionKey"], payload["cursor"], payload["ts"], payload["stream"], payload["data"], **run)
    if frame.get("event") == "session" and "cursor" in payload:
        data = {name: value for name, value in payload.items() if name not in ("sessionKey", "sessionId", "cursor", "ts")}
        return Event(payload["sessionKey"], payload["cursor"], payload["ts"], "session", data)
    return None


class Client:
    """Stays connected to a gateway. A failed first connection is not retried; reconnects are, for `patience` seconds."""

    def __init__(self, endpoint: Endpoint, *, patience: float = 60.0, on_lost: Callable[[str], None] | None = None) -> None:
        self.endpoint = endpoint
        self._patience = patience
        self._on_lost = on_lost
        self._connection: Connection | None = None
        self._reconnecting = asyncio.Lock()

    async def __aenter__(self) -> "Client":
        await self.connection()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection:
            await self._connection.close()

    async def connection(self) -> Connection:
        """Return the open connection, or a new one if it was lost."""
        async with self._reconnecting:
            if self._connection is None:
                self._connection = await Connection.open(self.endpoint)
            elif (reason := self._connection.lost_because) is not None:
                if self._on_lost:
                    self._on_lost(reason)
                self._connection = await self._reconnect()
            return self._connection

    async def request(self, method: str, params: dict[str, Any] | None = None, **options: Any) -> Any:
        """Like `Connection.request`. Not repeated after a lost connection: only the caller knows whether that is safe."""
        return await (await self.connection()).request(method, params, **options)

    async def follow(
        self, session_key: str, position: Position = BEGINNING, *, epoch: str = "", live: bool = True
    ) -> AsyncIterator[Event]:
        """Yield every event of a session after a position, once and in order, across reconnects; with `live`, it never ends.

        `epoch` identifies the log that a remembered cursor belongs to; the gateway sends it in `hello` and with cursors.
        """
        reader = _ReadPosition(session_key, position, epoch)
        while True:
            connection = await self.connection()
            with contextlib.suppress(ConnectionLost):
                async for event in _read_events(connection, reader, live=live):
                    yield event
                if not live:
                    return

    async def run(self, text: str, *, session_key: str, idempotency_key: str = "", **options: Any) -> AsyncIterator[Event]:
        """Start a run and yield its events until it ends, once and in order. After a reconnect, the same key finds the same run."""
        run_id = idempotency_key or str(uuid.uuid4())
        params = {"message": text, "sessionKey": session_key, "idempotencyKey": run_id, **options}
        reader: _ReadPosition | None = None
        while True:
            connection = await self.connection()
            with contextlib.suppress(ConnectionLost):
                if reader is None:
                    # The session's position before the run, so that none of its events can be missed later.
                    head = await connection.request("chat.history", {"sessionKey": session_key, "limit": 1})
                    reader = _ReadPosition(head["sessionKey"], head["cursor"], head.get("epoch", ""))
                await _start_run(connection, params)
                async for event in _read_events(connection, reader):
                    if event.run_id == run_id:
                        yield event
                        if event.ends_run:
                            return

    async def ask(self, text: str, *, session_key: str = "main", **options: Any) -> str:
        """Start a run and wait for its answer, across reconnects. Raises RunFailed with the reason if there is none."""
        answer = ""
        async for event in self.run(text, session_key=session_key, **options):
            if event.stream == "assistant" and event.data.get("final"):
                blocks = event.data["message"]["content"]
                answer = "".join(block["text"] for block in blocks if block.get("type") == "text") or answer
            if event.ends_run and (event.data["phase"] == "error" or event.data.get("aborted")):
                raise RunFailed(event.run_id, event.data.get("error") or f"stopped: {event.data.get('stopReason', '')}")
        return answer

    async def frames(self, *names: str) -> AsyncIterator[Frame]:
        """Yield event frames with these names, or all, as they arrive. Frames sent during a reconnect are lost.

        Use this for state that can be read again, such as pending approval requests: reload it after `on_lost`. To miss no
        event of a session, use `follow`.
        """
        while True:
            connection = await self.connection()
            with connection.listen() as queue:
                while (frame := await queue.get()) is not None:
                    if not names or frame.get("event") in names:
                        yield frame

    async def _reconnect(self) -> Connection:
        give_up = time.monotonic() + self._patience
        delay = FIRST_DELAY
        while True:
            # Jitter, so that clients don't all reconnect at the same moment after a gateway restart.
            await asyncio.sleep(delay * random.uniform(0.5, 1))  # noqa: S311  # not a secret
            delay = min(delay * GROWTH, MAX_DELAY)
            try:
                return await Connection.open(self.endpoint)
            except Unreachable:
                if time.monotonic() + delay > give_up:
                    raise
            except GatewayError as error:
                if not error.retryable or time.monotonic() + error.retry_after > give_up:
                    raise
                delay = max(delay, error.retry_after)


async def _read_events(connection: Connection, reader: _ReadPosition, *, live: bool = True) -> AsyncIterator[Event]:
    """Yield events after a position: stored ones first, then live ones, and stored ones again wherever a live one is missing."""
    with connection.listen() as frames:
        while True:
            cursor = 0
            more = True
            while more:
                params = {"sessionKey": reader.session_key, "fromStateVersion": reader.position}
                page = await connection.request("sessions.history", params | ({"epoch": reader.epoch} if reader.epoch else {}))
                if page.get("resync_required"):
                    raise EventsGone(page.get("reason", "the events are no longer stored"))
                reader.epoch = page.get("epoch", "")
                for frame in page["events"]:
                    if event := log_event(frame):
                        reader.position = event.cursor
                        yield event
                reader.position = cursor = page["cursor"]
                more = page["more"]
            if not live:
                return
            while (frame := await frames.get()) is not None:
                live_event = log_event(frame)
                if live_event is None or live_event.session_key != reader.session_key or live_event.cursor <= cursor:
                    continue
                if live_event.cursor > cursor + 1:
                    break
                reader.position = cursor = live_event.cursor
                yield live_event
            else:
                raise ConnectionLost(connection.lost_because or "closed")


async def _start_run(connection: Connection, params: dict[str, Any]) -> None:
    try:
        await connection.request("agent", params)
    except GatewayError as error:
        # When resent after a reconnect, a request for a failed run returns the failure, which the run's events report too.
        if not (isinstance(error.payload, dict) and error.payload.get("runId")):
            raise
