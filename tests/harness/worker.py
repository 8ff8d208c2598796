"""Workers in the test's own process with a fake model. For tests that kill processes see stack.py."""

import asyncio
import itertools
from typing import Any

from agents.worker import Worker
from sessions_app.events.replay import RunView, replay_events
from sessions_app.models import Event, Run, Session, ToolCall, TranscriptEntry
from sessions_app.runs import lifecycle
from tests.harness.fake_model import FakeModel

TIMEOUT = 30.0  # seconds; only a guard against hangs


class WorkerHarness:
    def __init__(self, model: FakeModel, user: Any, session: Session) -> None:
        self.model, self.user, self.session = model, user, session
        self._numbers = itertools.count(1)
        self._workers: dict[Worker, asyncio.Task[None]] = {}

    def open(self, concurrency: int | None = None) -> Worker:
        """Start a worker. The fixture starts the first one."""
        worker = Worker(concurrency=concurrency)
        self._workers[worker] = asyncio.create_task(worker.run())
        return worker

    @property
    def busy(self) -> bool:
        """Whether a worker is executing a run, regardless of the rows."""
        return any(worker.runners for worker in self._workers)

    async def close(self) -> None:
        """Drain all workers."""
        for worker in self._workers:
            worker.drain()
        await asyncio.wait_for(asyncio.gather(*self._workers.values()), TIMEOUT)
        self._workers.clear()

    def send(self, prompt: str, **options: Any) -> int:
        """Accept a message from the user as the gateway does. Returns the run's primary key."""
        run_id = options.pop("run_id", f"k{next(self._numbers)}")
        return lifecycle.accept_run(
            user=self.user, session=options.pop("session", self.session), run_id=run_id, prompt=prompt, **options
        ).pk

    async def until(self, run_pk: int, *statuses: str) -> Run:
        """Wait until the run has one of these statuses."""
        for _ in range(int(TIMEOUT / 0.01)):
            run = Run.objects.get(pk=run_pk)
            if run.status in statuses:
                return run
            await asyncio.sleep(0.01)
        raise AssertionError(f"run {run_pk} is {run.status} ({run.reason}) expected {' or '.join(statuses)}")

    async def ended(self, run_pk: int) -> Run:
        return await self.until(run_pk, *Run.ENDED)

    async def answer(self, prompt: str, **options: Any) -> Run:
        """Send a message and wait for the end of its run."""
        return await self.ended(self.send(prompt, **options))


def events_of(run: int | Run) -> list[Event]:
    return list(Event.objects.filter(run=run).order_by("seq"))


def view_of(run: int | Run) -> RunView:
    return replay_events({"seq": event.seq, "stream": event.stream, "data": event.data} for event in events_of(run))


def phases_of(run: int | Run) -> list[str]:
    return [event.data["phase"] for event in events_of(run) if event.stream == "lifecycle"]


def transcript_of(run: int | Run) -> list[tuple[str, str]]:
    """Return (role, text) of the run's transcript entries."""
    return list(TranscriptEntry.objects.filter(run=run).order_by("position").values_list("role", "text"))


def calls_of(run: int | Run) -> list[ToolCall]:
    return list(ToolCall.objects.filter(run=run).order_by("position"))


def token_text(count: int) -> str:
    """Return the fake model's answer to `[[tokens=COUNT]]`."""
    return "".join(f"w{i} " for i in range(count))
