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
    """`id` is unique and names the page of the run, /runs/<id>/; `runId` is the key its owner chose.

    Where `words` is false, the caller may see that the run was there, but not what was said: `prompt`, `title`, `error` and
    arguments are empty.
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
    traceparent: str | None  # the span that started it, by W3C's trace context


class Timings(TypedDict):
    """Milliseconds. `modelMs` is what is left of the time since the start without waiting and tools."""

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
    """`trace` is what every layer of the policy that had an opinion said: layer, effect and rule."""

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
    """`attempts` counts the first try, retries of the model and rescues from workers that died."""

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
    operation: NotRequired[Literal["compact"]]  # no message waits, but a summary


class ActiveRun(TypedDict):
    """The run that has the session's turn, and the answer it is writing: `text` holds everything up to `seq`."""

    runId: str
    status: Literal["running", "waiting"]
    waitingFor: str | None
    seq: int
    cursor: int
    messageId: str | None
    text: str
    thinking: str
    startedAt: int | None
    operation: NotRequired[Literal["compact"]]  # it is summarising the conversation just now
