"""Read runs: list them, summarize one, and read its events."""

from functools import partial
from typing import Annotated, Literal, cast

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.protocol.params import Cursor, IdempotencyKey, Params
from clawsite.gateway.protocol.runs import GetAnswer, RunEvent, RunRow, Status
from clawsite.gateway.protocol.scopes import Scope, has_scope
from clawsite.gateway.server.registry import Call, method
from clawsite.gateway.server.session_address import ToSession, find_session
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from sessions_app.models import Run
from sessions_app.reports import runs as run_reports
from sessions_app.reports.runs import RunAccess

RunNumber = Annotated[int, Field(ge=1, le=2**53)]


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


@method("runs.get", scope=Scope.READ)
async def get(call: Call, params: ByRun) -> GetAnswer:
    """Return a run's status, model, usage, cost, timings and attempts, and its tool calls with their policy results."""
    return cast("GetAnswer", await db.read(lambda: run_reports.summarize_run(_find_run(call, params))))


class EventsParams(ByRun):
    after_seq: Cursor = 0
    limit: int = Field(500, ge=1, le=1000)


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
