"""Forgetting old events: those of runs that ended long ago, and as old ones that belong to no run. Transcripts, runs and tool
calls stay.

Events go from the front of a session's log only, so that what is kept is always one piece without a hole: the oldest cursor kept
tells every client whether it can go on. An event that is young, or whose run is, holds up those behind it.
"""

import datetime as dt
import uuid
from itertools import takewhile

from clawsite.infra import clock
from sessions_app.models import Event

PAGE_SIZE = 1000
MAX_EVENTS_PER_STEP = 200  # events in one transaction: some 2 ms on SQLite, for which other writers wait


def list_sessions_with_old_events(before: dt.datetime, after: int = 0) -> tuple[list[uuid.UUID], int]:
    """Sessions that have old events among the next ones of the whole log, and where to look on; none when that is done.

    Rows are written in the order of time, more or less, so the old ones are found at the front, without an index of their own.
    """
    found = Event.objects.filter(pk__gt=after).order_by("pk").values_list("pk", "session_id", "ts")[:PAGE_SIZE]
    old = [(pk, session_id) for pk, session_id, ts in found if ts < clock.to_ms(before)]
    return list(dict.fromkeys(session_id for _, session_id in old)), old[-1][0] if old else after


def find_deletable_cursor(session_id: uuid.UUID, before: dt.datetime) -> int:
    """The cursor up to which a session's log may be forgotten in one step; 0 when there is nothing to forget."""

    def is_old(event: tuple[int, int, int | None, dt.datetime | None]) -> bool:
        _, ts, run, ended = event
        return ts < clock.to_ms(before) if run is None else ended is not None and ended < before

    oldest = Event.objects.filter(session=session_id).order_by("cursor").values_list("cursor", "ts", "run_id", "run__ended_at")
    return max((cursor for cursor, *_ in takewhile(is_old, oldest[:MAX_EVENTS_PER_STEP])), default=0)


def delete_events(session_id: uuid.UUID, cursor: int) -> None:
    """Delete a session's events up to a cursor."""
    Event.objects.filter(session=session_id, cursor__lte=cursor).delete()
