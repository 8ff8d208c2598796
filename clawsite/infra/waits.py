"""Wait for a hint, and poll in case it was lost. A hint only says that something may have changed; the database says what."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


async def wait_for_hint(hint: asyncio.Event, seconds: float | None = None) -> None:
    """Wait for the hint or the timeout, then clear the hint. A hint that arrives during the caller's next check is kept."""
    # Not `asyncio.wait_for`: before Python 3.12 it can swallow a simultaneous cancellation.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await hint.wait()
    hint.clear()


class Waiters(Generic[K]):
    """Everything this process waits for, by key. The receiver of bus messages calls `notify`."""

    def __init__(self) -> None:
        self._waiting: dict[K, set[asyncio.Event]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def notify(self, key: K) -> None:
        for event in self._waiting.get(key, ()):
            event.set()

    async def wait_until(self, key: K, read: Callable[[], Awaitable[T | None]], *, poll_seconds: float | None) -> T:
        """Return the first value of `read` that is not None: read now, after every hint, and at least every `poll_seconds`.

        Without `poll_seconds`, the owner of these waiters polls for all of them.
        """
        with self.of(key) as hint:
            while (value := await read()) is None:
                await wait_for_hint(hint, poll_seconds)
            return value

    @contextmanager
    def of(self, *keys: K) -> Iterator[asyncio.Event]:
        """Yield an event that is set on a notification for one of the keys."""
        event = asyncio.Event()
        for key in keys:
            self._waiting.setdefault(key, set()).add(event)
        try:
            yield event
        finally:
            for key in keys:
                waiting = self._waiting[key]
                waiting.discard(event)
                if not waiting:
                    del self._waiting[key]
