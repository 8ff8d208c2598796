"""Session contents over REST: messages, events, and sending a message, which starts a run."""

from typing import Annotated, Any, Literal, NotRequired, cast
from uuid import uuid4

from ninja import Header, Query, Router
from ninja.responses import Status
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.api.http.pagination import CursorText, Limit, decode_cursor, encode_cursor, parse_number, parse_string
from clawsite.api.http.permissions import MAX_MESSAGE_BYTES, ApiRequest, RequireScope
from clawsite.api.rest.sessions import find_visible_session
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.delivery.catch_up import LogPosition, read_missed_events
from clawsite.gateway.protocol.approvals.messages import add_approvals
from clawsite.gateway.protocol.events.sessions import Message
from clawsite.gateway.protocol.params import AttachmentParams, Id, Params
from clawsite.gateway.protocol.runs import ActiveRun, Queued
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from clawsite.routing.inbound import CommandRequested, Inbound, SessionAddress, StopRequested, receive
from sessions_app.events.epoch import epoch_of_session
from sessions_app.run_request import Prompt, RunRequest
from sessions_app.sessions.attachments import MAX_PER_MESSAGE
from sessions_app.sessions.service import find_session
from sessions_app.transcript.history import read_history

router = Router(tags=["sessions"])


class MessagePage(TypedDict):
    """The first page has the newest messages; `next` leads to older ones. Each page is sorted oldest first.

    `eventCursor` is the position in the session's events just before the messages were read: use it to get later events.
    """

    items: list[Message]
    next: str | None
    eventCursor: str
    queued: list[Queued]
    activeRun: ActiveRun | None


@router.get("/sessions/{session_id}/messages", response=MessagePage, auth=RequireScope(Scope.READ))
async def list_messages(
    request: ApiRequest,
    session_id: str,
    limit: Limit = 50,
    cursor: CursorText = "",
    notices: Annotated[bool, Query(description="Include resets, compactions, and failed or stopped runs")] = False,
) -> Any:
    """List messages from newest to oldest, with the queued messages and the run in progress."""
    position = decode_cursor(cursor, parse_number)
    user = request.auth.user
    return await db.read(_list_messages, user, session_id, limit, position[0] if position else None, notices)


def _list_messages(user: User, session_id: str, limit: int, before: int | None, notices: bool) -> MessagePage:
    session = find_session(user, session_id=session_id)
    epoch = epoch_of_session(session)
    page = read_history(session, limit=limit, before=before, notices=notices)
    add_approvals(session, page.messages)
    return MessagePage(
        items=cast("list[Message]", page.messages),
        next=encode_cursor(page.before) if page.before is not None else None,
        eventCursor=encode_cursor(epoch, page.cursor),
        queued=cast("list[Queued]", page.queued),
        activeRun=cast("ActiveRun", {**page.active, "cursor": page.cursor}) if page.active else None,
    )


class SendBody(Params):
    """`replaces` is the ID of a user message to hide, with everything after it: to edit it, or to try again."""

    message: str = Field(max_length=1_000_000)
    thinking: str | None = Field(None, max_length=16)
    model: str | None = Field(None, max_length=200)
    attachments: list[AttachmentParams] = Field(default_factory=list, max_length=MAX_PER_MESSAGE)
    timeout_ms: int | None = Field(None, ge=0, le=86_400_000)
    replaces: Id | None = None


class Sent(TypedDict):
    """`id` and `runId` (the Idempotency-Key) identify the run in /api/runs/…. `created` is false if the key was used before."""

    id: int
    runId: str
    sessionKey: str
    status: str
    created: bool
    acceptedAt: int


@router.post(
    "/sessions/{session_id}/messages",
    response={202: Sent, 200: Sent},
    auth=RequireScope(Scope.WRITE, limited=LimitedTokenRule.CARRIED, max_bytes=MAX_MESSAGE_BYTES),
)
async def send_message(
    request: ApiRequest,
    session_id: str,
    body: SendBody,
    key: Annotated[
        str,
        Header(
            alias="Idempotency-Key",
            max_length=200,
            description="Repeating a key never starts a second run; with another body it is a conflict",
        ),
    ] = "",
) -> Any:
    """Send a message and start a run in the background: follow its events. Returns 200, not 202, if the key was used before."""
    user = request.auth.user
    session = await find_visible_session(user, session_id)
    inbound = Inbound(
        user,
        body.message,
        key or f"rest-{uuid4().hex}",
        SessionAddress(session_id=str(session.pk)),
        RunRequest(Prompt(body.replaces or ""), model=body.model or "", thinking=body.thinking or ""),
        timeout_seconds=body.timeout_ms / 1000 if body.timeout_ms else None,
        files=[attachment.file() for attachment in body.attachments],
    )
    try:
        accepted = await receive(inbound)
    except StopRequested:
        raise InvalidRequest("/stop only works in chats; use POST /api/runs/{id}/abort") from None
    except CommandRequested as error:
        raise InvalidRequest(f"/{error.command.name} only works in chats; to send it as text, start with a space") from None
    sent = Sent(
        id=accepted.pk,
        runId=accepted.run_id,
        sessionKey=accepted.session_key,
        status=accepted.status,
        created=accepted.created,
        acceptedAt=accepted.accepted_at_ms,
    )
    return Status(202 if accepted.created else 200, sent)


class EventFrame(TypedDict):
    """As sent over WebSocket with protocols 3 and 4, without the connection's sequence number."""

    type: Literal["event"]
    event: str
    payload: dict[str, Any]


class EventPage(TypedDict):
    """Request again with `next`: immediately while `more` is true, otherwise later for new events.

    `resync_required` means that the events after the cursor are no longer stored, or that it belongs to another log: reload the
    messages and continue from their `eventCursor`.
    """

    items: list[EventFrame]
    next: str | None
    more: bool
    resync_required: NotRequired[bool]
    reason: NotRequired[str]


@router.get("/sessions/{session_id}/events", response=EventPage, auth=RequireScope(Scope.READ))
async def list_events(
    request: ApiRequest,
    session_id: str,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
    cursor: CursorText = "",
) -> Any:
    """List the events of a session after a cursor: each event once, in order, even across restarts. At most 768 KiB."""
    user = request.auth.user
    session = await find_visible_session(user, session_id)
    epoch, at = decode_cursor(cursor, parse_string, parse_number) or (None, 0)
    missed = await read_missed_events(user, "modern", session, LogPosition(at, epoch), limit=limit)
    if missed.get("resync_required"):
        return EventPage(items=[], next=None, more=False, resync_required=True, reason=missed["reason"])
    frames = cast("list[EventFrame]", missed["events"])
    return EventPage(items=frames, next=encode_cursor(missed["epoch"], missed["cursor"]), more=missed["more"])
