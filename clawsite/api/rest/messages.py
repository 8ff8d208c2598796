"""What is said in a session over REST: its messages, its events, and a message to its agent, which starts a run."""

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
from clawsite.gateway.protocol.approvals import add_approvals
from clawsite.gateway.protocol.events.sessions import Message
from clawsite.gateway.protocol.params import AttachmentParams, Id, Params
from clawsite.gateway.protocol.runs import ActiveRun, Queued
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from clawsite.routing.inbound import CommandRequested, Inbound, SessionAddress, StopRequested, receive
from sessions_app.events.epoch import epoch_of_session
from sessions_app.sessions.attachments import MAX_PER_MESSAGE
from sessions_app.sessions.service import find_session
from sessions_app.transcript.history import read_history

router = Router(tags=["sessions"])


class MessagePage(TypedDict):
    """Newest page first, each page oldest first; `next` leads to older ones.

    `eventCursor` is a place in the session's events from before the messages were read: what comes after it may be news.
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
    notices: Annotated[bool, Query(description="With resets, compactions, and runs that failed or were stopped")] = False,
) -> Any:
    """What was said, page by page into the past, with what is queued and what is being written now."""
    place = decode_cursor(cursor, parse_number)
    user = request.auth.user
    return await db.read(_list_messages, user, session_id, limit, place[0] if place else None, notices)


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
    """`replaces` is a message of a user, which is hidden with all that came after it: to edit it, or to try again."""

    message: str = Field(max_length=1_000_000)
    thinking: str | None = Field(None, max_length=16)
    model: str | None = Field(None, max_length=200)
    attachments: list[AttachmentParams] = Field(default_factory=list, max_length=MAX_PER_MESSAGE)
    timeout_ms: int | None = Field(None, ge=0, le=86_400_000)
    replaces: Id | None = None


class Sent(TypedDict):
    """`id` and `runId`, the Idempotency-Key, name the run in /api/runs/…. `created` is false for a key that was used before."""

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
            description="The same key again never starts a second run; with another body it is a conflict",
        ),
    ] = "",
) -> Any:
    """Start a run. It goes on without the caller: follow it by its events. 200 instead of 202 for a key that was used before."""
    user = request.auth.user
    session = await find_visible_session(user, session_id)
    wishes = {"thinking": body.thinking, "model": body.model, "replaces": body.replaces}
    inbound = Inbound(
        user,
        body.message,
        key or f"rest-{uuid4().hex}",
        SessionAddress(session_id=str(session.pk)),
        {name: wish for name, wish in wishes.items() if wish},
        timeout_seconds=body.timeout_ms / 1000 if body.timeout_ms else None,
        files=[attachment.file() for attachment in body.attachments],
    )
    try:
        accepted = await receive(inbound)
    except StopRequested:
        raise InvalidRequest("/stop is for a chat; use POST /api/runs/{id}/abort") from None
    except CommandRequested as asked:
        raise InvalidRequest(f"/{asked.command.name} is for a chat; to send it as words, begin with a blank") from None
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
    """As the socket sends it to protocols 3 and 4, without a connection's number."""

    type: Literal["event"]
    event: str
    payload: dict[str, Any]


class EventPage(TypedDict):
    """Ask again with `next`: at once while `more` is true, later for news.

    `resync_required` means that events after the place are no longer stored, or that it is one in another log: read the messages
    anew and go on from their `eventCursor`.
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
    """Everything that happened in a session after a place: each event once, in order, also after a restart. At most 768 KiB."""
    user = request.auth.user
    session = await find_visible_session(user, session_id)
    epoch, at = decode_cursor(cursor, parse_string, parse_number) or (None, 0)
    missed = await read_missed_events(user, "modern", session, LogPosition(at, epoch), limit=limit)
    if missed.get("resync_required"):
        return EventPage(items=[], next=None, more=False, resync_required=True, reason=missed["reason"])
    frames = cast("list[EventFrame]", missed["events"])
    return EventPage(items=frames, next=encode_cursor(missed["epoch"], missed["cursor"]), more=missed["more"])
