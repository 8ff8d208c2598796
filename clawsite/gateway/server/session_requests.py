"""Create and change sessions, for methods of the gateway and for the REST API."""

from collections.abc import Callable
from functools import partial
from typing import Any

from clawsite.accounts.models import User
from clawsite.gateway.auth import limited_tokens
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.protocol.sessions import Changes, NewSession
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from clawsite.routing.inbound import SessionAddress, open_session
from sessions_app.keys import parse_key
from sessions_app.models import Session
from sessions_app.sessions import marks
from sessions_app.sessions import service as session_service
from sessions_app.sessions.idempotency import find_or_create_session


def prepare_create(user: User, params: NewSession, **more: Any) -> tuple[Callable[[], Session], str]:
    """Return a function that finds or creates the session, and the key that orders it. `more` are fields of a new session.

    A limited token can only configure sessions without a chosen key: runs with more tools may use one with a key.
    """
    fields = {
        "label": params.label,
        "title": params.display_name,
        "model": params.model,
        "thinking_level": params.thinking_level or "",
    }
    if params.key and any(fields.values()):
        limited_tokens.check_limited_token(
            user, LimitedTokenRule.REFUSED, "model, thinkingLevel, label or displayName for a key of your own choice"
        )
    address = SessionAddress(params.key or "", agent=(params.agent_id or "").lower())
    key, agent = address.own_key(), parse_key(address.own_key()).agent
    if address.agent and address.agent != agent:
        raise InvalidRequest(f"session key {key!r} belongs to agent {agent!r}, not {address.agent!r}")
    if params.key:
        return partial(open_session, user, key=key, **fields, **more), key
    return prepare_once(user, params, agent, partial(open_session, user, agent=agent, **fields, **more))


def prepare_once(user: User, params: NewSession, agent: str, make: Callable[..., Session]) -> tuple[Callable[[], Session], str]:
    if params.idempotency_key is None:
        return make, ""
    asked = params.model_dump(exclude={"agent_id", "idempotency_key"}, exclude_defaults=True)
    return partial(find_or_create_session, user, agent, params.idempotency_key, asked, make), params.idempotency_key


async def apply_changes(user: User, session: Session | str, params: Changes) -> Session:
    """Apply changes to an existing session, or to a new one if `session` is a key."""
    given = params.model_dump(by_alias=True, include=params.model_fields_set & Changes.model_fields.keys())
    wanted = {name: bool(given.pop(name)) for name in ("pinned", "archived") if name in given}
    was_read = given.pop("unread", None) is False
    if isinstance(session, str):
        session = await db.write(_create_and_patch, user, session, given)
    elif given or not (wanted or was_read):
        session = await db.write(session_service.patch_session, user, session, given, key=str(session.id))
    if wanted:
        await db.write(partial(marks.mark_session, user, session, **wanted), key=str(session.id))
    if was_read:
        await db.write(marks.mark_read, user, session, key=str(session.id))
    return session


def _create_and_patch(user: User, new: str, given: dict[str, Any]) -> Session:
    return session_service.patch_session(user, open_session(user, key=new), given)
