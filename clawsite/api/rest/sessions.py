"""Sessions over REST: list, make, look at, change, delete, and the tools that one has. What is said in them: rest_messages."""

from functools import partial
from typing import Annotated, Any
from uuid import UUID, uuid4

from ninja import Query, Router
from ninja.responses import Status

from agents.prepare.effective_tools import find_effective_tools
from clawsite.accounts.models import User
from clawsite.api.http.pagination import CursorText, Limit, Page, decode_cursor, encode_cursor, parse_time
from clawsite.api.http.permissions import ApiRequest, RequireScope
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.protocol.sessions import Changes, NewSession, SessionFacts, to_row
from clawsite.gateway.protocol.tools import EffectiveAnswer, build_effective_answer
from clawsite.gateway.server.session_requests import apply_changes, prepare_create
from clawsite.infra import db
from sessions_app.models import Session
from sessions_app.sessions import selectors
from sessions_app.sessions import service as session_service
from sessions_app.sessions.service import find_session

router = Router(tags=["sessions"])


class SessionOut(SessionFacts):
    """`id` stays; `sessionId` changes with every reset. `pinned`, `archived` and `unread` are the caller's own."""


@router.get("/sessions", response=Page[SessionOut], auth=RequireScope(Scope.READ))
async def list_sessions(
    request: ApiRequest,
    limit: Limit = 50,
    cursor: CursorText = "",
    agent: Annotated[str, Query(alias="agentId", max_length=64)] = "",
    label: Annotated[str, Query(max_length=512)] = "",
) -> Any:
    """The sessions one may see, last used first. One that is used meanwhile moves to the front."""
    before = decode_cursor(cursor, parse_time, UUID)
    return await db.read(_page, request.auth.user, before, limit, agent, label)


def _page(user: User, before: list[Any] | None, limit: int, agent: str, label: str) -> Page[dict[str, Any]]:
    rows = selectors.list_sessions_before(user, tuple(before) if before else None, limit=limit + 1, agent=agent, label=label)
    page = rows[:limit]
    following = encode_cursor(page[-1].updated_at.isoformat(), str(page[-1].pk)) if len(rows) > limit else None
    return {"items": selectors.build_session_rows(user, page), "next": following}


@router.post(
    "/sessions", response={201: SessionOut, 200: SessionOut}, auth=RequireScope(Scope.WRITE, limited=LimitedTokenRule.CARRIED)
)
async def create_session(request: ApiRequest, body: NewSession) -> Any:
    """Make a session; without a key it gets one. A key that exists already returns that session, with status 200.

    Without a key the same `idempotencyKey` again returns the same session; with another body it is a conflict.
    """
    user, new = request.auth.user, uuid4()
    make, order = prepare_create(user, body, id=new)
    session = await db.write(make, key=order)
    return Status(201 if session.pk == new else 200, await db.read(to_row, user, session))


@router.get("/sessions/{session_id}", response=SessionOut, auth=RequireScope(Scope.READ))
async def get_session(request: ApiRequest, session_id: str) -> Any:
    """One session, by either of its ids."""
    user = request.auth.user
    return await db.read(lambda: to_row(user, find_session(user, session_id=session_id)))


@router.patch("/sessions/{session_id}", response=SessionOut, auth=RequireScope(Scope.WRITE, limited=LimitedTokenRule.REFUSED))
async def change_session(request: ApiRequest, session_id: str, body: Changes) -> Any:
    """Change a session of one's own. What is left out stays; null clears. Whoever may see a session may pin and archive it."""
    user = request.auth.user
    session = await apply_changes(user, await find_visible_session(user, session_id), body)
    return await db.read(to_row, user, session)


@router.delete("/sessions/{session_id}", response={204: None}, auth=RequireScope(Scope.WRITE, limited=LimitedTokenRule.HARMLESS))
async def delete_session(request: ApiRequest, session_id: str) -> Any:
    """Delete a session and stop its runs. The main session of an agent can only be reset."""
    user = request.auth.user
    session = await find_visible_session(user, session_id)
    await db.write(session_service.delete_session, user, session, key=str(session.id))
    return Status(204, None)


@router.get("/sessions/{session_id}/tools", response=EffectiveAnswer, auth=RequireScope(Scope.READ), tags=["policies"])
async def list_tools(request: ApiRequest, session_id: str) -> Any:
    """The tools that a message of yours in this session could use now, and why not the others."""
    user = request.auth.user
    return await db.read(lambda: build_effective_answer(find_effective_tools(user, find_session(user, session_id=session_id))))


async def find_visible_session(user: User, session_id: str) -> Session:
    return await db.read(partial(find_session, user, session_id=session_id))
