"""Follow sessions: read missed events, and subscribe a connection to sessions."""

import asyncio
from functools import partial
from typing import Any, Literal, NotRequired

from django.utils.translation import gettext as _
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.delivery.catch_up import (
    BEGINNING,
    Epoch,
    LogPosition,
    Missed,
    list_open_approvals,
    read_missed_events,
    resolve_position,
)
from clawsite.gateway.delivery.hub_queries import replay_events
from clawsite.gateway.delivery.subscriptions import Subscriptions
from clawsite.gateway.methods.sessions.listing import ListParams, list_
from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.approvals.records import ApprovalRecord
from clawsite.gateway.protocol.approvals.snapshots import ApprovalReplay, build_replay
from clawsite.gateway.protocol.events.frames import SessionName
from clawsite.gateway.protocol.params import Cursor, IsoTime
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import AnswerWithFollowUp, Call, method
from clawsite.gateway.server.session_address import ByKey, ToSession
from clawsite.infra import clock, db
from clawsite.infra.errors import Conflict, InvalidRequest
from clawsite.routing.inbound import find_session_or_none
from sessions_app.events.epoch import epoch_of_session
from sessions_app.models import Session
from sessions_app.sessions import selectors


class HistoryParams(ToSession):
    """`fromStateVersion` is a cursor, or an ISO time such as 2026-02-01T10:15:00Z; by default, all stored events are returned.

    `epoch` is the one that belongs to the cursor.
    """

    from_state_version: Cursor | IsoTime = BEGINNING
    epoch: Epoch | None = None
    limit: int = Field(1000, ge=1, le=1000)


@method("sessions.history", scope=Scope.READ)
async def history(call: Call, params: HistoryParams) -> Missed:
    """Return the events of a session after a position: each once and in order, even after a restart.

    A response has at most 768 KiB; while `more` is true, request again from `cursor`. It may include events that also arrive live:
    compare their `cursor`.
    """
    session = await db.read(find_session_or_none, call.user, params.address)
    return await read_missed_events(
        call.user, call.connection.dialect, session, LogPosition(params.from_state_version, params.epoch), limit=params.limit
    )


class SubscribeAnswer(TypedDict):
    subscribed: Literal[True]
    list: NotRequired[dict[str, Any]]


@method("sessions.subscribe", scope=Scope.READ)
async def subscribe(call: Call, params: ListParams) -> SubscribeAnswer:
    """Start sending `session.message` for every session you can see. `sessions.changed` is sent to every connection anyway.

    With parameters of sessions.list, the response includes the list.
    """
    call.connection.subscriptions.follow_all_messages(clock.now_ms())
    if params.model_fields_set:
        return SubscribeAnswer(subscribed=True, list=dict(await list_(call, params)))
    return SubscribeAnswer(subscribed=True)


class FollowParams(ByKey):
    """With `fromStateVersion` the missed events are sent first, followed by the live ones; `epoch` is the one that belongs to the
    cursor. Without it, each new message is also sent as `session.message`. With `includeApprovals` the response has the session's
    approval requests, and later ones are sent as `session.approval`.

    On a connection with the cap session-scoped-events each event arrives once and in order. Without it, live events may have been
    sent before the subscription: compare cursors.
    """

    from_state_version: Cursor | IsoTime | None = None
    epoch: Epoch | None = None
    include_approvals: bool = False


class FollowAnswer(Missed):
    """`approvalReplay` is set with `includeApprovals`: the same approval requests in the form of OpenClaw's clients."""

    subscribed: Literal[True]
    key: str
    sessionId: str | None
    approvalReplay: NotRequired[ApprovalReplay]


@method("sessions.messages.subscribe", scope=Scope.READ)
async def follow(call: Call, params: FollowParams) -> FollowAnswer | AnswerWithFollowUp[FollowAnswer]:
    """Subscribe to one session.

    Events of your own sessions and those you are a member of are sent anyway, unless the connection has the cap
    session-scoped-events. Users who may read all sessions only get events of other users' sessions that they follow.
    """
    connection, hub = call.connection, call.runtime.hub
    subscriptions = connection.subscriptions
    session = await db.read(find_session_or_none, call.user, params.address)
    _check_follow_limit(subscriptions, session, params)
    by_messages = params.from_state_version is None
    promised: asyncio.Event | None = None
    just_created = False
    if params.include_approvals:
        subscriptions.follow_approvals(str(session.id) if session else params.address.own_key())
    if session is None:
        # Subscribe before reading again, so that a session created in between is not missed.
        promised = asyncio.Event() if params.from_state_version is not None else None
        hub.audience.follow_key(connection, params.address.own_key(), promised=promised)
        if by_messages:
            subscriptions.follow_messages_of_key(params.address.own_key())
        session = await db.read(find_session_or_none, call.user, params.address)
        if session and promised and subscriptions.take_promise(session.key):
            promised, just_created = None, True  # the hub will not replay its events, so they are sent here
            subscriptions.start_replay(str(session.id))
    key, session_id = (session.key_for(call.user.pk), str(session.generation_id)) if session else (params.address.own_key(), None)
    answer = FollowAnswer(subscribed=True, key=key, sessionId=session_id)
    start: int | str | None = None
    if params.from_state_version is None:
        answer["epoch"] = await db.read(epoch_of_session, session)
    else:
        answer["epoch"], start = await resolve_position(session, LogPosition(params.from_state_version, params.epoch))
    if isinstance(start, str):
        answer["resync_required"], answer["reason"] = True, start
    if promised:
        return AnswerWithFollowUp({**answer, "cursor": 0}, partial(_release_replay, promised))
    if session is None:
        return {**answer, "cursor": 0}
    row_id, name = str(session.id), SessionName(str(session.generation_id), key)
    if not isinstance(start, int):
        if just_created:
            subscriptions.end_replay(row_id)
        cursor = await _follow_from_now(call, row_id, by_messages=by_messages)
        return {**answer, "cursor": cursor, **await _read_open_approvals(call, params, session)}
    if subscriptions.is_replaying(row_id) and not just_created:
        raise Conflict(_("Missed events of this session are already being sent."), retryable=True)
    subscriptions.start_replay(row_id)
    hub.audience.follow(connection, row_id)
    first: FollowAnswer = {**answer, "cursor": start, **await _read_open_approvals(call, params, session)}
    own = session.owner_id == call.user.pk

    def may_see() -> bool:
        return own or hub.audience.may_see(connection, row_id)

    return AnswerWithFollowUp(first, lambda: replay_events(call.runtime.rows, hub, connection, row_id, name, start, may_see))


def _check_follow_limit(subscriptions: Subscriptions, session: Session | None, params: FollowParams) -> None:
    known = subscriptions.follows(str(session.id), None) if session else subscriptions.follows(None, params.address.own_key())
    if not known and subscriptions.count >= limits.MAX_FOLLOWED:
        raise InvalidRequest(
            f"this connection already follows the maximum of {limits.MAX_FOLLOWED} sessions; unsubscribe from some"
        )


class _OpenApprovals(TypedDict):
    approvals: list[ApprovalRecord]
    approvalReplay: NotRequired[ApprovalReplay]


async def _read_open_approvals(call: Call, params: FollowParams, session: Session) -> _OpenApprovals:
    """Read pending approval requests after subscribing, so that later changes arrive as events."""
    pending = await list_open_approvals(call.user, session)
    if not params.include_approvals:
        return _OpenApprovals(approvals=pending)
    return _OpenApprovals(approvals=pending, approvalReplay=await db.read(build_replay, call.user, session))


async def _release_replay(sent: asyncio.Event) -> None:
    """Let the hub send the session's events from the first one, now that the response has been sent."""
    sent.set()


async def _follow_from_now(call: Call, session_id: str, *, by_messages: bool) -> int:
    """Subscribe before reading the head, so that no event is missed in between. Earlier messages are not sent."""
    if by_messages:
        _, end = await db.read(selectors.read_ends, session_id)
        call.connection.subscriptions.follow_messages(session_id, after=end)
    call.runtime.hub.audience.follow(call.connection, session_id)
    cursor, _ = await db.read(selectors.read_ends, session_id)
    return cursor


class UnfollowAnswer(TypedDict):
    subscribed: Literal[False]
    key: str


@method("sessions.messages.unsubscribe", scope=Scope.READ)
async def unfollow(call: Call, params: ByKey) -> UnfollowAnswer:
    """Unsubscribe from a session."""
    session = await db.read(find_session_or_none, call.user, params.address)
    own_key = session.key if session else params.address.own_key()
    call.connection.subscriptions.unsubscribe(str(session.id) if session else None, own_key)
    if session is not None:
        call.runtime.hub.audience.unfollow(call.connection, str(session.id))
    return UnfollowAnswer(subscribed=False, key=session.key_for(call.user.pk) if session else own_key)
