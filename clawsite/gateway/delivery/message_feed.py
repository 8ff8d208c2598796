"""Send `session.message` events for new transcript messages to the connections that subscribed to messages.

The hub passes on each session's events in order. After an event that may have stored a message, the rows are read for all the
run's messages since the last read: every message is sent once and in order. Without subscribers nothing is read.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

from clawsite.gateway.delivery.audience import Audience
from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.delivery.hub_queries import HubQueries
from clawsite.gateway.delivery.session_stream import EventPayload, SessionStream
from clawsite.gateway.protocol import openclaw
from clawsite.gateway.protocol.errors import CloseCode
from clawsite.gateway.protocol.events.frames import OutgoingEvent
from clawsite.infra.errors import ClawError
from sessions_app.keys import make_shared_key
from sessions_app.transcript.new_messages import NewMessages

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _SessionState:
    """Which messages of a session have been sent, and which events still have to be handled."""

    sent: dict[int, int] = field(default_factory=dict)  # unfinished run -> position of its last message sent
    waiting: list[EventPayload] = field(default_factory=list)
    reading: bool = False


class MessageFeed:
    def __init__(self, rows: HubQueries, audience: Audience) -> None:
        self._rows = rows
        self._audience = audience
        self._sessions: dict[str, _SessionState] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    def handle_event(self, stream: SessionStream, event: EventPayload) -> None:
        """Handle an event that the hub has just delivered."""
        if not _may_store_message(event):
            return
        if not self._listeners(stream):
            self._sessions.pop(stream.id, None)
            return
        session = self._sessions.setdefault(stream.id, _SessionState())
        session.waiting.append(event)
        if not session.reading:
            session.reading = True
            task = asyncio.get_running_loop().create_task(self._read(stream, session))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    def _listeners(self, stream: SessionStream) -> list[Connection]:
        connections = self._audience.connections_of_session(stream.id, stream.owner, stream.name.key)
        return [
            connection
            for connection in connections
            if connection.subscriptions.wants_messages(stream.id, _own_key(connection, stream))
        ]

    async def _read(self, stream: SessionStream, session: _SessionState) -> None:
        try:
            while session.waiting:
                events, session.waiting = session.waiting, []
                runs = {event["run"]: session.sent.get(event["run"], 0) for event in events if event["run"] is not None}
                ids = [event["data"]["message"]["messageId"] for event in events if event["run"] is None]
                new = await self._rows.new_messages(stream.id, runs, ids)
                if new:
                    self._send(stream, session, new)
                for event in events:
                    if event["stream"] == "lifecycle" and event["data"]["phase"] != "start":
                        session.sent.pop(event["run"], None)
        except Exception as error:
            # Sending later messages would leave a silent gap, so make the clients reconnect and read what they missed.
            for connection in self._listeners(stream):
                connection.line.close(CloseCode.TRY_LATER, "could not read new messages")
            if not isinstance(error, ClawError):
                raise
            log.warning("could not read the messages of a session: %s", error.message, extra={"session": stream.id})
        finally:
            session.reading = False
            if not session.sent and self._sessions.get(stream.id) is session:
                del self._sessions[stream.id]

    def _send(self, stream: SessionStream, session: _SessionState, new: NewMessages) -> None:
        listeners = self._listeners(stream)
        for message, run in zip(new.messages, new.runs, strict=True):
            payload: dict[str, Any] = dict(openclaw.to_session_message(message, new.session))
            outgoing = OutgoingEvent("session.message", payload, None)
            for_others = outgoing.about(make_shared_key(stream.id))
            for connection in listeners:
                if connection.subscriptions.is_new_message(stream.id, _own_key(connection, stream), message):
                    connection.deliver(outgoing if connection.user_pk == stream.owner else for_others)
            if run is not None:
                session.sent[run] = message["position"]


def _own_key(connection: Connection, stream: SessionStream) -> str | None:
    """Return the key by which the connection may have subscribed before the session existed."""
    return stream.name.key if connection.user_pk == stream.owner else None


def _may_store_message(event: EventPayload) -> bool:
    """Whether a message may have been stored with this event."""
    data = event["data"]
    match event["stream"]:
        case "lifecycle":
            return data["phase"] in ("start", "end", "error")
        case "assistant":
            return bool(data.get("final"))
        case "tool":
            return bool(data["phase"] == "result")
    return event["run"] is None and bool(data.get("change") == "injected")
