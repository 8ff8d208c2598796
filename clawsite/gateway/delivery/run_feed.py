"""Follow one run in any process: each of its events once and in order, from the bus and, after a gap, from the rows.

For HTTP responses, which have no connection in the hub. After a gap, an event too large for the bus, or a change found only by
polling, the rows are read from the last event sent.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any

import orjson
from django.utils.translation import gettext as _

from clawsite.infra import db, sql
from clawsite.infra.errors import Unavailable
from sessions_app import tables
from sessions_app.events.announce import EventsCommitted, is_last_event

EventDict = Mapping[str, Any]  # seq, stream, data
MAX_WAITING = 1_000  # events per follower; for a slower client the rest is read from the rows
PAGE_SIZE = 500
MAX_HEADS = 4_096  # runs whose last event number is remembered; a follower registers within milliseconds


class RunFollower:
    """One follower. `sent` is the last event it was given."""

    def __init__(self, sent: int) -> None:
        self.sent = sent
        self._received: list[EventDict] = []
        self._head = sent  # the last event known to exist
        self._news = asyncio.Event()
        self._closed = False

    def close(self) -> None:
        """End the feed because this process is stopping; the run continues."""
        self._closed = True
        self._news.set()

    def add_event(self, event: EventDict) -> None:
        self._head = max(self._head, event["seq"])
        if len(self._received) < MAX_WAITING:
            self._received.append(event)
        self._news.set()

    def note_head(self, seq: int) -> None:
        """Handle the run's last event number, as read from its row."""
        self._head = max(self._head, seq)
        if seq > self.sent:
            self._news.set()

    async def events(self, run_pk: int) -> AsyncGenerator[EventDict, None]:
        """Yield events up to the run's last one."""
        while True:
            for event in await self._next(run_pk):
                self.sent = event["seq"]
                yield event
                if is_last_event(event):
                    return

    async def _next(self, run_pk: int) -> list[EventDict]:
        await self._news.wait()
        if self._closed:
            raise Unavailable(_("The gateway is restarting. The run continues."), retryable=True, retry_after_ms=1000)
        self._news.clear()
        received, self._received = self._received, []
        ready: list[EventDict] = []
        for event in sorted(received, key=lambda event: int(event["seq"])):
            last = self.sent + len(ready)
            if event["seq"] == last + 1 and event["data"] is not None:
                ready.append(event)
        if self.sent + len(ready) < self._head:
            rows = await db.read(_read_events_after, run_pk, self.sent)
            ready = rows if rows else ready
            if ready and ready[-1]["seq"] < self._head:  # there is another page
                self._news.set()
        return ready


class RunFeeds:
    """All followers in this process."""

    def __init__(self) -> None:
        self._feeds: dict[int, list[RunFollower]] = {}
        self._heads: dict[int, int] = {}  # run -> its last event number seen here, most recent last

    def handle_message(self, message: EventsCommitted) -> None:
        self.handle_events(message.events)

    def handle_events(self, events: Iterable[EventDict]) -> None:
        for event in events:
            run_pk = event["run"]
            if run_pk is None:
                continue
            self._heads[run_pk] = max(self._heads.pop(run_pk, 0), event["seq"])
            for feed in self._feeds.get(run_pk, ()):
                feed.add_event(event)
        while len(self._heads) > MAX_HEADS:
            del self._heads[next(iter(self._heads))]

    def close(self) -> None:
        for feeds in self._feeds.values():
            for feed in feeds:
                feed.close()

    async def poll(self) -> None:
        """Find events that were lost on the bus."""
        if self._feeds:
            for run_pk, seq in await db.read(_read_heads, list(self._feeds)):
                for feed in self._feeds.get(run_pk, ()):
                    feed.note_head(seq)

    async def follow(self, run_pk: int, *, after: int = 0) -> AsyncGenerator[EventDict, None]:
        """Yield the run's events after number `after`, up to its last."""
        feed = RunFollower(after)
        self._feeds.setdefault(run_pk, []).append(feed)
        # Events may have arrived after the run was committed and before this: the follower then reads them from the rows.
        feed.note_head(self._heads.get(run_pk, 0))
        try:
            if not after:
                for pk, seq in await db.read(_read_heads, [run_pk]):
                    if pk == run_pk:
                        feed.note_head(seq)
            async with contextlib.aclosing(feed.events(run_pk)) as events:
                async for event in events:
                    yield event
        finally:
            self._feeds[run_pk].remove(feed)
            if not self._feeds[run_pk]:
                del self._feeds[run_pk]


def _read_heads(run_pks: list[int]) -> list[tuple[int, int]]:
    return [
        (pk, seq)
        for pk, seq in sql.fetch_rows(f"SELECT id, seq FROM {tables.RUN} WHERE id IN ({sql.placeholders(run_pks)})", run_pks)
    ]


def _read_events_after(run_pk: int, seq: int) -> list[EventDict]:
    rows = sql.fetch_rows(
        f"SELECT seq, stream, data FROM {tables.EVENT} WHERE run_id = %s AND seq > %s ORDER BY seq LIMIT %s",
        [run_pk, seq, PAGE_SIZE],
    )
    return [{"seq": at, "stream": stream, "data": orjson.loads(data)} for at, stream, data in rows]
