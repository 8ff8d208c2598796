"""Periodic tasks: declared by apps in `worker_tasks.py` or `web_tasks.py`, run by processes with that role (`process/host.py`).

Each runs in a separate asyncio task, so one that fails or hangs affects no other. Failures and hangs are logged once, shown in
the metrics, and named by `claw doctor`.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from clawsite.infra.bus import BusMessage
from clawsite.infra.errors import ClawError
from clawsite.infra.observability import metrics
from clawsite.infra.waits import wait_for_hint

log = logging.getLogger(__name__)

Role = Literal["worker", "web"]  # of a process
F = TypeVar("F", bound=Callable[..., Awaitable[None]])

HANG_SECONDS = 60.0  # a run that takes longer is reported as hanging, but not canceled
LATE_INTERVALS, LATE_SECONDS = 3, 60.0  # `claw doctor` names a task without a success for longer than both
BATCH_PAUSE_SECONDS = 0.05  # for tasks that write in batches: between two of them, so that other writers go first


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    name: str
    run: Callable[[], Awaitable[None]]
    every: Callable[[], float]  # returns the interval in seconds; called when the process starts, so that it can use settings
    hint: type[BusMessage] | None = None  # the task also runs soon after each of these messages
    at_start: bool = True  # False: the first run is one interval after the start of the process
    at_end: bool = False  # also run once when the process stops
    hang_after: float = HANG_SECONDS


_tasks: dict[tuple[Role, str], PeriodicTask] = {}


def periodic(
    name: str,
    *,
    on: Role,
    every: float | Callable[[], float],
    hint: type[BusMessage] | None = None,
    at_start: bool = True,
    at_end: bool = False,
    hang_after: float = HANG_SECONDS,
) -> Callable[[F], F]:
    """Register an async function as a periodic task of every process with this role. It must be safe to run in several."""

    def register(function: F) -> F:
        interval = every if callable(every) else lambda: every
        task = PeriodicTask(name, function, interval, hint, at_start, at_end, hang_after)
        if (other := _tasks.setdefault((on, name), task)) is not task:
            raise ValueError(f"two periodic tasks of a {on} are called {name!r}: {other.run} and {function}")
        return function

    return register


def registered_tasks(role: Role) -> list[PeriodicTask]:
    return [task for (on, _), task in _tasks.items() if on == role]


@dataclass(frozen=True, slots=True)
class TaskState:
    """How a periodic task of some process on this host was doing when the process last wrote its metrics."""

    process: str
    task: str
    interval: float
    hang_after: float
    running: float  # seconds
    since_success: float  # seconds, or since its start if there was no success

    @property
    def problem(self) -> str:
        if self.running > self.hang_after:
            return f"has been running for {self.running:.0f} s"
        unsuccessful = self.since_success - self.running
        if unsuccessful > max(LATE_INTERVALS * self.interval, LATE_SECONDS):
            return f"has not succeeded for {unsuccessful:.0f} s (interval: {self.interval:g} s)"
        return ""


def read_task_states(home: Path) -> list[TaskState]:
    """Return the tasks of all processes of this host."""
    states = []
    for process, written_at, families in metrics.read_snapshots(home):
        values = {(sample.name, sample.labels.get("task")): sample.value for family in families for sample in family.samples}
        for name, task in values:
            if name == "clawsite_periodic_interval_seconds" and task:
                interval, hang_after, running, succeeded_at = (
                    values[f"clawsite_periodic_{each}_seconds", task]
                    for each in ("interval", "hang", "running", "last_success_timestamp")
                )
                states.append(TaskState(process, task, interval, hang_after, running, written_at - succeeded_at))
    return states


class TaskRunner:
    """Runs one periodic task and reports its state."""

    def __init__(
        self,
        task: PeriodicTask,
        hint: asyncio.Event | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        later: Callable[[float, Callable[[], None]], asyncio.TimerHandle] | None = None,
    ) -> None:
        self.task = task
        self.hint = hint or asyncio.Event()
        self._interval = task.every()
        self._now = now
        self._later = later or asyncio.get_running_loop().call_later
        self._began: float | None = None
        self._hanging = False
        self._failures = 0  # since the last success
        self._error: type[BaseException] | None = None  # of the last run
        metrics.observe_periodic_task(task.name, self._interval, task.hang_after, self.running_seconds)

    def running_seconds(self) -> float:
        """Return how long the current run has taken, 0 if there is none."""
        began = self._began
        return 0.0 if began is None else self._now() - began

    async def run_forever(self) -> None:
        if not self.task.at_start:
            await self.wait()
        while True:
            await self.run_once()
            await self.wait()

    async def wait(self) -> None:
        await wait_for_hint(self.hint, self._interval)

    async def run_once(self) -> None:
        self._began = self._now()
        timer = self._later(self.task.hang_after, self._report_hanging)
        try:
            await self.task.run()
        except asyncio.CancelledError as error:
            if (ours := asyncio.current_task()) is None or ours.cancelling():
                raise  # the process is stopping
            self._record_failure(error)  # something that the task waited for was canceled
        except Exception as error:
            self._record_failure(error)
        else:
            self._record_success()
        finally:
            timer.cancel()
            if self._hanging:
                log.warning("periodic task %r ended after %.0f s", self.task.name, self.running_seconds())
            self._began, self._hanging = None, False

    def _report_hanging(self) -> None:
        self._hanging = True
        log.error("periodic task %r has been running for %.0f s", self.task.name, self.running_seconds())

    def _record_failure(self, error: BaseException) -> None:
        metrics.periodic_failures.labels(self.task.name).inc()
        self._failures += 1
        if type(error) is self._error:  # reported when this error first occurred
            return
        self._error = type(error)
        if isinstance(error, ClawError):
            log.warning("periodic task %r failed: %s", self.task.name, error.message)
        else:
            log.error("periodic task %r failed", self.task.name, exc_info=error)

    def _record_success(self) -> None:
        metrics.periodic_last_success.labels(self.task.name).set_to_current_time()
        if self._error:
            log.info("periodic task %r succeeded after %d failures", self.task.name, self._failures)
        self._error, self._failures = None, 0
