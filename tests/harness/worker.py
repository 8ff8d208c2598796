"""A worker inside the test's own process, with a model that answers as it is told: for what is easier seen from within.

What has to survive the death of a process is tested with real ones, see stack.py.
"""

import asyncio
import itertools
from typing import Any

from agents.worker import Worker
from sessions_app.events.replay import RunView, replay_events
from sessions_app.models import Event, Run, Session, ToolCall, TranscriptEntry
from sessions_app.runs import lifecycle
from tests.harness.fake_model import FakeModel

PATIENCE = 30.0  # a guard against hangs


class Workshop:
    def __init__(self, model: FakeModel, user: Any, session: Session) -> None:
        self.model, self.user, self.session = model, user, session
        self._numbers = itertools.count(1)
        self._workers: dict[Worker, asyncio.Task[None]] = {}

    def open(self, concurrency: int | None = None) -> Worker:
        """Start a worker; the first one is started by the fixture."""
        worker = Worker(concurrency=concurrency)
        self._workers[worker] = asyncio.create_task(worker.run())
        return worker

    @property
    def busy(self) -> bool:
        """Whether a worker is working on something, whatever the rows say."""
        return any(worker._runners for worker in self._workers)

    async def close(self) -> None:
        """Drain all workers."""
        for worker in self._workers:
            worker.drain()
        await asyncio.wait_for(asyncio.gather(*self._workers.values()), PATIENCE)
        self._workers.clear()

    def send(self, prompt: str, **options: Any) -> int:
        """Accept a message of the user into the session, as the gateway would; -> the run's key."""
        run_id = options.pop("run_id", f"k{next(self._numbers)}")
        return lifecycle.accept_run(
            user=self.user, session=options.pop("session", self.session), run_id=run_id, prompt=prompt, **options
        ).pk

    async def until(self, run_pk: int, *statuses: str) -> Run:
        """The run as soon as it has one of these statuses."""
        for _ in range(int(PATIENCE / 0.01)):
            run = Run.objects.get(pk=run_pk)
            if run.status in statuses:
                return run
            await asyncio.sleep(0.01)
        raise AssertionError(f"run {run_pk} is {run.status} ({run.reason}) and not {' or '.join(statuses)}")

    async def ended(self, run_pk: int) -> Run:
        return await self.until(run_pk, *Run.ENDED)

    async def answer(self, prompt: str, **options: Any) -> Run:
        """Send, and wait for the end."""
        return await self.ended(self.send(prompt, **options))


def events_of(run: int | Run) -> list[Event]:
    return list(Event.objects.filter(run=run).order_by("seq"))


def view_of(run: int | Run) -> RunView:
    return replay_events({"seq": event.seq, "stream": event.stream, "data": event.data} for event in events_of(run))


def phases_of(run: int | Run) -> list[str]:
    return [event.data["phase"] for event in events_of(run) if event.stream == "lifecycle"]


def said_in(run: int | Run) -> list[tuple[str, str]]:
    """(role, words) of the run's part of the transcript."""
    return list(TranscriptEntry.objects.filter(run=run).order_by("position").values_list("role", "text"))


def calls_of(run: int | Run) -> list[ToolCall]:
    return list(ToolCall.objects.filter(run=run).order_by("position"))


def words(count: int) -> str:
    """What the model says when it is asked for so many tokens."""
    return "".join(f"w{i} " for i in range(count))
