"""The events clients are sent: their names and shapes, for the published schema and docs/protocol.md. Nothing is sent here."""

from dataclasses import dataclass
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

Stream = Literal["lifecycle", "assistant", "thinking", "toolcall", "tool", "compaction", "error"]


class Verdict(TypedDict):
    """Whether a tool call was allowed, and which layer of the policy said so by which rule; none when no layer limits the tool."""

    allowed: bool
    why: str
    layer: NotRequired[str]
    rule: NotRequired[str]


class ApprovalFacts(TypedDict):
    """The question about one tool call, as those who follow the chat may know it."""

    id: str
    status: Literal["pending", "approved", "denied", "expired", "void", "used"]
    expiresAt: int
    needed: int
    decision: NotRequired[str]
    by: NotRequired[str | None]
    reason: NotRequired[str]
    decidedAt: NotRequired[int]


class Message(TypedDict):
    """A message of the transcript; or, where asked for, a notice of what happened between two of them."""

    role: Literal["user", "assistant", "toolResult", "notice"]
    content: list[dict[str, Any]]
    timestamp: int
    messageId: NotRequired[str]
    runId: NotRequired[str]
    sender: NotRequired[str]  # who asked, in a shared session
    model: NotRequired[str]
    provider: NotRequired[str]
    usage: NotRequired[dict[str, Any]]
    stopReason: NotRequired[str]
    toolCallId: NotRequired[str]
    toolName: NotRequired[str]
    isError: NotRequired[bool]
    position: NotRequired[int]  # its place in the transcript, for paging; in history only, as what follows
    verdict: NotRequired[Verdict]
    approvals: NotRequired[dict[str, ApprovalFacts]]  # by the id of the tool call that waits or waited for people
    startedAt: NotRequired[int]  # of a tool call
    durationMs: NotRequired[int]  # of a tool call; of the whole run on its last message
    notice: NotRequired[str]  # reset, compaction, fallback, aborted, failed
    text: NotRequired[str]  # of a notice
    prompt: NotRequired[str]  # of a notice about a message that was stopped before its run began
    errorKind: NotRequired[str]  # of a notice about the end of a run


class Challenge(TypedDict):
    """Sent at once when the socket opens, without a seq."""

    nonce: str
    ts: int


class AgentEvent(TypedDict):
    """One event of a run. `seq` counts the run's events from 1 without a gap, `cursor` those of the session."""

    runId: str
    seq: int
    stream: Stream
    ts: int
    sessionKey: str
    sessionId: str
    cursor: int
    data: dict[str, Any]
    delta: NotRequired[str]  # protocol 1, assistant text


class ToolEvent(TypedDict):
    """Protocol 1 only: what a tool does. Protocols 3 and 4 get it as stream `tool` of `agent`, with the cap `tool-events`."""

    runId: str
    sessionKey: str
    toolCallId: str
    name: str
    status: Literal["start", "update", "result", "error"]
    ts: int
    args: NotRequired[dict[str, Any]]
    partialResult: NotRequired[Any]
    result: NotRequired[Any]
    isError: NotRequired[bool]
    meta: NotRequired[dict[str, Any]]


class ChatEvent(TypedDict):
    """A run as a chat shows it. A delta repeats the whole text so far in `message`; `replace` means: not a continuation."""

    runId: str
    sessionKey: str
    sessionId: str
    seq: int
    state: Literal["delta", "final", "aborted", "error"]
    deltaText: NotRequired[str]
    replace: NotRequired[bool]
    message: NotRequired[Message]
    usage: NotRequired[dict[str, Any]]
    stopReason: NotRequired[str]
    errorMessage: NotRequired[str]
    errorKind: NotRequired[Literal["timeout", "rate_limit", "context_length", "unknown"]]
    errorDetail: NotRequired[dict[str, Any]]


class SessionEvent(TypedDict):
    """An event of the session's log that belongs to no run: a reset, words put in from outside, a step back.

    `rewind`: what comes after the message `keepThrough` (null: everything) is not part of the conversation any more.
    """

    sessionKey: str
    sessionId: str
    cursor: int
    ts: int
    change: str
    message: NotRequired[Message]
    keepThrough: NotRequired[str | None]
    keepThroughPosition: NotRequired[int]


class SessionsChanged(TypedDict):
    """A session was made, changed or deleted: lists that show it should be read again."""

    sessionKey: str
    sessionId: str
    reason: Literal["created", "patched", "reset", "deleted", "restored", "members"]
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


class PresenceEvent(TypedDict):
    """Who is online. Protocol 1 also gets `id`, `status` and `capabilities` of the client that came or went last."""

    presence: list[dict[str, Any]]
    id: NotRequired[str]
    status: NotRequired[Literal["online", "offline"]]
    capabilities: NotRequired[list[str]]
    changes: NotRequired[list[dict[str, Any]]]


class Tick(TypedDict):
    """Every 15 s. A client that hears nothing for two ticks should connect anew."""

    ts: int
    activeSessions: int


class Shutdown(TypedDict):
    """The process ends; the socket is closed with 1012 after it."""

    reason: str
    restartExpectedMs: int | None


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


EVENTS = {
    "connect.challenge": EventType(Challenge),
    "agent": EventType(AgentEvent),
    "tool": EventType(ToolEvent),
    "chat": EventType(ChatEvent),
    "session": EventType(SessionEvent),
    "sessions.changed": EventType(SessionsChanged),
    "exec.approval.requested": EventType(ApprovalRequested),
    "exec.approval.changed": EventType(ApprovalChanged),
    "exec.approval.resolved": EventType(ApprovalResolved),
    "presence": EventType(PresenceEvent, droppable=True),
    "tick": EventType(Tick, droppable=True),
    "health": EventType(Health, droppable=True),
    "freeze": EventType(FreezeEvent),
    "shutdown": EventType(Shutdown),
}
