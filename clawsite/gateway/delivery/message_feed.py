"""`session.message`: what enters a transcript, told to the connections that asked for messages.

The hub hands over each session's events in order. Those by which something may have been stored lead to one reading of the rows,
which brings all that the run has said since the last one: every message is told once, and in order. Nothing is read for nobody.
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
from clawsite.gateway.protocol.event_frames import OutgoingEvent
from clawsite.infra.errors import ClawError
from sessions_app.keys import make_shared_key
from sessions_app.transcript.new_messages import NewMessages

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _SessionState:
    """What of one session has been told, and what waits to be read."""

    told: dict[int, int] = field(default_factory=dict)  # unfinished run -> position of its last message that was told
    waiting: list[EventPayload] = field(default_factory=list)
    reading: bool = False


class MessageFeed:
    def __init__(self, rows: HubQueries, audience: Audience) -> None:
        self._rows = rows
        self._audience = audience
        self._sessions: dict[str, _SessionState] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    def hear(self, stream: SessionStream, event: EventPayload) -> None:
        """An event that the hub has just delivered."""
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
        everybody = self._audience.connections_of_session(stream.id, stream.owner, stream.name.key)
        return [connection for connection in everybody if connection.wants_messages(stream.id, _own_key(connection, stream))]

    async def _read(self, stream: SessionStream, session: _SessionState) -> None:
        try:
            while session.waiting:
                events, session.waiting = session.waiting, []
                runs = {event["run"]: session.told.get(event["run"], 0) for event in events if event["run"] is not None}
                ids = [event["data"]["message"]["messageId"] for event in events if event["run"] is None]
                found = await self._rows.said(stream.id, runs, ids)
                if found:
                    self._send(stream, session, found)
                for event in events:
                    if event["stream"] == "lifecycle" and event["data"]["phase"] != "start":
                        session.told.pop(event["run"], None)
        except Exception as error:
            # What comes later would stand behind a silent gap: they come back, and ask for what was said since.
            for connection in self._listeners(stream):
                connection.line.close(CloseCode.TRY_LATER, "what was said cannot be read now")
            if not isinstance(error, ClawError):
                raise
            log.warning("the messages of a session cannot be read now: %s", error.message, extra={"session": stream.id})
        finally:
            session.reading = False
            if not session.told and self._sessions.get(stream.id) is session:
                del self._sessions[stream.id]

    def _send(self, stream: SessionStream, session: _SessionState, found: NewMessages) -> None:
        listeners = self._listeners(stream)
        for message, run in zip(found.messages, found.runs, strict=True):
            payload: dict[str, Any] = dict(openclaw.to_session_message(message, found.session))
            outgoing = OutgoingEvent("session.message", payload, None)
            for_others = outgoing.about(make_shared_key(stream.id))
            for connection in listeners:
                if connection.is_new_message(stream.id, _own_key(connection, stream), message):
                    connection.take(outgoing if connection.user_pk == stream.owner else for_others)
            if run is not None:
                session.told[run] = message["position"]


def _own_key(connection: Connection, stream: SessionStream) -> str | None:
    """The key under which it may have asked before the session was there."""
    return stream.name.key if connection.user_pk == stream.owner else None


def _may_store_message(event: EventPayload) -> bool:
    """Whether a message may have entered the transcript with it."""
    data = event["data"]
    match event["stream"]:
        case "lifecycle":
            return data["phase"] in ("start", "end", "error")
        case "assistant":
            return bool(data.get("final"))
        case "tool":
            return bool(data["phase"] == "result")
    return event["run"] is None and bool(data.get("change") == "injected")
