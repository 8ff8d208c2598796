"""Parameters that identify a session, shared by the methods that take one."""

from typing import Any

from django.utils.translation import gettext as _

from clawsite.gateway.protocol.params import Id, Key, Params
from clawsite.gateway.server.registry import Call
from clawsite.infra import db
from clawsite.infra.errors import Conflict, InvalidRequest, NotFound
from clawsite.routing.inbound import SessionAddress, find_session_or_none
from sessions_app.keys import DEFAULT_AGENT, parse_key, parse_shared_key
from sessions_app.models import Session


def to_address(key: str | None, session_id: str | None, agent_id: str | None) -> SessionAddress:
    """Build an address. A key takes precedence over an ID; `session:<id>` is the key of another user's session."""
    shared = parse_shared_key(key or "")
    if shared is not None or not key:
        return SessionAddress(session_id=shared or session_id or "", agent=agent_id or "")
    return SessionAddress(key, agent=agent_id or "")


class ToSession(Params):
    """`sessionKey` is your own key or `session:<id>`; `sessionId` works for any session you can see. Default: the main session."""

    session_key: Key | None = None
    session_id: Id | None = None
    agent_id: Id | None = None

    @property
    def address(self) -> SessionAddress:
        return to_address(self.session_key, self.session_id, self.agent_id)


class ByKey(Params):
    """`key` is your own key or `session:<id>`; `sessionId` works for any session you can see. One of them is required."""

    key: Key | None = None
    session_id: Id | None = None
    agent_id: Id | None = None

    @property
    def address(self) -> SessionAddress:
        if not self.key and not self.session_id:
            raise InvalidRequest("key is missing: identify the session, for example agent:main:main")
        return to_address(self.key, self.session_id, self.agent_id)


async def find_session(call: Call, address: SessionAddress) -> Session:
    session = await db.read(find_session_or_none, call.user, address)
    if session is None:
        raise NotFound(_("Session not found: %(session)s") % {"session": address.own_key()})
    return session


def check_session_unchanged(session: Session | None, session_id: str | None) -> None:
    """Raise Conflict if the session is no longer the one that the caller has seen."""
    if session_id and (session is None or str(session.generation_id) != session_id):
        raise Conflict(_("The session is no longer %(session)s: it was reset or deleted.") % {"session": session_id})


def session_order_key(params: dict[str, Any]) -> str:
    """Return the order key: requests that identify the same session the same way start in order of arrival."""
    if isinstance(session_id := params.get("sessionId"), str) and not params.get("sessionKey"):
        return session_id
    key, agent = params.get("sessionKey"), params.get("agentId")
    if isinstance(key, str) and (shared := parse_shared_key(key)) is not None:
        return shared
    try:
        default = agent if isinstance(agent, str) and agent else DEFAULT_AGENT
        return str(parse_key(key if isinstance(key, str) else "main", default_agent=default))
    except InvalidRequest:
        return ""
