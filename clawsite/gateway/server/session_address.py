"""How parameters name a session, common to the methods that take one."""

from typing import Annotated, Any

from pydantic import Field

from clawsite.gateway.server.registry import Call, Params
from clawsite.infra import db
from clawsite.infra.errors import Conflict, InvalidRequest, NotFound
from clawsite.routing.inbound import Address, find_or_none
from sessions_app.keys import DEFAULT_AGENT, parse_key, shared_id
from sessions_app.models import Session

Key = Annotated[str, Field(min_length=1, max_length=512)]
Id = Annotated[str, Field(min_length=1, max_length=64)]
IdempotencyKey = Annotated[str, Field(min_length=1, max_length=200)]
Cursor = Annotated[int, Field(ge=0, le=2**53)]  # the largest whole number that every client can write
IsoTime = Annotated[str, Field(min_length=1, max_length=64)]


def address_of(key: str | None, session_id: str | None, agent_id: str | None) -> Address:
    """A key counts for more than an id; the key of somebody else's session is its id."""
    shared = shared_id(key or "")
    if shared is not None or not key:
        return Address(session_id=shared or session_id or "", agent=agent_id or "")
    return Address(key, agent=agent_id or "")


class ToSession(Params):
    """`sessionKey` is one of your own or `session:<id>`; `sessionId` reaches any you may see. Neither: the agent's main session."""

    session_key: Key | None = None
    session_id: Id | None = None
    agent_id: Id | None = None

    @property
    def address(self) -> Address:
        return address_of(self.session_key, self.session_id, self.agent_id)


class ByKey(Params):
    """The same for methods that call it `key`; here one of the two is needed."""

    key: Key | None = None
    session_id: Id | None = None
    agent_id: Id | None = None

    @property
    def address(self) -> Address:
        if not self.key and not self.session_id:
            raise InvalidRequest("key is missing: name the session, for example agent:main:main")
        return address_of(self.key, self.session_id, self.agent_id)


async def found(call: Call, address: Address) -> Session:
    session = await db.read(find_or_none, call.user, address)
    if session is None:
        raise NotFound(f"there is no session {address.own_key()!r}")
    return session


def is_still(session: Session | None, session_id: str | None) -> None:
    """CONFLICT when the session is not, or no longer, the one its caller has seen."""
    if session_id and (session is None or str(session.generation_id) != session_id):
        raise Conflict(f"the session is no longer {session_id}: it has begun anew, or was deleted")


def order_of_session(params: dict[str, Any]) -> str:
    """Requests that name the same session in the same words are begun in their order of arrival."""
    if isinstance(session_id := params.get("sessionId"), str) and not params.get("sessionKey"):
        return session_id
    key, agent = params.get("sessionKey"), params.get("agentId")
    if isinstance(key, str) and (shared := shared_id(key)) is not None:
        return shared
    try:
        default = agent if isinstance(agent, str) and agent else DEFAULT_AGENT
        return str(parse_key(key if isinstance(key, str) else "main", default_agent=default))
    except InvalidRequest:
        return ""
