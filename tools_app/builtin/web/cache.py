"""Cache of recent responses in this process, so that a repeated call doesn't fetch the same thing again."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

LIFETIME_S = 15 * 60.0
MAX_ENTRIES = 64

T = TypeVar("T")


class TimedCache(Generic[T]):
    """The latest values by key. When it is full, the oldest value is dropped."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._entries: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        expires_at, value = self._entries.get(key, (0.0, None))
        return value if self._now() < expires_at else None

    def put(self, key: Hashable, value: T) -> None:
        self._entries.pop(key, None)
        self._entries[key] = (self._now() + LIFETIME_S, value)
        while len(self._entries) > MAX_ENTRIES:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        self._entries.clear()
