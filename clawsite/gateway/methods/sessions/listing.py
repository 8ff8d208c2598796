"""List sessions, and preview the last messages of some."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar, cast

import orjson
from django.utils.translation import gettext as _
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
NO_PEOPLE_FILTERS = "the list is the caller's; own omits sessions that are not shared with them"
MAX_ROWS = 1000  # rows per response; if `limit` is higher, only the first ones and nextOffset are returned
MAX_OWNED_FIRST = 60


class ListParams(Params):
    """A response has at most 1,000 rows, even if `limit` is higher. `ownerFirst` puts up to 60 of yours before the first page."""

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
    archived: bool = False  # true: only those the caller has archived
    own: bool = False  # true: omit those that the caller can see only because of a permission
    include_last_message: bool = False
    include_derived_titles: bool = True  # ignored: always included
    include_global: bool = True  # this and the next are ignored: there are no such sessions
    include_unknown: bool = True
    configured_agents_only: bool | None = None  # ignored: sessions of disabled agents are always included
    sort_by: Literal["updatedAt", "lastInteractionAt"] = "updatedAt"  # both values have the same effect


class ListAnswer(TypedDict):
    """`count` rows of `totalCount`; `nextOffset` is null at the end and is not affected by `ownerFirst`."""

    ts: int
    path: str
    count: int
    totalCount: int
    nextOffset: int | None
    defaults: dict[str, Any]
    sessions: list[SessionRow]


@method("sessions.list", scope=Scope.READ)
async def list_(call: Call, params: ListParams) -> ListAnswer:
    """List the sessions you can see: pinned ones first (most recently pinned first), then the others (most recently used first)."""
    return await db.read(_list_sessions, call, params)


def _list_sessions(call: Call, params: ListParams) -> ListAnswer:
    parent = find_session_or_none(call.user, to_address(params.spawned_by, None, None)) if params.spawned_by else None
    if params.spawned_by and parent is None:
        raise NotFound(_("Session not found: %(session)s") % {"session": params.spawned_by})
    limit = min(params.limit, MAX_ROWS)
    query = partial(
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
    page = query(limit=limit, offset=params.offset)
    rows = limit_to_reply(cast("list[SessionRow]", page.rows))
    reached = params.offset + len(rows)
    if params.owner_first and not params.offset:
        owned = query(limit=min(limit, MAX_OWNED_FIRST), owned=True).rows
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
    """Put owned rows before the page, without duplicates. If both don't fit into one response, return only the page."""
    listed = {row["id"] for row in owned}
    both = [*owned, *(row for row in page if row["id"] not in listed)]
    return both if len(limit_to_reply(both)) == len(both) else page


def limit_to_reply(rows: list[T]) -> list[T]:
    """Return as many rows as fit into one response."""
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
    """Return the last messages of several of your sessions, shortened. Only the first 64 keys are used."""
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
