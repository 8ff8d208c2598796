"""Write streamed text to the event log, batching the deltas of all runs of this process.

The first delta of an answer is written immediately; later ones are merged and written with the next commit, at most every 20 ms.
At 1,000 tokens per second, a row per token would cost 40-50% of a core; merged rows cost 5-6%.
"""

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, field

from clawsite.infra import db
from clawsite.infra.errors import Unavailable
from clawsite.infra.observability import metrics
from sessions_app.events.journal import NewEvent
from sessions_app.runs import queue
from sessions_app.runs.queue import ClaimedRun

log = logging.getLogger(__name__)

COMMIT_INTERVAL_S = 0.020  # with 300 watchers, the slowest is 39-41 ms behind at 25 ms, 34-35 ms at 20 ms
# Before an answer's first delta. Not zero, so that answers that start together share a commit.
FIRST_COMMIT_DELAY_S = 0.003
MAX_DELTA_LENGTH = 8_192  # characters; keeps an event well below the bus message limit


@dataclass(frozen=True, slots=True)
class DeltaSource:
    """What a delta belongs to: the text, the thinking, or one of the tool calls being streamed."""

    stream: str
    call: int | None = None
    name: str = ""


TEXT, THINKING = DeltaSource("assistant"), DeltaSource("thinking")


@dataclass(slots=True, eq=False)
class OpenMessage:
    """The answer being streamed by one run. `text` is what this attempt has streamed so far."""

    claimed: ClaimedRun
    message_id: str = ""
    attempt: int = 1
    text: list[str] = field(default_factory=list)
    published: dict[DeltaSource, int] = field(default_factory=dict)  # number of characters already in events
    unsent: list[tuple[DeltaSource, str]] = field(default_factory=list)  # adjacent deltas of one source are merged
    closing: tuple[NewEvent, ...] = ()  # published first if the run ends or is frozen now, to close what is in progress
    write_error: BaseException | None = None  # why nothing more can be written
    owner: "asyncio.Task[None] | None" = None
    started_at: float = 0.0
    thought_until: float = 0.0

    def begin(self, message_id: str, attempt: int) -> None:
        self.message_id, self.attempt = message_id, attempt
        self.text, self.published, self.unsent = [], {}, []
        self.started_at = self.thought_until = time.monotonic()

    @property
    def thinking_ms(self) -> int:
        """Time from the start of the answer to its last thinking delta; a provider may send all thinking in one delta."""
        return int((self.thought_until - self.started_at) * 1000)

    @property
    def is_unpublished(self) -> bool:
        """Whether no part of this answer has been published yet."""
        return not self.published

    def void(self) -> list[NewEvent]:
        """Return the events that discard this answer; none if nothing of it was published."""
        if self.is_unpublished:
            return []
        return [NewEvent("assistant", {"messageId": self.message_id, "attempt": self.attempt + 1, "reset": True})]

    def add(self, source: DeltaSource, text: str) -> None:
        if source == TEXT:
            self.text.append(text)
        elif source == THINKING:
            self.thought_until = time.monotonic()
        if self.unsent and self.unsent[-1][0] == source:
            text = self.unsent.pop()[1] + text
        self.unsent.append((source, text))

    def take_events(self) -> list[NewEvent]:
        """Return unpublished text as events and mark it as published; the caller writes them."""
        events = []
        for source, text in self.unsent:
            for begin in range(0, len(text), MAX_DELTA_LENGTH):
                piece = text[begin : begin + MAX_DELTA_LENGTH]
                offset = self.published.get(source, 0)
                data = {"messageId": self.message_id, "attempt": self.attempt, "delta": piece, "offset": offset}
                if source.call is not None:
                    data |= {"index": source.call, "name": source.name}
                events.append(NewEvent(source.stream, data))
                self.published[source] = offset + len(piece)
        self.unsent = []
        return events

    def fail(self, error: BaseException) -> None:
        self.write_error = error
        if self.owner:
            self.owner.cancel()


class DeltaWriter:
    """One per worker process."""

    def __init__(self) -> None:
        self._waiting: dict[int, OpenMessage] = {}
        self._last_commit = 0.0
        self._answer_started = asyncio.Event()
        self._flushing: asyncio.Task[None] | None = None

    def add(self, message: OpenMessage, source: DeltaSource, text: str) -> None:
        message.add(source, text)
        self._waiting[message.claimed.pk] = message
        if message.is_unpublished:
            self._answer_started.set()
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        try:
            while self._waiting:
                await self._wait_for_commit()
                batch = [(message, events) for message in self._waiting.values() if (events := message.take_events())]
                self._waiting = {}
                if batch:  # else everything was written when its run ended
                    self._last_commit = asyncio.get_running_loop().time()
                    await self._write(batch)
        finally:
            self._flushing = None

    async def _wait_for_commit(self) -> None:
        """Wait until the next commit is due, or less if a new answer starts."""
        if not self._answer_started.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._last_commit + COMMIT_INTERVAL_S):
                    await self._answer_started.wait()
        if self._answer_started.is_set():
            self._answer_started.clear()
            await asyncio.sleep(max(0.0, self._last_commit + FIRST_COMMIT_DELAY_S - asyncio.get_running_loop().time()))

    async def _write(self, batch: list[tuple[OpenMessage, list[NewEvent]]]) -> None:
        began = time.perf_counter()
        try:
            held = await db.write(queue.append_events, [(message.claimed, events) for message, events in batch], alone=True)
        except Exception as error:  # the database failed: these runs can't continue here and are recovered later
            if len(batch) > 1 and not isinstance(error, Unavailable):
                for item in batch:  # one item is at fault: write the others
                    await self._write([item])
                return
            log.warning("could not write the deltas of %d runs: %s", len(batch), error)
            for message, _ in batch:
                message.fail(error)
            return
        metrics.flush_seconds.observe(time.perf_counter() - began)
        metrics.deltas.inc(sum(len(events) for _, events in batch))
        for message, _ in batch:
            if message.claimed.pk not in held:
                message.fail(queue.LeaseLost(f"run {message.claimed.pk} is now owned by another worker"))
