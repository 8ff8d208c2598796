"""Looking back at runs: which there were, how one went, and everything it told."""

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


@method("runs.get", scope=Scope.READ)
async def get(call: Call, params: ByRun) -> GetAnswer:
    """How a run went: status, model, usage, cost, timings, attempts, and its tool calls with what the policy said about each."""
    return cast("GetAnswer", await db.read(lambda: run_reports.summarize_run(_find_run(call, params))))


class EventsParams(ByRun):
    after_seq: Cursor = 0
    limit: int = Field(500, ge=1, le=1000)


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
