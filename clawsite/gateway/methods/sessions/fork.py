"""Going on from a point of a conversation in a session of its own."""

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
    """`sessionKey` is another name of `key`."""

    refused: ClassVar[Mapping[str, str]] = {"entryId": "name the last message to keep with messageId"}

    key: Key | None = Field(None, validation_alias=AliasChoices("key", "sessionKey"))
    message_id: Id | None = None


class ForkAnswer(SessionAnswer):
    sessionKey: str


@method("sessions.fork", scope=Scope.WRITE, limited=LimitedTokenRule.HARMLESS)
async def fork(call: Call, params: ForkParams) -> ForkAnswer:
    """A new session of one's own with what is visible of this one, through a message or all of it.

    `entry.forkedFrom` is the id of the first one. Calling it again makes another one.
    """
    session = await find_session(call, params.address)
    made = await db.write(fork_session, call.user, session, params.message_id, key=str(session.id))
    answer = await to_answer(call, made)
    return ForkAnswer(**answer, sessionKey=answer["key"])
