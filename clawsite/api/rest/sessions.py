"""Sessions over REST: list, create, get, change, delete, and their tools. Messages: `clawsite.api.rest.messages`."""

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
    """`id` never changes; `sessionId` changes with every reset. `pinned`, `archived` and `unread` are per user."""


@router.get("/sessions", response=Page[SessionOut], auth=RequireScope(Scope.READ))
async def list_sessions(
    request: ApiRequest,
    limit: Limit = 50,
    cursor: CursorText = "",
    agent: Annotated[str, Query(alias="agentId", max_length=64)] = "",
    label: Annotated[str, Query(max_length=512)] = "",
) -> Any:
    """List the sessions you can see, most recently used first. A session that is used while you page moves to the front."""
    before = decode_cursor(cursor, parse_time, UUID)
    return await db.read(_page, request.auth.user, before, limit, agent, label)


def _page(user: User, before: list[Any] | None, limit: int, agent: str, label: str) -> Page[dict[str, Any]]:
    rows = selectors.list_sessions_before(user, tuple(before) if before else None, limit=limit + 1, agent=agent, label=label)
    page = rows[:limit]
    next_cursor = encode_cursor(page[-1].updated_at.isoformat(), str(page[-1].pk)) if len(rows) > limit else None
    return {"items": selectors.build_session_rows(user, page), "next": next_cursor}


@router.post(
    "/sessions", response={201: SessionOut, 200: SessionOut}, auth=RequireScope(Scope.WRITE, limited=LimitedTokenRule.CARRIED)
)
async def create_session(request: ApiRequest, body: NewSession) -> Any:
    """Create a session. The key is optional. If a session with this key exists, return it with status 200.

    Without a key, repeating the same `idempotencyKey` returns the same session; with another body it is a conflict.
    """
    user, new_id = request.auth.user, uuid4()
    create, lock_key = prepare_create(user, body, id=new_id)
    session = await db.write(create, key=lock_key)
    return Status(201 if session.pk == new_id else 200, await db.read(to_row, user, session))


@router.get("/sessions/{session_id}", response=SessionOut, auth=RequireScope(Scope.READ))
async def get_session(request: ApiRequest, session_id: str) -> Any:
    """Get a session by either of its IDs."""
    user = request.auth.user
    return await db.read(lambda: to_row(user, find_session(user, session_id=session_id)))


@router.patch("/sessions/{session_id}", response=SessionOut, auth=RequireScope(Scope.WRITE, limited=LimitedTokenRule.REFUSED))
async def change_session(request: ApiRequest, session_id: str, body: Changes) -> Any:
    """Change a session that you own. Omitted fields are unchanged; null clears a field.

    Anyone who can see a session can pin and archive it.
    """
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
    """List the tools that your messages in this session can use now, and why others are unavailable."""
    user = request.auth.user
    return await db.read(lambda: build_effective_answer(find_effective_tools(user, find_session(user, session_id=session_id))))


async def find_visible_session(user: User, session_id: str) -> Session:
    return await db.read(partial(find_session, user, session_id=session_id))
