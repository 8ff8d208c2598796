"""Those who use the gateway during a round, and write down what they did and saw: senders and watchers."""

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
    """What the actors of one round share."""

    stack: Stack
    history: History
    tokens: dict[int, str]  # owner -> token
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def dial(self, owner: int, rng: random.Random, hear: Any = lambda _: None, **options: Any) -> RawConnection:
        """A line to any of the web processes; tried until one answers."""
        while True:
            with contextlib.suppress(ConnectionLost):
                return await RawConnection.open(
                    self.stack.ws_url(rng.randrange(len(self.stack.webs))), self.tokens[owner], hear=hear, **options
                )
            await asyncio.sleep(0.05)


class Sender:
    """Sends messages into one session, each under a key of its own, again and again until it knows that it was accepted."""

    def __init__(self, scene: RoundContext, owner: int, session_key: str, seed: str) -> None:
        self._scene, self._owner, self._session_key = scene, owner, session_key
        self._rng = random.Random(seed)
        self._line: RawConnection | None = None
        self._endings: set[asyncio.Task[None]] = set()

    async def send(self, key: str, body: str, *, expect: str = "") -> None:
        """Until it is accepted, or refused as `expect`."""
        while True:
            line = await self._open()
            params = {"message": body, "sessionKey": self._session_key, "idempotencyKey": key}
            answers = line.answers("agent", params)
            try:
                answer = await anext(answers)
            except (ConnectionLost, RequestFailed) as trouble:
                await answers.aclose()
                if self._refused(trouble, key, body, expect):
                    return
                await asyncio.sleep(0.05)
                continue
            self._log("ok", key, body, {name: answer[name] for name in ("runId", "sessionKey", "acceptedAt") if name in answer})
            ending = asyncio.create_task(self._hear_the_end(key, answer, answers))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)
            return

    def _refused(self, trouble: Exception, key: str, body: str, expect: str) -> bool:
        """Write it down; -> whether that is the last word."""
        if isinstance(trouble, ConnectionLost):
            self._log("info", key, body)
            return False
        assert isinstance(trouble, RequestFailed)
        if (trouble.payload or {}).get("runId"):  # a run of that key has failed: that is an answer, too
            self._log("ok", key, body, {"runId": trouble.payload["runId"]})
            return True
        self._log("fail", key, body, code=trouble.code)
        assert trouble.code == expect or trouble.code in RETRY_CODES, f"{key} was refused: {trouble}"
        return trouble.code == expect

    async def _hear_the_end(self, key: str, answer: Any, answers: Any) -> None:
        """The second answer, if the line lives that long. A repeated key of an ended run gets it as its first."""
        try:
            while answer["status"] == "accepted":
                answer = await anext(answers)
            payloads = answer["result"]["payloads"]
            self._scene.history.finals.append(FinalResponse(self._owner, key, True, payloads[0]["text"] if payloads else ""))
        except RequestFailed:
            self._scene.history.finals.append(FinalResponse(self._owner, key, False, ""))
        except ConnectionLost:
            pass
        finally:
            await answers.aclose()

    async def abort(self, key: str) -> None:
        while True:
            line = await self._open()
            with contextlib.suppress(ConnectionLost):
                await line.request("chat.abort", {"sessionKey": self._session_key, "runId": key})
                return
            await asyncio.sleep(0.05)

    async def once(self, method: str, **params: Any) -> None:
        """Ask for something that must not be asked twice: when the line is cut, nobody knows whether it was done."""
        line = await self._open()
        with contextlib.suppress(ConnectionLost):
            await line.request(method, params)

    async def _open(self) -> RawConnection:
        if self._line is None or self._line.ended.is_set():
            self._line = await self._scene.dial(self._owner, self._rng)
        return self._line

    def _log(self, outcome: str, key: str, body: str, answer: dict[str, Any] | None = None, code: str = "") -> None:
        self._scene.history.sent.append(SendAttempt(outcome, self._owner, key, self._session_key, body, answer or {}, code))

    async def close(self) -> None:
        for ending in list(self._endings):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ending, 5)
        if self._line:
            await self._line.close()


class EventRecorder:
    """Takes down what one line tells about one session, from the moment on in which it was promised."""

    def __init__(self, watched: WatchedStream) -> None:
        self._watched = watched
        self.begun = False
        self.last = watched.after

    def begin(self, answer: Any) -> None:
        assert not answer.get("resync_required"), f"{self._watched.client} was sent away from {self._watched.after}: {answer}"
        self.begun = True

    def hear(self, frame: Frame) -> None:
        payload = frame.get("payload") or {}
        if self.begun and frame["event"] in ("agent", "session") and payload.get("sessionKey") == self._watched.session_key:
            self._watched.told.append(payload)
            self.last = payload["cursor"]


class Watcher:
    """Follows one session from its first event to its last, over any number of lines. Restless ones cut them or stop reading."""

    def __init__(
        self, scene: RoundContext, name: str, owner: int, session_key: str, *, after: int = 0, restless: bool = True
    ) -> None:
        self._scene, self._name, self._owner, self.session_key = scene, name, owner, session_key
        self._rng = random.Random(f"{name} {session_key}")
        self._restless = restless
        self.last = after  # cursor of the last event of the lines before
        self.ear: EventRecorder | None = None

    @property
    def reached(self) -> int:
        return max(self.last, self.ear.last if self.ear else 0)

    async def watch(self) -> None:
        while not self._scene.over.is_set():
            watched = WatchedStream(self._name, self.session_key, self._owner, self.last)
            ear = self.ear = EventRecorder(watched)
            line = await self._scene.dial(
                self._owner, self._rng, ear.hear, caps=("session-scoped-events",) if self._restless else ()
            )
            self._scene.history.watched.append(watched)
            try:
                where = {"key": self.session_key, "fromStateVersion": self.last}
                await line.request("sessions.messages.subscribe", where, at_answer=ear.begin)
                await self._stay(line, watched)
            except ConnectionLost:
                pass
            finally:
                watched.torn = line.torn
                watched.to_the_end = ear.begun and self._scene.over.is_set() and not line.ended.is_set()
                line.cut()
                await line.ended.wait()
                watched.closed = line.close_code
                self.last = ear.last

    async def _stay(self, line: RawConnection, watched: WatchedStream) -> None:
        """Until the line or the round is over; a restless one does not wait for that."""
        if self._restless and self._rng.random() < 0.7:
            await _either(line.ended, self._scene.over, seconds=self._rng.uniform(0.2, 1.5))
            if self._rng.random() < 0.5:
                return
            watched.slow = True
            line.pause()
            await _either(line.ended, self._scene.over, seconds=self._rng.uniform(0.1, 0.6))
            line.resume()
        await _either(line.ended, self._scene.over)


async def _either(*events: asyncio.Event, seconds: float | None = None) -> None:
    """Until one of them is set, or the time is over."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
