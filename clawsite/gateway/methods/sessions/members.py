"""Sharing a session with other people."""

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
    """Who may see a session besides those who may see all: its owner first, then those it is shared with."""
    session = await find_session(call, params.address)
    return MembersAnswer(ok=True, members=await db.read(list_members, session))


class ShareParams(ByKey):
    username: str = Field(min_length=1, max_length=150)
    role: Literal["viewer", "writer"] | None = Field(description="null: no longer shared")


@method("sessions.share", scope=Scope.WRITE, limited=LimitedTokenRule.REFUSED)
async def share_session(call: Call, params: ShareParams) -> MembersAnswer:
    """Let somebody see a session of one's own (viewer), or also write in it (writer); null takes that back, also for oneself.

    They know it by the key `session:<id>`, which stands in their list and can be used wherever a session key is taken.
    """
    session = await find_session(call, params.address)
    await db.write(share, call.user, session, params.username, params.role, key=str(session.id))
    return MembersAnswer(ok=True, members=await db.read(list_members, session))
