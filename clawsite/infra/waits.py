"""Wait for notifications about an object, by its key. A notification is only a hint: waiters also poll the database."""

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

    def notify(self, key: K) -> None:
        for event in self._waiting.get(key, ()):
            event.set()

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
