"""Answers kept for a while in this process, so that a model that looks twice does not ask the other server twice."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

LIFETIME_S = 15 * 60.0
MAX_ENTRIES = 64

T = TypeVar("T")


class TimedCache(Generic[T]):
    """The latest answers by key. The oldest goes when there are too many."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._entries: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        until, answer = self._entries.get(key, (0.0, None))
        return answer if self._now() < until else None

    def put(self, key: Hashable, answer: T) -> None:
        self._entries.pop(key, None)
        self._entries[key] = (self._now() + LIFETIME_S, answer)
        while len(self._entries) > MAX_ENTRIES:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        self._entries.clear()
