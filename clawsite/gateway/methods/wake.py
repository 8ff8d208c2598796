"""`wake`: queue an event for the next run of the caller's own session and optionally start a run now."""

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
    """Without `sessionKey`: the caller's main session with the agent. `next-heartbeat` queues the text for the next run."""

    mode: WakeMode
    text: Annotated[str, Field(min_length=1, max_length=20_000)]
    session_key: Key | None = None
    agent_id: Id | None = None


class WakeAnswer(TypedDict):
    """`runId` is set if a run was started: with `now`, unless a run is already queued, which then gets the text."""

    ok: bool
    mode: WakeMode
    sessionKey: str
    eventOutcome: Literal["queued", "coalesced"]
    runId: NotRequired[str]


@method("wake", scope=Scope.WRITE, limited=LimitedTokenRule.REFUSED, order=session_order_key)
async def wake_session(call: Call, params: WakeParams) -> WakeAnswer:
    """Queue an event for a session's next run: at most 20 events are queued, in order, and each is delivered once.

    With `now` a run is started. No heartbeat starts one later.
    """
    if not params.text.strip():
        raise InvalidRequest("text is empty: describe what happened")
    address = to_address(params.session_key, None, params.agent_id)
    result = await db.write(_wake, call.user, address, params, alone=True)
    answer = WakeAnswer(ok=True, mode=params.mode, sessionKey=result.session.key_for(call.user.pk), eventOutcome=result.outcome)
    if result.run_id:
        answer["runId"] = result.run_id
    return answer


def _wake(user: User, address: SessionAddress, params: WakeParams) -> WakeResult:
    return wake(user, _find_session(user, address), params.text, mode=params.mode, source=user.username)


def _find_session(user: User, address: SessionAddress) -> Session:
    return find_session_or_none(user, address) or open_session(user, key=address.own_key())
