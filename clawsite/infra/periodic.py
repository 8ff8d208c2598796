"""Periodic tasks of every web process. Apps register them in `AppConfig.ready()`, and the runtime runs them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    name: str
    every: Callable[[], float]  # returns the interval in seconds; called when the process starts, so that it can use settings
    function: Callable[[], Awaitable[None]]


_tasks: dict[str, PeriodicTask] = {}


def register(name: str, every: Callable[[], float], function: Callable[[], Awaitable[None]]) -> None:
    """Register a task, or replace the task with this name."""
    _tasks[name] = PeriodicTask(name, every, function)


def registered_tasks() -> list[PeriodicTask]:
    return list(_tasks.values())
