"""Read a session's messages: a page with the current state, or the messages since a cursor."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NotRequired, cast

from pydantic import AliasChoices, Field

from clawsite.gateway.delivery.catch_up import Epoch, LogPosition, Missed, list_open_approvals, read_missed_events
from clawsite.gateway.methods.chat.rendering import render_messages
from clawsite.gateway.protocol import openclaw
from clawsite.gateway.protocol.approvals.messages import add_approvals, add_enable_offers
from clawsite.gateway.protocol.events.sessions import Message, SessionMessage
from clawsite.gateway.protocol.openclaw import InFlightRun, PendingInputs
from clawsite.gateway.protocol.params import Cursor, Id, IdempotencyKey
from clawsite.gateway.protocol.runs import ActiveRun, Queued
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.protocol.sessions import SessionRow, to_row
from clawsite.gateway.server.registry import Call, method
from clawsite.gateway.server.session_address import ToSession
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from clawsite.routing.inbound import find_session_or_none
from sessions_app.events.epoch import epoch_of_session
from sessions_app.models import Session
from sessions_app.transcript.history import MAX_REPLY_BYTES, HistoryPage, HistoryPosition, read_history, read_history_since
from sessions_app.transcript.receipts import Receipt, list_receipts

DeltaCursor = Annotated[str, Field(min_length=1, max_length=256)]


class HistoryParams(ToSession):
    """`before` and `after` a position, `around` a message (OpenClaw: `messageId`). A numeric `cursor` requests the events after it
    instead, with its `epoch`; a string `cursor` is a `deltaCursor` and requests the messages since.

    With `maxChars` longer texts are shortened and marked as `truncated`; `maxBytes` reduces the number of messages, to no less
    than one. `inputRunIds` requests the status of your own messages.
    """

    refused: ClassVar[Mapping[str, str]] = {
        "offset": "new messages would shift it; continue with before and nextCursor",
        "pendingBefore": "queued has all pending messages",
    }

    limit: int = Field(200, ge=1, le=1000)
    before: Cursor | None = None
    after: Cursor | None = None
    around: Id | None = Field(None, validation_alias=AliasChoices("around", "messageId"))
    cursor: Cursor | DeltaCursor | None = Field(None, union_mode="left_to_right")
    input_run_ids: list[IdempotencyKey] = Field(default_factory=list, max_length=50)
    max_chars: int | None = Field(None, ge=1, le=500_000)
    max_bytes: int | None = Field(None, ge=1)
    epoch: Epoch | None = None
    html: bool = False  # text blocks also get `html`, newest first, as many as fit; use chat.render for the others
    notices: bool = False  # include messages of role `notice`: resets, compactions, failed and stopped runs

    @property
    def room(self) -> int:
        return min(self.max_bytes or MAX_REPLY_BYTES, MAX_REPLY_BYTES)


class HistoryAnswer(Missed):
    """`cursor` was the last event before the messages were read: events after it may be new.

    The newest page has a `deltaCursor`. If it is sent back as `cursor`, the response has a `kind`: `delta` has every message since,
    in the form of `session.message`, and `reset` means that the page must be reloaded.
    """

    sessionKey: str
    sessionId: str | None
    messages: NotRequired[list[Message] | list[SessionMessage]]
    nextCursor: NotRequired[int | None]
    newerCursor: NotRequired[int]
    queued: NotRequired[list[Queued]]
    activeRun: NotRequired[ActiveRun | None]
    thinkingLevel: NotRequired[str]
    verboseLevel: NotRequired[str]
    kind: NotRequired[Literal["delta", "reset"]]
    deltaCursor: NotRequired[str]
    inFlightRun: NotRequired[InFlightRun]  # this and the next are activeRun and queued in OpenClaw's form
    pendingInputs: NotRequired[PendingInputs]
    inputReceipts: NotRequired[list[Receipt]]
    sessionInfo: NotRequired[SessionRow | None]


@method("chat.history", scope=Scope.READ)
async def chat_history(call: Call, params: HistoryParams) -> HistoryAnswer:
    """Return a session's newest messages, oldest first, with queued messages and the answer being written.

    A response has at most 768 KiB; `nextCursor` is then the `before` of the next older page, `newerCursor` the `after` of the next
    newer one. With a numeric `cursor` the response is like that of sessions.history. A session that does not exist yet is empty.
    """
    if sum(position is not None for position in (params.before, params.after, params.around, params.cursor)) > 1:
        raise InvalidRequest("set at most one of before, after, around and cursor")
    session = await db.read(find_session_or_none, call.user, params.address)
    if session:
        answer = HistoryAnswer(sessionKey=session.key_for(call.user.pk), sessionId=str(session.generation_id))
    else:
        answer = HistoryAnswer(sessionKey=params.address.own_key(), sessionId=None)
    if isinstance(params.cursor, int):
        return {
            **answer,
            **await read_missed_events(
                call.user, call.connection.dialect, session, LogPosition(params.cursor, params.epoch), limit=params.limit
            ),
        }
    epoch = await db.read(epoch_of_session, session)
    if params.input_run_ids:
        answer["inputReceipts"] = await db.read(list_receipts, call.user, session, params.input_run_ids) if session else []
    if params.cursor is not None:
        return {**answer, **await _read_delta(call, session, params.cursor, epoch, params.room)}
    answer["epoch"] = epoch
    answer["approvals"] = await list_open_approvals(call.user, session)
    if session is None:
        return {**answer, "messages": [], "cursor": 0, "nextCursor": None, "queued": [], "activeRun": None}
    query = partial(read_history, session, limit=params.limit, notices=params.notices, room=params.room)
    page = await db.read(query, before=params.before, after=params.after, around=params.around)
    await db.read(add_approvals, session, page.messages)
    await db.read(add_enable_offers, session, page.messages)
    shown = [shorten_message(message, params.max_chars) for message in page.messages] if params.max_chars else page.messages
    messages = await render_messages(shown) if params.html else shown
    answer["messages"] = cast("list[Message]", messages)
    answer["cursor"] = page.cursor
    answer["nextCursor"] = page.before
    if page.after is not None:
        answer["newerCursor"] = page.after
    answer["queued"] = cast("list[Queued]", page.queued)
    answer["activeRun"] = cast("ActiveRun", {**page.active, "cursor": page.cursor}) if page.active else None
    if page.active:
        answer["inFlightRun"] = openclaw.to_in_flight_run(page.active)
    if all(position is None for position in (params.before, params.after, params.around)):
        answer["deltaCursor"] = str(HistoryPosition.after_page(epoch, session, page))
    if session.thinking_level:
        answer["thinkingLevel"] = session.thinking_level
    if session.verbose_level:
        answer["verboseLevel"] = session.verbose_level
    return answer


async def _read_delta(call: Call, session: Session | None, cursor: str, epoch: str, room: int) -> HistoryAnswer:
    """Return all messages since the cursor, never only some of them, or `reset` if the newest page must be reloaded."""
    end = HistoryPosition.read(cursor)
    page = await db.read(read_history_since, session, end, epoch, room) if session and end else None
    if session is None or page is None:
        return cast("HistoryAnswer", {"kind": "reset"})
    await db.read(add_approvals, session, page.messages)
    info = await build_session_info(call, session, page)
    messages = [openclaw.to_session_message(message, info) for message in page.messages]
    delta = {
        "kind": "delta",
        "messages": messages,
        "deltaCursor": str(HistoryPosition.after_page(epoch, session, page)),
        "sessionInfo": info,
    }
    if page.active:
        delta["inFlightRun"] = openclaw.to_in_flight_run(page.active)
    return cast("HistoryAnswer", {**delta, "pendingInputs": openclaw.to_pending_inputs(page.queued)})


async def build_session_info(call: Call, session: Session, page: HistoryPage) -> SessionRow:
    """Return the session as in sessions.describe, with its active run."""
    active = [page.active["runId"]] if page.active else []
    return {**await db.read(to_row, call.user, session), "hasActiveRun": bool(active), "activeRunIds": active}


def shorten_message(message: dict[str, Any], max_chars: int) -> dict[str, Any]:
    """Shorten the message's long texts."""
    content = [
        {**block, "text": block["text"][:max_chars], "truncated": True} if len(block.get("text") or "") > max_chars else block
        for block in message["content"]
    ]
    return {**message, "content": content}
