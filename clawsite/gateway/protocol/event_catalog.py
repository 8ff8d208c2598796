"""All events sent to clients: names and payload types, for the published schema and docs/protocol.md. Nothing is sent here.

Payloads about sessions and devices are in separate modules; the rest is here.
"""

from dataclasses import dataclass
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from clawsite.gateway.protocol.approvals.snapshots import ApprovalSnapshot
from clawsite.gateway.protocol.events.devices import (
    InvokeRequest,
    NodeBroadcast,
    NodeEvent,
    NodePairRequested,
    NodePairResolved,
    PairRequested,
    PairResolved,
)
from clawsite.gateway.protocol.events.sessions import (
    AgentEvent,
    ChatEvent,
    SessionEvent,
    SessionMessage,
    SessionOperation,
    SessionsChanged,
    ToolEvent,
)


class Challenge(TypedDict):
    """Sent immediately when the socket opens, without a seq."""

    nonce: str
    ts: int


class ApprovalRequested(TypedDict):
    """A command needs approval. Sent to those who may approve; exec.approval.get returns all details."""

    id: str
    request: dict[str, Any]
    createdAtMs: int
    expiresAtMs: int


class ApprovalChanged(ApprovalRequested):
    """A pending approval request changed: one of several approvers agreed, it was extended, or it is about to expire."""

    change: Literal["voted", "extended", "expiring"]


class ApprovalResolved(TypedDict):
    """An approval request was closed. `decision` is null if it expired or was canceled."""

    id: str
    decision: str | None
    resolvedBy: str | None
    ts: int
    status: str
    reason: str
    request: dict[str, Any]


class SessionApproval(TypedDict):
    """The state of an approval request in a session followed with `includeApprovals`: created, extended or closed."""

    sessionKey: str
    updatedAtMs: int
    phase: Literal["pending", "terminal"]
    approval: ApprovalSnapshot


class PresenceEvent(TypedDict):
    """Who is online. Protocol 1 also gets `id`, `status` and `capabilities` of the last client that connected or disconnected."""

    presence: list[dict[str, Any]]
    id: NotRequired[str]
    status: NotRequired[Literal["online", "offline"]]
    capabilities: NotRequired[list[str]]
    changes: NotRequired[list[dict[str, Any]]]


class Tick(TypedDict):
    """Sent every 15 s. A client that receives nothing for two ticks should reconnect. Protocol 1 also gets `activeSessions`."""

    ts: int
    activeSessions: NotRequired[int]


class Shutdown(TypedDict):
    """The process is stopping; the socket is then closed with 1012."""

    reason: str
    restartExpectedMs: NotRequired[int | None]


class Stop(TypedDict):
    """A freeze of everything, or of the agent or run `subject`. Work continues only after it is resumed."""

    id: int
    scope: Literal["all", "agent", "run"]
    subject: str
    reason: str
    by: str
    at: int


class FreezeEvent(TypedDict):
    """A freeze was set or resumed. Single runs are not included: `panic.status` lists those that the caller can see."""

    ts: int
    stopped: list[Stop]


class Health(TypedDict, total=False):
    """The server's state in numbers, also sent as an event every minute. `ok` is false while the database is unavailable."""

    ok: bool
    ts: int
    durationMs: int
    error: str
    channels: dict[str, Any]
    channelOrder: list[str]
    channelLabels: dict[str, str]
    heartbeatSeconds: int
    defaultAgentId: str
    agents: list[dict[str, Any]]
    sessions: dict[str, Any]
    runs: dict[str, int]
    waitingFor: dict[str, int]  # parked runs by what they wait for
    lanes: list[dict[str, Any]]
    workers: int
    stopped: list[Stop]


@dataclass(frozen=True, slots=True)
class EventType:
    payload: Any
    droppable: bool = False  # a slow client loses these first, before it is disconnected
    roles: tuple[str, ...] = ("operator",)  # which roles get it


EVENTS = {
    "connect.challenge": EventType(Challenge, roles=("operator", "node")),
    "agent": EventType(AgentEvent),
    "tool": EventType(ToolEvent),
    "chat": EventType(ChatEvent),
    "session": EventType(SessionEvent),
    "session.operation": EventType(SessionOperation),
    "session.message": EventType(SessionMessage),
    "session.approval": EventType(SessionApproval),
    "sessions.changed": EventType(SessionsChanged),
    "exec.approval.requested": EventType(ApprovalRequested),
    "exec.approval.changed": EventType(ApprovalChanged),
    "exec.approval.resolved": EventType(ApprovalResolved),
    "device.pair.requested": EventType(PairRequested),
    "device.pair.resolved": EventType(PairResolved),
    "node.pair.requested": EventType(NodePairRequested),
    "node.pair.resolved": EventType(NodePairResolved),
    "node.invoke.request": EventType(InvokeRequest, roles=("node",)),
    "node.broadcast": EventType(NodeBroadcast, roles=("node",)),
    "node.event": EventType(NodeEvent),
    "presence": EventType(PresenceEvent, droppable=True),
    "tick": EventType(Tick, droppable=True, roles=("operator", "node")),
    "health": EventType(Health, droppable=True),
    "freeze": EventType(FreezeEvent),
    "shutdown": EventType(Shutdown, roles=("operator", "node")),
}


def list_event_names(role: str) -> list[str]:
    return sorted(name for name, event in EVENTS.items() if role in event.roles)
