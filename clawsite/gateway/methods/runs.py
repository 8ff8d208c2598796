"""Looking back at runs: which there were, how one went, and everything it told."""

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


class ListParams(ToSession):
    """With a session: all its runs. Without: those that the caller started. `cursor` is the `nextCursor` of the page before."""

    status: Status | Literal["unfinished"] | None = None
    limit: int = Field(50, ge=1, le=200)
    cursor: RunNumber | None = None


class ListAnswer(TypedDict):
    runs: list[RunRow]
    nextCursor: int | None


@method("runs.list", scope=Scope.READ)
async def list_(call: Call, params: ListParams) -> ListAnswer:
    """Runs, newest first, with the beginning of what was asked."""
    named = params.session_key or params.session_id
    session = await find_session(call, params.address) if named else None
    wanted = partial(run_reports.list_runs, session=session, status=params.status or "", limit=params.limit, before=params.cursor)
    page = await db.read(wanted, call.user)
    return ListAnswer(runs=cast("list[RunRow]", page.runs), nextCursor=page.cursor)


class ByRun(Params):
    """Exactly one of `id` and `runId`. Keys are unique among one's own runs only, and those come first."""

    id: RunNumber | None = None
    run_id: IdempotencyKey | None = None


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


@method("runs.get", scope=Scope.READ)
async def get(call: Call, params: ByRun) -> GetAnswer:
    """How a run went: status, model, usage, cost, timings, attempts, and its tool calls with what the policy said about each."""
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
    """`more`: ask again after the last `seq`. `ended`: nothing will come after these, unless there are more."""

    id: int
    runId: str
    status: Status
    ended: bool
    events: list[RunEvent]
    more: bool


@method("runs.events", scope=Scope.READ)
async def events(call: Call, params: EventsParams) -> EventsAnswer:
    """What a run told, in order, from a place on, at most 768 KiB at once. Events are kept for 30 days, unless set otherwise."""
    return await db.read(_read_events, call, params)


def _read_events(call: Call, params: EventsParams) -> EventsAnswer:
    look = _find_run(call, params)
    # The state was read before the events: what it says has ended has told everything.
    page, more = run_reports.list_events(look, after=params.after_seq, limit=params.limit)
    run = look.run
    status = cast("Status", run.status)
    ended = run.status in Run.ENDED
    return EventsAnswer(id=run.pk, runId=run.run_id, status=status, ended=ended, events=cast("list[RunEvent]", page), more=more)


def _find_run(call: Call, params: ByRun) -> RunAccess:
    if (params.id is None) == (params.run_id is None):
        raise InvalidRequest("give exactly one of id and runId")
    operating = has_scope(call.authority.scopes, Scope.ADMIN)
    return run_reports.find_viewable_run(call.user, pk=params.id, run_id=params.run_id or "", operating=operating)
