"""Reuse objects built from rows while the rows are identical.

Building objects through the ORM takes ten times as long as reading their rows with plain SQL. The rows are read each time, so a
change is visible immediately, whichever process made it, and needs no notification.
"""

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
State = tuple[Any, ...]

MAX_CACHED = 1_000  # objects of one cache, a few kilobytes each


class RowCache(Generic[K, T]):
    """Objects by key, each with the rows it was built from. All callers share the objects: don't change them.

    `read_state` returns everything that `build` depends on, or None if there is no such object.
    """

    def __init__(self, read_state: Callable[[K], State | None], build: Callable[[K], T | None]) -> None:
        self._read_state = read_state
        self._build = build
        self._cached: dict[K, tuple[State, T]] = {}

    def find(self, key: K) -> T | None:
        state = self._read_state(key)
        if state is None:
            return None
        cached = self._cached.get(key)
        if cached and cached[0] == state:
            return cached[1]
        built = self._build(key)
        if built is not None and self._read_state(key) == state:  # otherwise the object may mix rows from before and after a change
            while len(self._cached) >= MAX_CACHED:
                self._cached.pop(next(iter(self._cached)), None)
            self._cached[key] = (state, built)
        return built
