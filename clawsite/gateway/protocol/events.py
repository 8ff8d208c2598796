"""The events clients are sent, all of them: names and shapes, for the published schema and docs/protocol.md. Nothing is sent here.

Those about sessions and devices are described in files of their own; the rest is here.
"""

from dataclasses import dataclass
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from clawsite.gateway.protocol.approval_snapshots import ApprovalSnapshot
from clawsite.gateway.protocol.device_events import (
    InvokeRequest,
    NodeBroadcast,
    NodeEvent,
    NodePairRequested,
    NodePairResolved,
    PairRequested,
    PairResolved,
)
from clawsite.gateway.protocol.session_events import (
    AgentEvent,
    ChatEvent,
    SessionEvent,
    SessionMessage,
    SessionOperation,
    SessionsChanged,
    ToolEvent,
)


class Challenge(TypedDict):
    """Sent at once when the socket opens, without a seq."""

    nonce: str
    ts: int


class ApprovalRequested(TypedDict):
    """People are asked about a command. Sent to those who may approve; exec.approval.get has all there is to see."""

    id: str
    request: dict[str, Any]
    createdAtMs: int
    expiresAtMs: int


class ApprovalChanged(ApprovalRequested):
    """An open question changed: one of two people agreed, it was left open for longer, or it is about to expire."""

    change: Literal["voted", "extended", "expiring"]


class ApprovalResolved(TypedDict):
    """A question is closed. `decision` is null where nobody gave one: it expired, or became void."""

    id: str
    decision: str | None
    resolvedBy: str | None
    ts: int
    status: str
    reason: str
    request: dict[str, Any]


class SessionApproval(TypedDict):
    """A question of a session that is followed with `includeApprovals`, as it is now: asked, left open for longer, or closed."""

    sessionKey: str
    updatedAtMs: int
    phase: Literal["pending", "terminal"]
    approval: ApprovalSnapshot


class PresenceEvent(TypedDict):
    """Who is online. Protocol 1 also gets `id`, `status` and `capabilities` of the client that came or went last."""

    presence: list[dict[str, Any]]
    id: NotRequired[str]
    status: NotRequired[Literal["online", "offline"]]
    capabilities: NotRequired[list[str]]
    changes: NotRequired[list[dict[str, Any]]]


class Tick(TypedDict):
    """Every 15 s. A client that hears nothing for two ticks should connect anew. Protocol 1 also gets `activeSessions`."""

    ts: int
    activeSessions: NotRequired[int]


class Shutdown(TypedDict):
    """The process ends; the socket is closed with 1012 after it."""

    reason: str
    restartExpectedMs: NotRequired[int | None]


class Stop(TypedDict):
    """Somebody stopped everything, the agent or the run `subject`, and nothing of it goes on until it is resumed."""

    id: int
    scope: Literal["all", "agent", "run"]
    subject: str
    reason: str
    by: str
    at: int


class FreezeEvent(TypedDict):
    """Something was stopped or resumed. Single runs are left out: `panic.status` names those that the caller may see."""

    ts: int
    stopped: list[Stop]


class Health(TypedDict, total=False):
    """The state of the installation, in numbers; also sent as an event every minute. `ok` is false while the database is away."""

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
    lanes: list[dict[str, Any]]
    workers: int
    stopped: list[Stop]


@dataclass(frozen=True, slots=True)
class EventType:
    payload: Any
    droppable: bool = False  # a slow client loses these before it loses its connection
    roles: tuple[str, ...] = ("operator",)  # whom it is sent to


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
