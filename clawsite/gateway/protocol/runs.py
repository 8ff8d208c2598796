"""Runs on the wire. sessions_app.reports.runs reads them."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from clawsite.gateway.protocol.events.sessions import Verdict

Status = Literal["accepted", "running", "waiting", "completed", "error", "aborted"]


class RunUsage(TypedDict):
    input: int
    output: int
    costUsd: float


class RunRow(TypedDict):
    """A run. `id` is unique and part of the URL of its page, /runs/<id>/; `runId` is the key its owner chose.

    If `words` is false, the caller can see that the run exists, but not its text: `prompt`, `title`, `error` and arguments are
    empty.
    """

    id: int
    runId: str
    sessionKey: str
    sessionId: str
    agentId: str
    title: str | None
    owner: str
    lane: str
    status: Status
    reason: str | None
    error: str | None
    prompt: str
    words: bool
    model: str | None
    usage: RunUsage
    acceptedAt: int
    startedAt: int | None
    endedAt: int | None
    durationMs: int | None
    rescues: int
    seq: int
    traceparent: str | None  # the span that started it, in W3C trace context format


class Timings(TypedDict):
    """Times in milliseconds. `modelMs` is the time since the start, minus waiting and tools."""

    queuedMs: int
    waitingMs: int
    toolsMs: int
    modelMs: int
    firstWordMs: int | None
    totalMs: int


class Retry(TypedDict):
    at: int
    kind: str
    attempt: int | None
    delayMs: int | None


class RunCall(TypedDict):
    """A tool call. `trace` lists layer, effect, rule, code and params of every policy layer."""

    callId: str
    name: str
    status: Literal["allowed", "refused", "waiting", "started", "finished", "failed", "interrupted"]
    isError: bool
    arguments: Any
    verdict: Verdict
    trace: list[dict[str, Any]]
    policyVersion: int
    startedAt: int | None
    endedAt: int | None
    durationMs: int | None


class GetAnswer(TypedDict):
    """`attempts` counts the first attempt, retried model requests and recoveries from lost workers."""

    run: RunRow
    timings: Timings
    attempts: int
    retries: list[Retry]
    toolCalls: list[RunCall]


class RunEvent(TypedDict):
    seq: int
    cursor: int
    stream: str
    ts: int
    data: dict[str, Any]


class Queued(TypedDict):
    runId: str
    text: str
    truncated: NotRequired[bool]
    acceptedAt: int
    sender: str
    attachments: NotRequired[list[dict[str, Any]]]
    operation: NotRequired[Literal["compact"]]  # a queued compaction instead of a message


class ActiveRun(TypedDict):
    """The session's current run and its answer so far: `text` includes everything up to `seq`."""

    runId: str
    status: Literal["running", "waiting"]
    waitingFor: str | None
    seq: int
    cursor: int
    messageId: str | None
    text: str
    thinking: str
    startedAt: int | None
    operation: NotRequired[Literal["compact"]]  # the run is compacting the session
