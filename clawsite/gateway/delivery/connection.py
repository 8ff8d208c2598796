"""A client after its handshake: its identity, what it may see, what it follows, and its socket writer."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from clawsite.gateway.auth.authority import Authority, Role
from clawsite.gateway.delivery.send_queue import SocketWriter
from clawsite.gateway.protocol.events.frames import OutgoingEvent
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
    locale: str = ""  # as sent by the client
    device_id: str = ""  # of the device that signed, "" if none
    followed: set[str] = field(default_factory=set)  # IDs of sessions it has subscribed to
    followed_keys: set[str] = field(default_factory=set)  # the same for own sessions that may not exist yet
    # Followed keys whose sessions were promised from the first event; each value is set once the promising response was sent.
    awaited_keys: dict[str, asyncio.Event] = field(default_factory=dict)
    # Message subscriptions: all messages since a time (0 if none), by session ID after a position, by key of a future session.
    messages_since: int = 0
    message_floors: dict[str, int] = field(default_factory=dict)
    message_keys: set[str] = field(default_factory=set)
    # Sessions whose approval requests it subscribed to, by ID, or by key for own sessions that don't exist yet.
    approvals_of: set[str] = field(default_factory=set)
    catching_up: set[str] = field(
        default_factory=set
    )  # sessions whose missed events are being sent; live events are skipped and read from rows
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
        """Primary key of its device, 0 if none."""
        return self.authority.credential.device

    def wants(self, outgoing: OutgoingEvent) -> bool:
        """Whether the client has the capability. Protocol 1 clients can't declare capabilities and get every event."""
        return not outgoing.needs or self.dialect == "classic" or outgoing.needs in self.caps

    def deliver(self, outgoing: OutgoingEvent) -> None:
        if self.wants(outgoing):
            encoded = outgoing.encoded(self.dialect)
            if encoded is not None:
                self.line.deliver(encoded, droppable=outgoing.droppable)

    def wants_messages(self, session_id: str, own_key: str | None) -> bool:
        """Whether it subscribed to messages of a session that it may see."""
        return bool(self.messages_since) or session_id in self.message_floors or own_key in self.message_keys

    def is_new_message(self, session_id: str, own_key: str | None, message: dict[str, Any]) -> bool:
        """Whether a message was stored after it subscribed."""
        if session_id in self.message_floors:
            return bool(message["position"] > self.message_floors[session_id])
        return own_key in self.message_keys or 0 < self.messages_since <= message["timestamp"]

    def wants_approvals(self, session_id: str, own_key: str | None) -> bool:
        """Whether it subscribed to approval requests of a session that it may see."""
        return session_id in self.approvals_of or own_key in self.approvals_of

    def is_past(self, session_id: str, cursor: int) -> bool:
        """Whether the client already got this event while catching up from rows."""
        floor = self.floors.get(session_id)
        if floor is None:
            return False
        if cursor <= floor:
            return True
        del self.floors[session_id]
        return False
