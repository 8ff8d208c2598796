"""`wake`: words for the next run of one's own session, which may start at once."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.protocol.params import Id, Key, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, method
from clawsite.gateway.server.session_address import session_order_key, to_address
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from clawsite.routing.inbound import SessionAddress, find_session_or_none, open_session
from clawsite.routing.wake import WakeMode, WakeResult, wake
from sessions_app.models import Session


class WakeParams(Params):
    """Without `sessionKey` it is the agent's main session of the caller. `next-heartbeat` leaves the words for the next run."""

    mode: WakeMode
    text: Annotated[str, Field(min_length=1, max_length=20_000)]
    session_key: Key | None = None
    agent_id: Id | None = None


class WakeAnswer(TypedDict):
    """`runId` where a run was started: with `now`, unless one waits there to start anyway, which is told."""

    ok: bool
    mode: WakeMode
    sessionKey: str
    eventOutcome: Literal["queued", "coalesced"]
    runId: NotRequired[str]


@method("wake", scope=Scope.WRITE, limited=LimitedTokenRule.REFUSED, order=session_order_key)
async def wake_session(call: Call, params: WakeParams) -> WakeAnswer:
    """Tell a session's next run what has happened: at most 20 events wait, in order, and each is told once.

    With `now` a run starts for it. There is no heartbeat yet that would start one later.
    """
    if not params.text.strip():
        raise InvalidRequest("text is empty: say what has happened")
    address = to_address(params.session_key, None, params.agent_id)
    woken = await db.write(_wake, call.user, address, params, alone=True)
    answer = WakeAnswer(ok=True, mode=params.mode, sessionKey=woken.session.key_for(call.user.pk), eventOutcome=woken.outcome)
    if woken.run_id:
        answer["runId"] = woken.run_id
    return answer


def _wake(user: User, address: SessionAddress, params: WakeParams) -> WakeResult:
    return wake(user, _find_session(user, address), params.text, mode=params.mode, source=user.username)


def _find_session(user: User, address: SessionAddress) -> Session:
    return find_session_or_none(user, address) or open_session(user, key=address.own_key())
