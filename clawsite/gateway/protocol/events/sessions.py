"""Payload types of events about sessions and runs, and of their messages. `event_catalog` lists all events."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from clawsite.gateway.protocol.reasons import ReasonCode

StreamName = Literal["lifecycle", "assistant", "thinking", "toolcall", "tool", "compaction"]


class Granted(TypedDict):
    """The grant that a decision created: its scope, its duration in seconds, and how many more uses (null: unlimited)."""

    grant: int
    scope: Literal["session", "agent", "directory", "installation"]
    seconds: int | None
    uses: int | None


class GrantUsed(TypedDict):
    """A grant that allowed a command, with its state after that use."""

    id: int
    person: str
    scope: Literal["session", "agent", "directory", "installation"]
    expiresAt: int | None
    usesLeft: int | None


class Admission(TypedDict):
    """What allowed a command, after the policy layers: a person's decision, grants, or the exec rules."""

    by: Literal["answer", "grant", "rules"]
    approval: NotRequired[str]
    decision: NotRequired[str]
    person: NotRequired[str]
    granted: NotRequired[Granted]
    grants: NotRequired[list[GrantUsed]]


class Verdict(ReasonCode):
    """Whether a tool call was allowed, and by which policy layer and rule; neither is set if no layer limits the tool.

    For a command that started, `admission` says what allowed it. `code` and `params` are `why` for programs.
    """

    allowed: bool
    why: str
    layer: NotRequired[str]
    rule: NotRequired[str]
    admission: NotRequired[Admission]


class ApprovalFacts(TypedDict):
    """The approval request of a tool call, as shown to those who can see the session."""

    id: str
    status: Literal["pending", "approved", "denied", "expired", "void", "used"]
    expiresAt: int
    needed: int
    decision: NotRequired[str]
    by: NotRequired[str | None]
    reason: NotRequired[str]
    decidedAt: NotRequired[int]
    granted: NotRequired[Granted]


class CommandEnd(TypedDict):
    """How a background command ended."""

    name: str
    status: Literal["exited", "killed", "timed_out", "lost"]
    exitCode: int | None
    signal: str
    durationMs: int


class Identity(TypedDict):
    """A message's `messageId`, `position` and `runId`, where OpenClaw's clients expect them."""

    id: str
    seq: int
    runId: NotRequired[str]


# A class body would mangle this name.
_Marked = TypedDict("_Marked", {"__openclaw": NotRequired[Identity]})


class Message(_Marked):
    """A message of the transcript or, if requested, a notice of what happened between two messages.

    An imported message keeps additional properties from its source.
    """

    role: Literal["user", "assistant", "toolResult", "notice"]
    content: list[dict[str, Any]]
    timestamp: int
    messageId: NotRequired[str]
    runId: NotRequired[str]
    sender: NotRequired[str]  # the message's author, in a shared session
    model: NotRequired[str]
    provider: NotRequired[str]
    usage: NotRequired[dict[str, Any]]
    stopReason: NotRequired[str]
    label: NotRequired[str]  # of an injected message
    hook: NotRequired[str]  # the webhook that it is about or that sent it
    tokenPrefix: NotRequired[str]  # prefix of the limited access token that sent it
    toolCallId: NotRequired[str]
    toolName: NotRequired[str]
    isError: NotRequired[bool]
    details: NotRequired[dict[str, Any]]  # of a tool result, for programs
    imageIds: NotRequired[list[str]]  # of a tool result: the attachments in its content
    position: NotRequired[
        int
    ]  # the message's position in the transcript, for paging; this and the following are only set in history
    verdict: NotRequired[Verdict]
    approvals: NotRequired[dict[str, ApprovalFacts]]  # by ID of the tool call that needs or needed approval
    # A command was denied because no exec rule applies, and there is still none: an operator could add one.
    letAsk: NotRequired[bool]
    startedAt: NotRequired[int]  # of a tool call
    durationMs: NotRequired[int]  # of a tool call; of the whole run on its last message
    notice: NotRequired[str]  # reset, compaction, fallback, aborted, failed, command
    command: NotRequired[CommandEnd]  # of a notice that the background command of tool call `toolCallId` has ended
    text: NotRequired[str]  # of a notice
    prompt: NotRequired[str]  # of a notice about a message that was stopped before its run started
    errorKind: NotRequired[str]  # of a notice about the end of a run
    summarised: NotRequired[int]  # this and the following are for a compaction notice: number of summarized messages
    kept: NotRequired[int]  # number of messages that stay verbatim in the context
    tokensBefore: NotRequired[int]  # this and the next: estimated size of the next request, before and after
    tokensAfter: NotRequired[int]
    leftOut: NotRequired[int]  # number of messages that could not be summarized
    reason: NotRequired[str]  # why it was compacted
    summarisedThrough: NotRequired[str]  # the last summarized message
    ofOthers: NotRequired[bool]  # includes text of a webhook or of a limited token
    toolFailures: NotRequired[list[str]]
    filesRead: NotRequired[list[str]]
    filesChanged: NotRequired[list[str]]


class AgentEvent(TypedDict):
    """One event of a run. `seq` counts the run's events from 1 without gaps, `cursor` those of the session."""

    runId: str
    seq: int
    stream: StreamName
    ts: int
    sessionKey: str
    sessionId: str
    cursor: int
    data: dict[str, Any]
    delta: NotRequired[str]  # protocol 1, assistant text


class ToolEvent(TypedDict):
    """Protocol 1 only: the progress of a tool call. Protocols 3 and 4 get it as stream `tool` of `agent` with cap `tool-events`."""

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
    """A run as shown in a chat. A delta repeats the whole text so far in `message`; `replace` means it is not a continuation."""

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
    """An event of the session's log that belongs to no run: a reset, an injected message, a rewind or a notice.

    After `rewind`, messages after `keepThrough` (null: all) are no longer part of the session.
    """

    sessionKey: str
    sessionId: str
    cursor: int
    ts: int
    change: str
    message: NotRequired[Message]
    keepThrough: NotRequired[str | None]
    keepThroughPosition: NotRequired[int]
    forkedFrom: NotRequired[str]  # in the first event of a fork: the ID of the original session


class SessionOperation(TypedDict):
    """The run `operationId` is compacting a session, or has finished. If it did not compact, `reason` says why."""

    operationId: str
    operation: Literal["compact"]
    phase: Literal["start", "end"]
    sessionKey: str
    ts: int
    completed: NotRequired[bool]
    reason: NotRequired[str]


class SessionsChanged(TypedDict):
    """A session was created, changed or deleted: reload lists that show it."""

    sessionKey: str
    sessionId: str
    reason: Literal["created", "patched", "reset", "deleted", "restored", "members"]
    ts: int


class SessionMessage(TypedDict):
    """A new message in a transcript, as in `chat.history`. `messageSeq` is its position.

    Sent in protocols 3 and 4 to connections that called `sessions.subscribe`, or `sessions.messages.subscribe` for this session.
    Use the `deltaCursor` of `chat.history` to get missed messages.
    """

    sessionKey: str
    sessionId: str
    agentId: str
    updatedAt: int
    hasActiveRun: bool
    activeRunIds: list[str]
    message: Message
    messageId: str
    messageSeq: int
    runId: NotRequired[str]
