"""Waiting for the end of a run, wherever it is worked on: woken by the bus, with the hub's poll behind it."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from clawsite.accounts.models import User
from clawsite.infra import db
from sessions_app import selectors
from sessions_app.events import is_last
from sessions_app.selectors import RunState


class RunWaits:
    def __init__(self) -> None:
        self._waiting: dict[int, set[asyncio.Event]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def runs(self) -> list[int]:
        return list(self._waiting)

    def hear(self, events: Iterable[dict[str, Any]]) -> None:
        if self._waiting:
            for event in events:
                if event["run"] in self._waiting and is_last(event):
                    self.ended(event["run"])

    def ended(self, run_pk: int) -> None:
        for waiting in self._waiting.get(run_pk, ()):
            waiting.set()

    @contextmanager
    def of(self, run_pk: int) -> Iterator[asyncio.Event]:
        """Set when the run may have ended."""
        news = asyncio.Event()
        self._waiting.setdefault(run_pk, set()).add(news)
        try:
            yield news
        finally:
            waiting = self._waiting[run_pk]
            waiting.discard(news)
            if not waiting:
                del self._waiting[run_pk]


async def end_of_run(waits: RunWaits, user: User, run_id: str, run_pk: int) -> RunState:
    """The run once it has ended. Listening begins before the row is read, so the end cannot fall between the two."""
    with waits.of(run_pk) as news:
        while True:
            news.clear()
            state = await db.read(selectors.run_state, user, run_id)
            if state.ended:
                return state
            await news.wait()
