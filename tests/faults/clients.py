"""Clients of a round that record what they did and saw: senders and watchers."""

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from typing import Any

from tests.faults.connection import ConnectionLost, Frame, RawConnection, RequestFailed
from tests.faults.history import FinalResponse, History, SendAttempt, WatchedStream
from tests.harness.stack import Stack

RETRY_CODES = ("UNAVAILABLE", "QUEUE_FULL")  # codes after which the same request is sent again


@dataclass
class RoundContext:
    """Shared by the clients of one round."""

    stack: Stack
    history: History
    tokens: dict[int, str]  # owner -> token
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def dial(self, owner: int, rng: random.Random, record: Any = lambda _: None, **options: Any) -> RawConnection:
        """Connect to a random web process, and retry until one responds."""
        while True:
            with contextlib.suppress(ConnectionLost):
                return await RawConnection.open(
                    self.stack.ws_url(rng.randrange(len(self.stack.webs))), self.tokens[owner], on_event=record, **options
                )
            await asyncio.sleep(0.05)


class Sender:
    """Sends messages to one session, each with its own idempotency key, and repeats them until they are accepted."""

    def __init__(self, context: RoundContext, owner: int, session_key: str, seed: str) -> None:
        self._context, self._owner, self._session_key = context, owner, session_key
        self._rng = random.Random(seed)
        self._conn: RawConnection | None = None
        self._end_tasks: set[asyncio.Task[None]] = set()

    async def send(self, key: str, body: str, *, expect: str = "") -> None:
        """Send until the message is accepted, or rejected with the code `expect`."""
        while True:
            conn = await self._open()
            params = {"message": body, "sessionKey": self._session_key, "idempotencyKey": key}
            answers = conn.responses("agent", params)
            try:
                answer = await anext(answers)
            except (ConnectionLost, RequestFailed) as error:
                await answers.aclose()
                if self._is_final_error(error, key, body, expect):
                    return
                await asyncio.sleep(0.05)
                continue
            self._log("ok", key, body, {name: answer[name] for name in ("runId", "sessionKey", "acceptedAt") if name in answer})
            end_task = asyncio.create_task(self._wait_for_end(key, answer, answers))
            self._end_tasks.add(end_task)
            end_task.add_done_callback(self._end_tasks.discard)
            return

    def _is_final_error(self, error: Exception, key: str, body: str, expect: str) -> bool:
        """Record the error. Returns whether it is final."""
        if isinstance(error, ConnectionLost):
            self._log("info", key, body)
            return False
        assert isinstance(error, RequestFailed)
        if (error.payload or {}).get("runId"):  # a failed run of that key is a response, too
            self._log("ok", key, body, {"runId": error.payload["runId"]})
            return True
        self._log("fail", key, body, code=error.code)
        assert error.code == expect or error.code in RETRY_CODES, f"{key} was rejected: {error}"
        return error.code == expect

    async def _wait_for_end(self, key: str, answer: Any, answers: Any) -> None:
        """Record the second response, if the connection lasts that long. For a repeated key of an ended run it is the first."""
        try:
            while answer["status"] == "accepted":
                answer = await anext(answers)
            payloads = answer["result"]["payloads"]
            self._context.history.finals.append(FinalResponse(self._owner, key, True, payloads[0]["text"] if payloads else ""))
        except RequestFailed:
            self._context.history.finals.append(FinalResponse(self._owner, key, False, ""))
        except ConnectionLost:
            pass
        finally:
            await answers.aclose()

    async def abort(self, key: str) -> None:
        while True:
            conn = await self._open()
            with contextlib.suppress(ConnectionLost):
                await conn.request("chat.abort", {"sessionKey": self._session_key, "runId": key})
                return
            await asyncio.sleep(0.05)

    async def once(self, method: str, **params: Any) -> None:
        """Send a request that must not be repeated: after a lost connection its outcome is unknown."""
        conn = await self._open()
        with contextlib.suppress(ConnectionLost):
            await conn.request(method, params)

    async def _open(self) -> RawConnection:
        if self._conn is None or self._conn.ended.is_set():
            self._conn = await self._context.dial(self._owner, self._rng)
        return self._conn

    def _log(self, outcome: str, key: str, body: str, answer: dict[str, Any] | None = None, code: str = "") -> None:
        self._context.history.sent.append(SendAttempt(outcome, self._owner, key, self._session_key, body, answer or {}, code))

    async def close(self) -> None:
        for end_task in list(self._end_tasks):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(end_task, 5)
        if self._conn:
            await self._conn.close()


class EventRecorder:
    """Records the events of one session on one connection, from the subscription on."""

    def __init__(self, watched: WatchedStream) -> None:
        self._watched = watched
        self.begun = False
        self.last = watched.after

    def begin(self, answer: Any) -> None:
        assert not answer.get("resync_required"), f"{self._watched.client} had to resync from {self._watched.after}: {answer}"
        self.begun = True

    def record(self, frame: Frame) -> None:
        payload = frame.get("payload") or {}
        if self.begun and frame["event"] in ("agent", "session") and payload.get("sessionKey") == self._watched.session_key:
            self._watched.events.append(payload)
            self.last = payload["cursor"]


class Watcher:
    """Follows one session to its last event, over any number of connections. Restless watchers disconnect or stop reading."""

    def __init__(
        self, context: RoundContext, name: str, owner: int, session_key: str, *, after: int = 0, restless: bool = True
    ) -> None:
        self._context, self._name, self._owner, self.session_key = context, name, owner, session_key
        self._rng = random.Random(f"{name} {session_key}")
        self._restless = restless
        self.last = after  # cursor of the last event of earlier connections
        self.recorder: EventRecorder | None = None

    @property
    def reached(self) -> int:
        return max(self.last, self.recorder.last if self.recorder else 0)

    async def watch(self) -> None:
        while not self._context.over.is_set():
            watched = WatchedStream(self._name, self.session_key, self._owner, self.last)
            recorder = self.recorder = EventRecorder(watched)
            conn = await self._context.dial(
                self._owner, self._rng, recorder.record, caps=("session-scoped-events",) if self._restless else ()
            )
            self._context.history.watched.append(watched)
            try:
                where = {"key": self.session_key, "fromStateVersion": self.last}
                await conn.request("sessions.messages.subscribe", where, on_response=recorder.begin)
                await self._stay(conn, watched)
            except ConnectionLost:
                pass
            finally:
                watched.frame_gap = conn.frame_gap
                watched.complete = recorder.begun and self._context.over.is_set() and not conn.ended.is_set()
                conn.cut()
                await conn.ended.wait()
                watched.closed = conn.close_code
                self.last = recorder.last

    async def _stay(self, conn: RawConnection, watched: WatchedStream) -> None:
        """Wait for the end of the connection or the round; restless watchers leave earlier."""
        if self._restless and self._rng.random() < 0.7:
            await _either(conn.ended, self._context.over, seconds=self._rng.uniform(0.2, 1.5))
            if self._rng.random() < 0.5:
                return
            watched.slow = True
            conn.pause()
            await _either(conn.ended, self._context.over, seconds=self._rng.uniform(0.1, 0.6))
            conn.resume()
        await _either(conn.ended, self._context.over)


async def _either(*events: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until one of the events is set, or for `seconds`."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
