"""Fork a session: continue from one of its messages in a new session."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import AliasChoices, Field

from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.methods.sessions.lifecycle import SessionAnswer, to_answer
from clawsite.gateway.protocol.params import Id, Key
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, method
from clawsite.gateway.server.session_address import ByKey, find_session
from clawsite.infra import db
from sessions_app.sessions.forks import fork_session


class ForkParams(ByKey):
    """`sessionKey` is an alias of `key`."""

    refused: ClassVar[Mapping[str, str]] = {"entryId": "use messageId for the last message to keep"}

    key: Key | None = Field(None, validation_alias=AliasChoices("key", "sessionKey"))
    message_id: Id | None = None


class ForkAnswer(SessionAnswer):
    sessionKey: str


@method("sessions.fork", scope=Scope.WRITE, limited=LimitedTokenRule.HARMLESS)
async def fork(call: Call, params: ForkParams) -> ForkAnswer:
    """Create your own session with the visible messages of this one, up to a message or all of them.

    `entry.forkedFrom` is the ID of the original. Each call creates another session.
    """
    session = await find_session(call, params.address)
    forked = await db.write(fork_session, call.user, session, params.message_id, key=str(session.id))
    answer = await to_answer(call, forked)
    return ForkAnswer(**answer, sessionKey=answer["key"])
