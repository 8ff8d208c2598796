"""Following sessions: what was missed, and which ones a connection is told about."""

from typing import Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.addressing import ByKey, Cursor, IsoTime, ToSession
from clawsite.gateway.catch_up import BEGINNING, Missed, missed_events, place_of
from clawsite.gateway.fanout import replay
from clawsite.gateway.methods.session_lists import ListParams, list_
from clawsite.gateway.registry import Call, Followed, method
from clawsite.gateway.scopes import Scope
from clawsite.gateway.wire import SessionName
from clawsite.infra import db
from clawsite.infra.errors import Conflict
from clawsite.routing.inbound import find_or_none
from sessions_app import selectors

NO_SUCH_LOG = "there is no such session, so the place is one in another log"


class HistoryParams(ToSession):
    """`fromStateVersion` is a cursor, or an ISO time such as 2026-02-01T10:15:00Z; without it, all that is kept."""

    from_state_version: Cursor | IsoTime = BEGINNING
    limit: int = Field(1000, ge=1, le=1000)


@method("sessions.history", scope=Scope.READ)
async def history(call: Call, params: HistoryParams) -> Missed:
    """The events of a session after a place one remembers: each once, in order, also after a restart.

    A reply holds at most 768 KiB; while `more` is true, ask again from `cursor`. Events that arrive live meanwhile may be among
    them: a client tells by `cursor`.
    """
    session = await db.read(find_or_none, call.user, params.address)
    if session is None:
        if params.from_state_version in (0, "0", BEGINNING):
            return Missed(events=[], cursor=0, more=False)
        return Missed(resync_required=True, reason=NO_SUCH_LOG)
    return await missed_events(call, session, params.from_state_version, limit=params.limit)


class SubscribeAnswer(TypedDict):
    subscribed: Literal[True]
    list: NotRequired[dict[str, Any]]


@method("sessions.subscribe", scope=Scope.READ)
async def subscribe(call: Call, params: ListParams) -> SubscribeAnswer:
    """Every connection is told `sessions.changed` already; with the parameters of sessions.list the list comes along."""
    if params.model_fields_set:
        return SubscribeAnswer(subscribed=True, list=dict(await list_(call, params)))
    return SubscribeAnswer(subscribed=True)


class FollowParams(ByKey):
    """With `fromStateVersion` the missed events are sent first, as events, and the live ones after them.

    On a connection with the cap session-scoped-events each comes once and in order. Without it, live events may have been sent
    before the subscription: compare cursors.
    """

    from_state_version: Cursor | IsoTime | None = None
    include_approvals: bool = False


class FollowAnswer(Missed):
    subscribed: Literal[True]
    key: str
    sessionId: str | None


@method("sessions.messages.subscribe", scope=Scope.READ)
async def follow(call: Call, params: FollowParams) -> FollowAnswer | Followed[FollowAnswer]:
    """Follow one session by name.

    Own sessions and those one is a member of are told in any case, unless the connection has the cap session-scoped-events.
    Who may read everybody's sessions is told only about those it follows.
    """
    connection, hub = call.connection, call.runtime.hub
    session = await db.read(find_or_none, call.user, params.address)
    if session is None:
        hub.audience.follow_key(connection, params.address.own_key())
        return FollowAnswer(subscribed=True, key=params.address.own_key(), sessionId=None, cursor=0)
    session_id, name = str(session.id), SessionName(str(session.generation_id), session.key)
    answer = FollowAnswer(subscribed=True, key=session.key, sessionId=name.id)
    if params.from_state_version is None:
        return {**answer, "cursor": await _follow_from_now(call, session_id)}
    cursor = await place_of(session, params.from_state_version)
    if isinstance(cursor, str):
        return {**answer, "cursor": await _follow_from_now(call, session_id), "resync_required": True, "reason": cursor}
    if session_id in connection.held:
        raise Conflict("the missed events of this session are being sent already", retryable=True)
    connection.held.add(session_id)
    hub.audience.follow(connection, session_id)
    start = cursor
    return Followed({**answer, "cursor": start}, lambda: replay(call.runtime.rows, hub, connection, session_id, name, start))


async def _follow_from_now(call: Call, session_id: str) -> int:
    """Listen first and read the head then, so that no event falls between the two."""
    call.runtime.hub.audience.follow(call.connection, session_id)
    return (await db.read(selectors.head_cursors, [session_id])).get(session_id, 0)


@method("sessions.messages.unsubscribe", scope=Scope.READ)
async def unfollow(call: Call, params: ByKey) -> SubscribeAnswer:
    """Take a subscription back."""
    session = await db.read(find_or_none, call.user, params.address)
    call.connection.followed_keys.discard(session.key if session else params.address.own_key())
    if session is not None:
        call.runtime.hub.audience.unfollow(call.connection, str(session.id))
    return SubscribeAnswer(subscribed=True)
