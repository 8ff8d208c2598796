"""The host of a worker or web process: runs what apps have registered for its role, and depends on none of them.

A worker imports `worker_tasks.py` of every installed app that has one, a web process `web_tasks.py`. These modules declare
periodic tasks (`infra/periodic.py`) and start functions.
"""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, cast

from django.conf import settings
from django.utils.module_loading import autodiscover_modules

from clawsite.infra import bus, periodic
from clawsite.infra.bus import BusMessage
from clawsite.infra.errors import ClawError
from clawsite.infra.observability import metrics
from clawsite.infra.periodic import HANG_SECONDS, PeriodicTask, Role, TaskRunner

log = logging.getLogger(__name__)

StartFunction = Callable[["Host"], Coroutine[Any, Any, None]]
T = TypeVar("T")
M = TypeVar("M", bound=BusMessage)

BUS_STOP_SECONDS = 0.5

_start_functions: dict[Role, list[StartFunction]] = {"worker": [], "web": []}


def on_start(role: Role) -> Callable[[StartFunction], StartFunction]:
    """Register a function to be called when a process with this role starts, before any periodic task.

    For warm-ups, and for periodic tasks and bus handlers that share state: the function creates the object that has the state,
    and passes its methods to the host.
    """

    def register(function: StartFunction) -> StartFunction:
        _start_functions[role].append(function)
        return function

    return register


class Host:
    def __init__(self, role: Role, process_id: str) -> None:
        self.role = role
        self.id = process_id  # in the database and on the bus
        self.metrics_name = metrics.process_name(role)
        self._provided: dict[type, Any] = {}
        self._unsubscribe: list[Callable[[], None]] = []
        self._stop_functions: list[Callable[[], Awaitable[None]]] = []
        self._runners: list[TaskRunner] = []
        self._repeating: list[asyncio.Task[None]] = []
        self._spawned: set[asyncio.Task[Any]] = set()

    def provide(self, thing: object) -> None:
        """Make an object available to the start functions of apps, by its class."""
        self._provided[type(thing)] = thing

    def get(self, kind: type[T]) -> T:
        """Return the object of this class that the process, or an app started earlier, has provided."""
        thing: T = self._provided[kind]
        return thing

    def subscribe(self, kind: type[M], handler: Callable[[M], Coroutine[Any, Any, None] | None]) -> None:
        """Call `handler` with every bus message of this class until the process stops. A coroutine function runs as a task."""
        if inspect.iscoroutinefunction(handler):
            self._unsubscribe.append(bus.subscribe(kind, lambda message: self.spawn(handler(message))))
        else:
            self._unsubscribe.append(bus.subscribe(kind, cast("Callable[[M], None]", handler)))

    def hint(self, kind: type[BusMessage]) -> asyncio.Event:
        """Return an event that is set by every bus message of this class."""
        hint = asyncio.Event()
        self.subscribe(kind, lambda _message: hint.set())
        return hint

    def every(
        self,
        name: str,
        seconds: float,
        run: Callable[[], Awaitable[None]],
        *,
        hint: asyncio.Event | None = None,
        at_start: bool = True,
        hang_after: float = HANG_SECONDS,
    ) -> None:
        """Run a periodic task once all start functions have returned. It also runs soon after `hint` is set."""
        self._runners.append(TaskRunner(PeriodicTask(name, run, lambda: seconds, None, at_start, False, hang_after), hint))

    def on_stop(self, function: Callable[[], Awaitable[None]]) -> None:
        """Call `function` when the process stops, after the periodic tasks. The last one registered is called first."""
        self._stop_functions.append(function)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine as a task, which is canceled when the process stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)

    async def start(self) -> None:
        await bus.start()
        autodiscover_modules(f"{self.role}_tasks")
        for function in _start_functions[self.role]:
            await function(self)
        for task in periodic.registered_tasks(self.role):
            self._runners.append(TaskRunner(task, self.hint(task.hint) if task.hint else None))
        self.every("write metrics", metrics.WRITE_INTERVAL_SECONDS, self._write_metrics)
        self._repeating = [asyncio.create_task(runner.run_forever(), name=runner.task.name) for runner in self._runners]

    async def stop(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        await _cancel([*self._repeating, *self._spawned])
        for function in reversed(self._stop_functions):
            await _guarded(function)
        for runner in self._runners:
            if runner.task.at_end:
                await _guarded(runner.run_once)
        metrics.remove_snapshot(settings.HOME, self.metrics_name)
        with contextlib.suppress(TimeoutError):
            # redis-py can swallow a cancellation during a publish; the timeout cancels it again.
            async with asyncio.timeout(BUS_STOP_SECONDS):
                await bus.stop()

    async def _write_metrics(self) -> None:
        """Write a snapshot for the web processes of this host, any of which may serve the metrics request."""
        await asyncio.to_thread(metrics.write_snapshot, settings.HOME, self.metrics_name)


async def _guarded(function: Callable[[], Awaitable[None]]) -> None:
    try:
        async with asyncio.timeout(settings.DRAIN_SECONDS):
            await function()
    except ClawError as error:
        log.warning("could not stop %s: %s", getattr(function, "__qualname__", function), error.message)
    except Exception:
        log.exception("could not stop %s", getattr(function, "__qualname__", function))


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
