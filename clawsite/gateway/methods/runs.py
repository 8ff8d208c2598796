"""Read runs: list them, summarize one, and read its events."""

from functools import partial
from typing import Annotated, Any, Literal, cast

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.protocol.scopes import Scope, has_scope
from clawsite.gateway.protocol.session_events import Verdict
from clawsite.gateway.server.registry import Call, Params, method
from clawsite.gateway.server.session_address import Cursor, IdempotencyKey, ToSession, find_session
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from sessions_app.models import Run
from sessions_app.reports import runs as run_reports
from sessions_app.reports.runs import RunAccess

Status = Literal["accepted", "running", "waiting", "completed", "error", "aborted"]
RunNumber = Annotated[int, Field(ge=1, le=2**53)]


class RunUsage(TypedDict):
    input: int
    output: int
    costUsd: float


class RunRow(TypedDict):
    """A run. `id` is unique and part of its page's address, /runs/<id>/; `runId` is the idempotency key that its owner chose.

    If `words` is false, the caller can see the run but not its content: `prompt`, `title`, `error` and arguments are empty.
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


class ListParams(ToSession):
    """With a session: all its runs. Without: those the caller started. `cursor` is the `nextCursor` of the previous page."""

    status: Status | Literal["unfinished"] | None = None
    limit: int = Field(50, ge=1, le=200)
    cursor: RunNumber | None = None


class ListAnswer(TypedDict):
    runs: list[RunRow]
    nextCursor: int | None


@method("runs.list", scope=Scope.READ)
async def list_(call: Call, params: ListParams) -> ListAnswer:
    """List runs, newest first, with the start of the prompt."""
    named = params.session_key or params.session_id
    session = await find_session(call, params.address) if named else None
    query = partial(run_reports.list_runs, session=session, status=params.status or "", limit=params.limit, before=params.cursor)
    page = await db.read(query, call.user)
    return ListAnswer(runs=cast("list[RunRow]", page.runs), nextCursor=page.cursor)


class ByRun(Params):
    """Exactly one of `id` and `runId`. A `runId` is only unique among one owner's runs; yours take precedence."""

    id: RunNumber | None = None
    run_id: IdempotencyKey | None = None


class Timings(TypedDict):
    """Times in milliseconds. `modelMs` is the time since the start without waiting and tools."""

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
    """A tool call. `trace` has the result of every policy layer that applied: layer, effect and rule."""

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
    """`attempts` counts the first attempt, model retries and recoveries from dead workers."""

    run: RunRow
    timings: Timings
    attempts: int
    retries: list[Retry]
    toolCalls: list[RunCall]


@method("runs.get", scope=Scope.READ)
async def get(call: Call, params: ByRun) -> GetAnswer:
    """Return a run's status, model, usage, cost, timings and attempts, and its tool calls with their policy results."""
    return cast("GetAnswer", await db.read(lambda: run_reports.summarize_run(_find_run(call, params))))


class EventsParams(ByRun):
    after_seq: Cursor = 0
    limit: int = Field(500, ge=1, le=1000)


class RunEvent(TypedDict):
    seq: int
    cursor: int
    stream: str
    ts: int
    data: dict[str, Any]


class EventsAnswer(TypedDict):
    """If `more` is true, request again after the last `seq`. If `ended` is true and `more` is not, these are the last events."""

    id: int
    runId: str
    status: Status
    ended: bool
    events: list[RunEvent]
    more: bool


@method("runs.events", scope=Scope.READ)
async def events(call: Call, params: EventsParams) -> EventsAnswer:
    """Return a run's events in order, after `afterSeq`, at most 768 KiB per request. Events are stored for 30 days by default."""
    return await db.read(_read_events, call, params)


def _read_events(call: Call, params: EventsParams) -> EventsAnswer:
    access = _find_run(call, params)
    # The state was read before the events: if it is ended, the events are complete.
    page, more = run_reports.list_events(access, after=params.after_seq, limit=params.limit)
    run = access.run
    status = cast("Status", run.status)
    ended = run.status in Run.ENDED
    return EventsAnswer(id=run.pk, runId=run.run_id, status=status, ended=ended, events=cast("list[RunEvent]", page), more=more)


def _find_run(call: Call, params: ByRun) -> RunAccess:
    if (params.id is None) == (params.run_id is None):
        raise InvalidRequest("set exactly one of id and runId")
    operating = has_scope(call.authority.scopes, Scope.ADMIN)
    return run_reports.find_viewable_run(call.user, pk=params.id, run_id=params.run_id or "", operating=operating)
