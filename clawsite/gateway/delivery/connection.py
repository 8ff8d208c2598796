"""A client after its handshake: who it is, what it may see, what it follows, and the line to it."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from clawsite.gateway.auth.authority import Authority, Role
from clawsite.gateway.delivery.send_queue import SocketWriter
from clawsite.gateway.protocol.event_frames import OutgoingEvent
from clawsite.gateway.protocol.frames import Client, Dialect


@dataclass(eq=False, slots=True)
class Connection:
    line: SocketWriter
    client: Client
    authority: Authority
    protocol: int
    dialect: Dialect
    caps: frozenset[str]
    connected_ms: int
    scoped: bool  # wants only the events of the sessions it follows
    locale: str = ""  # of what the client shows, in its own words
    device_id: str = ""  # of the device that signed, where there is one
    followed: set[str] = field(default_factory=set)  # ids of sessions it has subscribed to
    followed_keys: set[str] = field(default_factory=set)  # the same for own sessions that may not exist yet
    # Of these, those of which every event was promised, each with what is set once that promise has been sent.
    awaited_keys: dict[str, asyncio.Event] = field(default_factory=dict)
    # Whose messages it asked for: all since a moment (0: it did not), those of sessions behind a position, of keys to come.
    messages_since: int = 0
    message_floors: dict[str, int] = field(default_factory=dict)
    message_keys: set[str] = field(default_factory=set)
    # The sessions whose questions it asked for, by id and, for own ones to come, by key.
    approvals_of: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)  # sessions whose missed events are being sent: live ones wait in the rows
    floors: dict[str, int] = field(default_factory=dict)  # session -> cursor up to which everything was sent from rows

    @property
    def id(self) -> str:
        return self.line.id

    @property
    def user_pk(self) -> int:
        return self.authority.user.pk

    @property
    def role(self) -> Role:
        return self.authority.credential.role

    @property
    def device_pk(self) -> int:
        """The row of its device, 0 without one."""
        return self.authority.credential.device

    def wants(self, outgoing: OutgoingEvent) -> bool:
        """Protocol 1 has no capabilities to declare: it is told everything."""
        return not outgoing.needs or self.dialect == "classic" or outgoing.needs in self.caps

    def take(self, outgoing: OutgoingEvent) -> None:
        if self.wants(outgoing):
            encoded = outgoing.encoded(self.dialect)
            if encoded is not None:
                self.line.deliver(encoded, droppable=outgoing.droppable)

    def wants_messages(self, session_id: str, own_key: str | None) -> bool:
        """Whether it asked to be told the messages of a session that it may see."""
        return bool(self.messages_since) or session_id in self.message_floors or own_key in self.message_keys

    def is_new_message(self, session_id: str, own_key: str | None, message: dict[str, Any]) -> bool:
        """Whether a message was said after it asked."""
        if session_id in self.message_floors:
            return bool(message["position"] > self.message_floors[session_id])
        return own_key in self.message_keys or 0 < self.messages_since <= message["timestamp"]

    def wants_approvals(self, session_id: str, own_key: str | None) -> bool:
        """Whether it asked to be told the questions of a session that it may see."""
        return session_id in self.approvals_of or own_key in self.approvals_of

    def is_past(self, session_id: str, cursor: int) -> bool:
        """Whether catching up from rows has already brought the client past this event."""
        floor = self.floors.get(session_id)
        if floor is None:
            return False
        if cursor <= floor:
            return True
        del self.floors[session_id]
        return False
