"""Share a session with other users."""

from typing import Literal

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, method
from clawsite.gateway.server.session_address import ByKey, find_session
from clawsite.infra import db
from sessions_app.sessions.members import Member, list_members, share


class MembersAnswer(TypedDict):
    ok: Literal[True]
    members: list[Member]


@method("sessions.members", scope=Scope.READ)
async def members(call: Call, params: ByKey) -> MembersAnswer:
    """List a session's owner, then the users it is shared with. Users who can see all sessions are not included."""
    session = await find_session(call, params.address)
    return MembersAnswer(ok=True, members=await db.read(list_members, session))


class ShareParams(ByKey):
    username: str = Field(min_length=1, max_length=150)
    role: Literal["viewer", "writer"] | None = Field(description="null to stop sharing")


@method("sessions.share", scope=Scope.WRITE, limited=LimitedTokenRule.REFUSED)
async def share_session(call: Call, params: ShareParams) -> MembersAnswer:
    """Share your own session with a user to read (viewer) or write (writer); null stops sharing. Members can remove themselves.

    In their list it has the key `session:<id>`, which works wherever a session key is accepted.
    """
    session = await find_session(call, params.address)
    await db.write(share, call.user, session, params.username, params.role, key=str(session.id))
    return MembersAnswer(ok=True, members=await db.read(list_members, session))
