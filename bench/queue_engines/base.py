"""What the queue benchmark asks of an engine: jobs that do nothing, in order within a session, many sessions at once."""

from collections.abc import Callable
from typing import Protocol

CONCURRENCY = 64  # of all sessions together, where the engine has such a limit; our main lane's default

Started = Callable[[int], None]


class Engine(Protocol):
    """One side of a queue: the sender sends, the worker works. A new object in a new process for each."""

    async def open_sender(self, sessions: list[str]) -> None: ...
    async def send(self, number: int, session: str) -> None: ...
    async def unfinished(self) -> int:
        """Jobs in the database that are not done."""
        ...

    async def work(self, started: Started) -> None:
        """Run jobs until cancelled; `started(number)` is the whole of each job."""
        ...
