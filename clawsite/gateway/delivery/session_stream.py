"""The hub's delivery state of one session: how much was sent, to whom, and what is still queued."""

from typing import Any

from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.protocol.events.chat import ChatEventBuilder
from clawsite.gateway.protocol.events.frames import SessionName

EventPayload = dict[str, Any]  # an event of the log, as the bus carries it


class SessionStream:
    """The delivery state of one session in this process."""

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
        self.opened = False  # the session's row has been read
        self.closed = False  # the hub has forgotten it
        self.owner = 0
        self.head = 0
        self.waiting: list[EventPayload] = []  # received but not delivered, by cursor
        self.busy = False  # rows are being read, and only that task delivers
        self.views: dict[int, ChatEventBuilder] = {}  # unfinished runs
        self.touched = now
        self.recipients: list[Connection] = []  # of its owner
        self.guests: list[Connection] = []  # of other users, who use another key for it
        self.version = -1  # of the audience the recipients were chosen from

    def close(self) -> None:
        """Stop sending, even if a task or timer still has a reference to this stream."""
        self.closed = True
        self.waiting.clear()

    def needs_rows(self, event: EventPayload) -> bool:
        """Whether an earlier event is missing, or this event's data was too large for the bus."""
        if not self.opened or event["cursor"] > self.head + 1 or event["data"] is None:
            return True
        return event["run"] is not None and event["seq"] > 1 and event["run"] not in self.views
