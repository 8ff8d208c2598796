"""A client after its handshake: its identity, what it may see, its subscriptions, and its socket writer."""

from dataclasses import dataclass, field

from clawsite.gateway.auth.authority import Authority, Role
from clawsite.gateway.delivery.send_queue import SocketWriter
from clawsite.gateway.delivery.subscriptions import Subscriptions
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
    subscriptions: Subscriptions = field(default_factory=Subscriptions)

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
