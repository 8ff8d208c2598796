"""Looking at several sessions at once: the list, and the last words of some."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar, cast

import orjson
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.methods.defaults import get_session_default_model
from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.params import Cursor, Id, Key, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.protocol.sessions import SessionRow
from clawsite.gateway.server.registry import Call, method
from clawsite.gateway.server.session_address import to_address
from clawsite.infra import clock, db
from clawsite.infra.errors import ClawError, NotFound
from clawsite.routing.inbound import find_session_or_none
from sessions_app.sessions import selectors

T = TypeVar("T")
NO_PEOPLE_FILTERS = "the list is the caller's; own leaves out what nobody shares with them"
MAX_ROWS = 1000  # rows of a reply; who asks for more gets the first, and the place to go on
MAX_OWNED_FIRST = 60


class ListParams(Params):
    """A reply has at most 1,000 rows, also if `limit` is higher. `ownerFirst` puts up to 60 of one's own before the first page."""

    refused: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("creatorId", "ownerId", "involvingMe", "involvingProfileId", "includePeople"), NO_PEOPLE_FILTERS),
        "boardFace": "sessions have no boards",
        "requireLastInteraction": "use activeMinutes",
    }

    limit: int = Field(100, ge=1)
    offset: Cursor = 0
    owner_first: bool = False
    search: str = Field("", max_length=200)
    agent_id: Id | None = None
    label: str = Field("", max_length=512)
    active_minutes: int | None = Field(None, ge=1, le=5_256_000)
    spawned_by: Key | None = None
    archived: bool = False  # true: only those that the caller has archived
    own: bool = False  # true: without those that nobody shares with the caller, who may see them by office
    include_last_message: bool = False
    include_derived_titles: bool = True  # they always are
    include_global: bool = True  # there are none, here and below
    include_unknown: bool = True
    configured_agents_only: bool | None = None  # there are no others: who switches an agent off keeps its sessions
    sort_by: Literal["updatedAt", "lastInteractionAt"] = "updatedAt"  # which is the same


class ListAnswer(TypedDict):
    """`count` rows of `totalCount`; `nextOffset` continues, and is null at the end. `ownerFirst` does not move it."""

    ts: int
    path: str
    count: int
    totalCount: int
    nextOffset: int | None
    defaults: dict[str, Any]
    sessions: list[SessionRow]


@method("sessions.list", scope=Scope.READ)
async def list_(call: Call, params: ListParams) -> ListAnswer:
    """The sessions one may see: those one has pinned, the last pinned first, then the last used first."""
    return await db.read(_list_sessions, call, params)


def _list_sessions(call: Call, params: ListParams) -> ListAnswer:
    parent = find_session_or_none(call.user, to_address(params.spawned_by, None, None)) if params.spawned_by else None
    if params.spawned_by and parent is None:
        raise NotFound(f"there is no session {params.spawned_by!r}")
    limit = min(params.limit, MAX_ROWS)
    wanted = partial(
        selectors.list_sessions,
        call.user,
        search=params.search,
        agent=params.agent_id or "",
        label=params.label,
        active_minutes=params.active_minutes,
        parent=parent,
        include_last=params.include_last_message,
        archived=params.archived,
        own=params.own,
    )
    page = wanted(limit=limit, offset=params.offset)
    rows = limit_to_reply(cast("list[SessionRow]", page.rows))
    reached = params.offset + len(rows)
    if params.owner_first and not params.offset:
        owned = wanted(limit=min(limit, MAX_OWNED_FIRST), owned=True).rows
        rows = _put_owned_first(cast("list[SessionRow]", owned), rows)
    model = get_session_default_model()
    return ListAnswer(
        ts=clock.now_ms(),
        path="",
        count=len(rows),
        totalCount=page.total,
        nextOffset=reached if reached < page.total else None,
        defaults={"modelProvider": model.partition("/")[0], "model": model.partition("/")[2], "contextTokens": None},
        sessions=rows,
    )


def _put_owned_first(owned: list[SessionRow], page: list[SessionRow]) -> list[SessionRow]:
    """These before the page, each once; where a reply has no room for both, the page alone."""
    listed = {row["id"] for row in owned}
    both = [*owned, *(row for row in page if row["id"] not in listed)]
    return both if len(limit_to_reply(both)) == len(both) else page


def limit_to_reply(rows: list[T]) -> list[T]:
    """As many rows as one reply holds."""
    size = 0
    for position, row in enumerate(rows):
        size += len(orjson.dumps(row)) + 1
        if size > limits.MAX_REPLY_BYTES and position:
            return rows[:position]
    return rows


class PreviewParams(Params):
    keys: list[Key]
    limit: int = Field(12, ge=1, le=50)
    max_chars: int = Field(240, ge=20, le=2000)


class Preview(TypedDict):
    key: str
    status: Literal["ok", "empty", "missing", "error"]
    items: list[dict[str, str]]


class PreviewAnswer(TypedDict):
    ts: int
    previews: list[Preview]


@method("sessions.preview", scope=Scope.READ)
async def preview(call: Call, params: PreviewParams) -> PreviewAnswer:
    """The last messages of several of one's own sessions, shortened. The first 64 keys are looked at."""
    return PreviewAnswer(ts=clock.now_ms(), previews=await db.read(_previews, call, params))


def _previews(call: Call, params: PreviewParams) -> list[Preview]:
    previews = []
    for key in params.keys[:64]:
        try:
            session = find_session_or_none(call.user, to_address(key, None, None))
        except ClawError:
            previews.append(Preview(key=key, status="error", items=[]))
            continue
        items = selectors.read_preview(session, limit=params.limit, max_chars=params.max_chars) if session else []
        previews.append(Preview(key=key, status="missing" if session is None else "ok" if items else "empty", items=items))
    return previews
