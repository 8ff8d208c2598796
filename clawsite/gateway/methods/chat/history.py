"""Reading a chat back: a page of its messages with what is going on now, or what was said since."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NotRequired, cast

from pydantic import AliasChoices, Field

from clawsite.gateway.delivery.catch_up import Epoch, LogPosition, Missed, list_open_approvals, read_missed_events
from clawsite.gateway.methods.chat.rendering import render_messages
from clawsite.gateway.protocol import openclaw
from clawsite.gateway.protocol.approvals import add_approvals, add_enable_offers
from clawsite.gateway.protocol.openclaw import InFlightRun, PendingInputs
from clawsite.gateway.protocol.params import Cursor, Id, IdempotencyKey
from clawsite.gateway.protocol.runs import ActiveRun, Queued
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.protocol.session_events import Message, SessionMessage
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
    """`before` and `after` a position, `around` a message (OpenClaw: `messageId`). A number as `cursor` asks for the events after
    it instead, and `epoch` came with it; a text as `cursor` is a `deltaCursor`, and asks for what was said since.

    With `maxChars` longer texts are cut, and marked as `truncated`; with `maxBytes` there are fewer messages, though never none.
    `inputRunIds` asks what became of one's own messages.
    """

    refused: ClassVar[Mapping[str, str]] = {
        "offset": "new messages would shift it; go on with before and nextCursor",
        "pendingBefore": "what waits is in queued, all of it",
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
    html: bool = False  # text blocks also have `html`, as many of the newest as fit; for the others ask chat.render
    notices: bool = False  # with messages of role `notice`: resets, compactions, runs that failed or were stopped

    @property
    def room(self) -> int:
        return min(self.max_bytes or MAX_REPLY_BYTES, MAX_REPLY_BYTES)


class HistoryAnswer(Missed):
    """`cursor` was the head of the session's events before the messages were read: events after it may be news.

    The newest page has a `deltaCursor`. Given back as `cursor` it is answered with `kind`: `delta` has every message since, each
    as `session.message` tells it, and `reset` means that the page has to be read again.
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
    inFlightRun: NotRequired[InFlightRun]  # the same as activeRun, in the form of OpenClaw's clients; so is the next one
    pendingInputs: NotRequired[PendingInputs]
    inputReceipts: NotRequired[list[Receipt]]
    sessionInfo: NotRequired[SessionRow | None]


@method("chat.history", scope=Scope.READ)
async def chat_history(call: Call, params: HistoryParams) -> HistoryAnswer:
    """The newest messages of a session, oldest first, with what is queued and what is being written now.

    A reply holds at most 768 KiB; `nextCursor` is then the `before` of the next older page, `newerCursor` the `after` of the next
    newer one. With a number as `cursor` it answers like sessions.history. A session that does not exist yet is empty.
    """
    if sum(place is not None for place in (params.before, params.after, params.around, params.cursor)) > 1:
        raise InvalidRequest("give at most one of before, after, around and cursor")
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
    wanted = partial(read_history, session, limit=params.limit, notices=params.notices, room=params.room)
    page = await db.read(wanted, before=params.before, after=params.after, around=params.around)
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
    if all(place is None for place in (params.before, params.after, params.around)):
        answer["deltaCursor"] = str(HistoryPosition.of(epoch, session, page))
    if session.thinking_level:
        answer["thinkingLevel"] = session.thinking_level
    if session.verbose_level:
        answer["verboseLevel"] = session.verbose_level
    return answer


async def _read_delta(call: Call, session: Session | None, cursor: str, epoch: str, room: int) -> HistoryAnswer:
    """Every message since, or the word that the newest page has to be read again: never a part of them."""
    end = HistoryPosition.read(cursor)
    page = await db.read(read_history_since, session, end, epoch, room) if session and end else None
    if session is None or page is None:
        return cast("HistoryAnswer", {"kind": "reset"})
    await db.read(add_approvals, session, page.messages)
    info = await build_session_info(call, session, page)
    told = [openclaw.to_session_message(message, info) for message in page.messages]
    delta = {"kind": "delta", "messages": told, "deltaCursor": str(HistoryPosition.of(epoch, session, page)), "sessionInfo": info}
    if page.active:
        delta["inFlightRun"] = openclaw.to_in_flight_run(page.active)
    return cast("HistoryAnswer", {**delta, "pendingInputs": openclaw.to_pending_inputs(page.queued)})


async def build_session_info(call: Call, session: Session, page: HistoryPage) -> SessionRow:
    """The session as sessions.describe tells it, and whether it is at work."""
    active = [page.active["runId"]] if page.active else []
    return {**await db.read(to_row, call.user, session), "hasActiveRun": bool(active), "activeRunIds": active}


def shorten_message(message: dict[str, Any], most: int) -> dict[str, Any]:
    """The message with its long texts cut."""
    content = [
        {**block, "text": block["text"][:most], "truncated": True} if len(block.get("text") or "") > most else block
        for block in message["content"]
    ]
    return {**message, "content": content}
