"""Answers kept for a while in this process, so that a model that looks twice does not ask the other server twice."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

KEPT_S = 15 * 60.0
MAX_KEPT = 64

T = TypeVar("T")


class Kept(Generic[T]):
    """The latest answers by key. The oldest goes when there are too many."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._found: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        until, answer = self._found.get(key, (0.0, None))
        return answer if self._now() < until else None

    def put(self, key: Hashable, answer: T) -> None:
        self._found.pop(key, None)
        self._found[key] = (self._now() + KEPT_S, answer)
        while len(self._found) > MAX_KEPT:
            self._found.popitem(last=False)

    def clear(self) -> None:
        self._found.clear()
