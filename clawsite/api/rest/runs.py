"""Runs over REST: list, get, events, stop."""

from typing import Annotated, Any, NotRequired, cast

from ninja import Path, Query, Router
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.api.http.authentication import Caller
from clawsite.api.http.pagination import CursorText, Limit, Page, decode_cursor, encode_cursor, parse_number
from clawsite.api.http.permissions import ApiRequest, RequireScope
from clawsite.api.rest.sessions import find_visible_session
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.protocol.runs import GetAnswer, RunEvent, RunRow, Status
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra import db
from clawsite.infra.text import make_storable
from sessions_app.models import Run, Session
from sessions_app.reports import runs as run_reports
from sessions_app.reports.runs import RunAccess
from sessions_app.runs.lifecycle import MAX_RUN_ID_LENGTH, request_abort

router = Router(tags=["runs"])

MAX_ID = 2**63 - 1  # the largest integer the databases can store

RunName = Annotated[
    str,
    Path(
        max_length=MAX_RUN_ID_LENGTH,
        description="The run's `id` or `runId` (the Idempotency-Key it was started with). A number is always an `id`",
    ),
]


@router.get("/runs", response=Page[RunRow], auth=RequireScope(Scope.READ))
async def list_runs(
    request: ApiRequest,
    limit: Limit = 50,
    cursor: CursorText = "",
    session: Annotated[str, Query(alias="sessionId", max_length=64, description="All runs of this session")] = "",
    status: Annotated[str, Query(pattern="^(|unfinished|accepted|running|waiting|completed|error|aborted)$")] = "",
) -> Any:
    """List runs, newest first, with the beginning of the prompt. Without a session, list the runs that you started."""
    user = request.auth.user
    of_session = await find_visible_session(user, session) if session else None
    position = decode_cursor(cursor, parse_number)
    return await db.read(_page, user, of_session, status, limit, position[0] if position else None)


def _page(user: User, session: Session | None, status: str, limit: int, before: int | None) -> Page[RunRow]:
    page = run_reports.list_runs(user, session=session, status=status, limit=limit, before=before)
    return {"items": cast("list[RunRow]", page.runs), "next": encode_cursor(page.cursor) if page.cursor else None}


@router.get("/runs/{run}", response=GetAnswer, auth=RequireScope(Scope.READ, Scope.ADMIN))
async def get_run(request: ApiRequest, run: RunName) -> Any:
    """Get a run: status, model, usage, cost, timings, attempts, and its tool calls with the policy results.

    Operators who can't view other users' sessions get it without user content.
    """
    return await db.read(lambda: run_reports.summarize_run(_find_run(request.auth, run)))


class RunEventPage(TypedDict):
    """Pass `next` to the following request: immediately while `more` is true, then later to get new events, until `ended` is true.

    `resync_required` means that the events after the cursor are no longer stored: get the run or the messages of its session.
    """

    items: list[RunEvent]
    next: str | None
    status: Status
    ended: bool
    more: bool
    resync_required: NotRequired[bool]
    reason: NotRequired[str]


@router.get("/runs/{run}/events", response=RunEventPage, auth=RequireScope(Scope.READ, Scope.ADMIN))
async def list_run_events(
    request: ApiRequest, run: RunName, limit: Annotated[int, Query(ge=1, le=1000)] = 500, cursor: CursorText = ""
) -> Any:
    """List the events of a run after a cursor: each event once, in order. At most 768 KiB."""
    position = decode_cursor(cursor, parse_number)
    return await db.read(_list_events, request.auth, run, position[0] if position else 0, limit)


def _list_events(caller: Caller, run: str, after: int, limit: int) -> RunEventPage:
    access = _find_run(caller, run)
    # The status is read before the events, so an ended run has no later events.
    page, more = run_reports.list_events(access, after=after, limit=limit)
    status, ended = cast("Status", access.run.status), access.run.status in Run.ENDED
    if after < access.run.seq and (not page or page[0]["seq"] > after + 1):
        reason = f"events after {after} are no longer stored"
        return RunEventPage(items=[], next=None, status=status, ended=ended, more=False, resync_required=True, reason=reason)
    last_seq = page[-1]["seq"] if page else after
    items = cast("list[RunEvent]", page)
    return RunEventPage(items=items, next=encode_cursor(last_seq), status=status, ended=ended, more=more)


class Aborted(TypedDict):
    """`aborted` is false if the run had already ended. A running run ends when its worker has stopped it."""

    id: int
    runId: str
    aborted: bool


@router.post("/runs/{run}/abort", response=Aborted, auth=RequireScope(Scope.WRITE, limited=LimitedTokenRule.HARMLESS))
async def abort_run(request: ApiRequest, run: RunName) -> Any:
    """Stop a run in a session that you can write to."""
    user = request.auth.user
    target = (await db.read(lambda: run_reports.find_viewable_run(user, **_parse_run_name(run), operating=False))).run
    session = target.session
    stopped = await db.write(request_abort, user=user, session=session, run_id=target.run_id, reason="rpc", key=str(session.pk))
    return Aborted(id=target.pk, runId=target.run_id, aborted=any(each.pk == target.pk for each in stopped))


def _find_run(caller: Caller, run: str) -> RunAccess:
    return run_reports.find_viewable_run(caller.user, **_parse_run_name(run), operating=caller.may(Scope.ADMIN))


def _parse_run_name(run: str) -> dict[str, Any]:
    """Decide by the format alone, so that the meaning doesn't depend on which runs exist."""
    return {"pk": min(int(run), MAX_ID)} if run.isascii() and run.isdecimal() else {"run_id": make_storable(run)}
