"""A session as this process has told it: how far, to whom, and what of it still waits. The hub works on these."""

from typing import Any

from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.protocol.chat_events import ChatEventBuilder
from clawsite.gateway.protocol.event_frames import SessionName

EventPayload = dict[str, Any]  # an event of the log, as the bus carries it


class SessionStream:
    """A session as this process has told it."""

    __slots__ = (
        "busy",
        "closed",
        "guests",
        "head",
        "id",
        "name",
        "opened",
        "owner",
        "recipients",
        "touched",
        "version",
        "views",
        "waiting",
    )

    def __init__(self, session_id: str, now: float) -> None:
        self.id = session_id
        self.name = SessionName("", "")
        self.opened = False  # its row has been read
        self.closed = False  # the hub has forgotten it
        self.owner = 0
        self.head = 0
        self.waiting: list[EventPayload] = []  # heard, not yet delivered, by cursor
        self.busy = False  # rows are being read, and only that task delivers
        self.views: dict[int, ChatEventBuilder] = {}  # unfinished runs
        self.touched = now
        self.recipients: list[Connection] = []  # of its owner
        self.guests: list[Connection] = []  # of others, who know it by another key
        self.version = -1  # of the audience the recipients were chosen from

    def close(self) -> None:
        """Forgotten: a task or a timer that still holds it has nothing more to tell."""
        self.closed = True
        self.waiting.clear()

    def needs_rows(self, event: EventPayload) -> bool:
        """Something before this event is missing here, or its data stayed behind because it is large."""
        if not self.opened or event["cursor"] > self.head + 1 or event["data"] is None:
            return True
        return event["run"] is not None and event["seq"] > 1 and event["run"] not in self.views
