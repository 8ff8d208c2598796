"""The events about sessions and their runs, and the messages in them: shapes only. The table of all events is in events.py."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

StreamName = Literal["lifecycle", "assistant", "thinking", "toolcall", "tool", "compaction"]


class Granted(TypedDict):
    """What an answer allowed from then on: where, for how many seconds, and how many times more (without: any number)."""

    grant: int
    scope: Literal["session", "agent", "directory", "installation"]
    seconds: int | None
    uses: int | None


class GrantUsed(TypedDict):
    """A grant that let a command through, as it stood after that."""

    id: int
    person: str
    scope: Literal["session", "agent", "directory", "installation"]
    expiresAt: int | None
    usesLeft: int | None


class Admission(TypedDict):
    """Who or what let a command through, behind the layers: a person's answer, grants, or the exec rules alone."""

    by: Literal["answer", "grant", "rules"]
    approval: NotRequired[str]
    decision: NotRequired[str]
    person: NotRequired[str]
    granted: NotRequired[Granted]
    grants: NotRequired[list[GrantUsed]]


class Verdict(TypedDict):
    """Whether a tool call was allowed, and which layer of the policy said so by which rule; none when no layer limits the tool.

    Of a command that started, `admission` says who let it through.
    """

    allowed: bool
    why: str
    layer: NotRequired[str]
    rule: NotRequired[str]
    admission: NotRequired[Admission]


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
    granted: NotRequired[Granted]


class CommandEnd(TypedDict):
    """How a command ended that ran in the background."""

    name: str
    status: Literal["exited", "killed", "timed_out", "lost"]
    exitCode: int | None
    signal: str
    durationMs: int


class Identity(TypedDict):
    """Of a message, where OpenClaw's clients look for it: its `messageId`, `position` and `runId`."""

    id: str
    seq: int
    runId: NotRequired[str]


# A name that no class body can have.
_Marked = TypedDict("_Marked", {"__openclaw": NotRequired[Identity]})


class Message(_Marked):
    """A message of the transcript; or, where asked for, a notice of what happened between two of them.

    One that was imported has whatever else it had where it came from.
    """

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
    label: NotRequired[str]  # of words put in from outside
    hook: NotRequired[str]  # the webhook that it is about, or that said it
    tokenPrefix: NotRequired[str]  # the limited access token behind it
    toolCallId: NotRequired[str]
    toolName: NotRequired[str]
    isError: NotRequired[bool]
    details: NotRequired[dict[str, Any]]  # of a tool's result, for programs
    imageIds: NotRequired[list[str]]  # of a tool's result: the attachments in its content
    position: NotRequired[int]  # its place in the transcript, for paging; in history only, as what follows
    verdict: NotRequired[Verdict]
    approvals: NotRequired[dict[str, ApprovalFacts]]  # by the id of the tool call that waits or waited for people
    letAsk: NotRequired[bool]  # a command was refused for want of a rule, and there is still none: the agent could be let ask
    startedAt: NotRequired[int]  # of a tool call
    durationMs: NotRequired[int]  # of a tool call; of the whole run on its last message
    notice: NotRequired[str]  # reset, compaction, fallback, aborted, failed, command
    command: NotRequired[CommandEnd]  # of a notice that the background command of the tool call `toolCallId` has ended
    text: NotRequired[str]  # of a notice
    prompt: NotRequired[str]  # of a notice about a message that was stopped before its run began
    errorKind: NotRequired[str]  # of a notice about the end of a run
    summarised: NotRequired[int]  # of a notice about a compaction, as what follows: messages that are in the summary,
    kept: NotRequired[int]  # messages that stay word for word with the model,
    tokensBefore: NotRequired[int]  # and how long the next question would have been, and is: estimates
    tokensAfter: NotRequired[int]
    leftOut: NotRequired[int]  # messages that could not be summarised
    reason: NotRequired[str]  # why it was done
    summarisedThrough: NotRequired[str]  # the last message that is in the summary
    ofOthers: NotRequired[bool]  # words of a webhook or of a limited token are in it
    toolFailures: NotRequired[list[str]]
    filesRead: NotRequired[list[str]]
    filesChanged: NotRequired[list[str]]


class AgentEvent(TypedDict):
    """One event of a run. `seq` counts the run's events from 1 without a gap, `cursor` those of the session."""

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
    """An event of the session's log that belongs to no run: a reset, words put in from outside, a step back, a notice.

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
    forkedFrom: NotRequired[str]  # of the first event of a fork: the id of the session that it was made from


class SessionOperation(TypedDict):
    """The earlier part of a session is being summarised by the run `operationId`, or was. A `reason` says why it was not."""

    operationId: str
    operation: Literal["compact"]
    phase: Literal["start", "end"]
    sessionKey: str
    ts: int
    completed: NotRequired[bool]
    reason: NotRequired[str]


class SessionsChanged(TypedDict):
    """A session was made, changed or deleted: lists that show it should be read again."""

    sessionKey: str
    sessionId: str
    reason: Literal["created", "patched", "reset", "deleted", "restored", "members"]
    ts: int


class SessionMessage(TypedDict):
    """A message that has entered a transcript, as `chat.history` shows it. `messageSeq` is its position.

    Sent by protocols 3 and 4, to connections that called `sessions.subscribe`, or `sessions.messages.subscribe` for this session.
    What was missed of them is asked for with the `deltaCursor` of `chat.history`.
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
