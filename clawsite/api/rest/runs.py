"""Runs over REST: which there were, how one went, what it told, and stopping it."""

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

MAX_ID = 2**63 - 1  # that a database knows

RunName = Annotated[
    str,
    Path(
        max_length=MAX_RUN_ID_LENGTH,
        description="The run's `id`, or its `runId`: the Idempotency-Key it was started with. Digits alone are always an `id`",
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
    """Runs, newest first, with the beginning of what was asked. Without a session: those that the caller started."""
    user = request.auth.user
    of_session = await find_visible_session(user, session) if session else None
    place = decode_cursor(cursor, parse_number)
    return await db.read(_page, user, of_session, status, limit, place[0] if place else None)


def _page(user: User, session: Session | None, status: str, limit: int, before: int | None) -> Page[RunRow]:
    page = run_reports.list_runs(user, session=session, status=status, limit=limit, before=before)
    return {"items": cast("list[RunRow]", page.runs), "next": encode_cursor(page.cursor) if page.cursor else None}


@router.get("/runs/{run}", response=GetAnswer, auth=RequireScope(Scope.READ, Scope.ADMIN))
async def get_run(request: ApiRequest, run: RunName) -> Any:
    """How a run went: status, model, usage, cost, timings, attempts, and its tool calls with what the policy said about each.

    Who may see the runs of the installation, but not its conversations, gets it without the words of people.
    """
    return await db.read(lambda: run_reports.summarize_run(_find_run(request.auth, run)))


class RunEventPage(TypedDict):
    """Ask again with `next`: at once while `more` is true; until `ended`, later for news.

    `resync_required` means that events after the place are no longer stored: read the run, or the messages of its session.
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
    """What a run told after a place: each event once, in order. At most 768 KiB."""
    place = decode_cursor(cursor, parse_number)
    return await db.read(_list_events, request.auth, run, place[0] if place else 0, limit)


def _list_events(caller: Caller, run: str, after: int, limit: int) -> RunEventPage:
    look = _find_run(caller, run)
    # The state was read before the events: what it says has ended has told everything.
    page, more = run_reports.list_events(look, after=after, limit=limit)
    status, ended = cast("Status", look.run.status), look.run.status in Run.ENDED
    if after < look.run.seq and (not page or page[0]["seq"] > after + 1):
        reason = f"events after {after} are no longer stored"
        return RunEventPage(items=[], next=None, status=status, ended=ended, more=False, resync_required=True, reason=reason)
    reached = page[-1]["seq"] if page else after
    items = cast("list[RunEvent]", page)
    return RunEventPage(items=items, next=encode_cursor(reached), status=status, ended=ended, more=more)


class Aborted(TypedDict):
    """`aborted` is false for a run that had ended before. One that a worker is busy with ends when the worker has let go."""

    id: int
    runId: str
    aborted: bool


@router.post("/runs/{run}/abort", response=Aborted, auth=RequireScope(Scope.WRITE, limited=LimitedTokenRule.HARMLESS))
async def abort_run(request: ApiRequest, run: RunName) -> Any:
    """Stop a run in a session one may write in."""
    user = request.auth.user
    found = (await db.read(lambda: run_reports.find_viewable_run(user, **_parse_run_name(run), operating=False))).run
    session = found.session
    asked = await db.write(request_abort, user=user, session=session, run_id=found.run_id, reason="rpc", key=str(session.pk))
    return Aborted(id=found.pk, runId=found.run_id, aborted=any(each.pk == found.pk for each in asked))


def _find_run(caller: Caller, run: str) -> RunAccess:
    return run_reports.find_viewable_run(caller.user, **_parse_run_name(run), operating=caller.may(Scope.ADMIN))


def _parse_run_name(run: str) -> dict[str, Any]:
    """By the look of the name alone, so that it means the same whatever other runs are called."""
    return {"pk": min(int(run), MAX_ID)} if run.isascii() and run.isdecimal() else {"run_id": make_storable(run)}
