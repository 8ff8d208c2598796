"""Wait for news about an object, by its key. News is a hint: waiters read the rows, even if no news arrives."""

import asyncio
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Waiters(Generic[K]):
    def __init__(self) -> None:
        self._waiting: dict[K, set[asyncio.Event]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def tell(self, key: K) -> None:
        for waiting in self._waiting.get(key, ()):
            waiting.set()

    @contextmanager
    def of(self, *keys: K) -> Iterator[asyncio.Event]:
        """Yield an event that is set when there may be news about one of the keys."""
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
