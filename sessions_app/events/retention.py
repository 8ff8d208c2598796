"""Delete old events: those of runs that ended long ago, and equally old ones without a run. Transcripts, runs and tool calls stay.

Events are only deleted from the front of a session's log, so the rest has no gaps: the oldest remaining cursor tells every client
whether it can continue. A recent event, or one of a recent run, protects all events after it.
"""

import datetime as dt
import uuid
from itertools import takewhile

from clawsite.infra import clock
from sessions_app.models import Event

PAGE_SIZE = 1000
MAX_EVENTS_PER_STEP = 200  # per transaction: about 2 ms on SQLite, during which other writers wait


def list_sessions_with_old_events(before: dt.datetime, after: int = 0) -> tuple[list[uuid.UUID], int]:
    """Return sessions with old events in the next page of the log, and where to continue; empty when done.

    Rows are written roughly in time order, so old ones are at the front and need no extra index.
    """
    page = Event.objects.filter(pk__gt=after).order_by("pk").values_list("pk", "session_id", "ts")[:PAGE_SIZE]
    old = [(pk, session_id) for pk, session_id, ts in page if ts < clock.to_ms(before)]
    return list(dict.fromkeys(session_id for _, session_id in old)), old[-1][0] if old else after


def find_deletable_cursor(session_id: uuid.UUID, before: dt.datetime) -> int:
    """Return the cursor up to which a session's log can be deleted in one step; 0 if there is nothing to delete."""

    def is_old(event: tuple[int, int, int | None, dt.datetime | None]) -> bool:
        _, ts, run, ended = event
        return ts < clock.to_ms(before) if run is None else ended is not None and ended < before

    oldest = Event.objects.filter(session=session_id).order_by("cursor").values_list("cursor", "ts", "run_id", "run__ended_at")
    return max((cursor for cursor, *_ in takewhile(is_old, oldest[:MAX_EVENTS_PER_STEP])), default=0)


def delete_events(session_id: uuid.UUID, cursor: int) -> None:
    """Delete a session's events up to a cursor."""
    Event.objects.filter(session=session_id, cursor__lte=cursor).delete()
