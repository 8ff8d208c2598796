"""Going on from a point of a conversation in a session of its own."""

from clawsite.gateway.addressing import ByKey, Id, found
from clawsite.gateway.methods.sessions import SessionAnswer, answer_of
from clawsite.gateway.registry import Call, method
from clawsite.gateway.scopes import Scope
from clawsite.infra import db
from sessions_app.forks import fork_session


class ForkParams(ByKey):
    message_id: Id | None = None


@method("sessions.fork", scope=Scope.WRITE)
async def fork(call: Call, params: ForkParams) -> SessionAnswer:
    """A new session of one's own with what is visible of this one, through a message or all of it.

    `entry.forkedFrom` is the id of the first one. Calling it again makes another one.
    """
    session = await found(call, params.address)
    made = await db.write(fork_session, call.user, session, params.message_id, key=str(session.id))
    return await answer_of(call, made)
