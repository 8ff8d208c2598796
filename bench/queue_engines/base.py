"""The interface of a queue engine in the benchmark: no-op jobs, in order within a session, many sessions concurrently."""

from collections.abc import Callable
from typing import Protocol

CONCURRENCY = 64  # max concurrent jobs, if the engine supports it; the default of our main lane

Started = Callable[[int], None]


class Engine(Protocol):
    """The sender or the worker of a queue. Each is a separate object in a separate process."""

    async def open_sender(self, sessions: list[str]) -> None: ...
    async def send(self, number: int, session: str) -> None: ...
    async def unfinished(self) -> int:
        """Return the number of unfinished jobs in the database."""
        ...

    async def work(self, started: Started) -> None:
        """Run jobs until canceled. Each job only calls `started(number)`."""
        ...
