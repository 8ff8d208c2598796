"""The chat of one session: send, read back, stop, put words in."""

from functools import partial
from typing import Any, Literal, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.addressing import Cursor, Id, IdempotencyKey, ToSession, found, order_of_session
from clawsite.gateway.approval_facts import add_approvals
from clawsite.gateway.catch_up import Epoch, Missed, Place, missed_events
from clawsite.gateway.events import Message
from clawsite.gateway.methods.agent import RunWishes, failure
from clawsite.gateway.methods.commands import obey
from clawsite.gateway.methods.rendering import with_html
from clawsite.gateway.registry import Call, method
from clawsite.gateway.scopes import Scope
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from clawsite.routing.inbound import Address, CommandAsked, StopAsked, find_or_none, receive
from sessions_app import selectors
from sessions_app.epoch import epoch_of
from sessions_app.history import history
from sessions_app.models import Run
from sessions_app.runs import request_abort
from sessions_app.sessions import inject_message


class SendParams(RunWishes):
    timeout_ms: int | None = Field(None, ge=0, le=86_400_000)
    replaces: Id | None = None  # a message of a user, which is hidden with all that came after it
    expected_leaf_entry_id: None = None  # OpenClaw's page sends it; a transcript here has no branches to choose from


class SendAnswer(TypedDict):
    """`in_flight` and `ok` answer a repeated key: the run goes on, or has ended. A command has a `notice` and no run."""

    runId: NotRequired[str]
    status: NotRequired[Literal["started", "in_flight", "ok"]]
    sessionKey: NotRequired[str]
    ok: NotRequired[bool]
    aborted: NotRequired[bool]
    runIds: NotRequired[list[str]]
    command: NotRequired[str]
    notice: NotRequired[str]


@method("chat.send", scope=Scope.WRITE, order=order_of_session)
async def chat_send(call: Call, params: SendParams) -> SendAnswer:
    """Send a message; the answer comes as `agent` and `chat` events. Commands (commands.list) are carried out instead.

    `@model words` asks another model this once.

    With `replaces` the conversation goes on from before that message: to edit it, or with the same words to try again. That is
    a CONFLICT while the session has an unfinished run.
    """
    timeout = params.timeout_ms / 1000 if params.timeout_ms else None
    try:
        accepted = await receive(params.inbound(call, timeout=timeout, replaces=params.replaces))
    except StopAsked:
        stopped = await _abort(call, params.address, None, "stop")
        return SendAnswer(ok=True, command="stop", aborted=stopped["aborted"], runIds=stopped["runIds"])
    except CommandAsked as asked:
        done = await obey(call, asked.command, params.address, params.idempotency_key)
        return SendAnswer(ok=True, command=asked.command.name, notice=done.notice, sessionKey=done.session_key)
    if accepted.status == Run.Status.FAILED:
        raise failure(await db.read(selectors.run_state, call.user, accepted.run_id))
    status: Literal["started", "in_flight", "ok"] = "started"
    if not accepted.created:
        status = "ok" if accepted.status in Run.ENDED else "in_flight"
    return SendAnswer(runId=accepted.run_id, status=status, sessionKey=accepted.session_key)


class HistoryParams(ToSession):
    """`before` and `after` a position, `around` a message; `cursor` asks for the events after it instead of messages.

    `epoch` came with that cursor.
    """

    limit: int = Field(200, ge=1, le=1000)
    before: Cursor | None = None
    after: Cursor | None = None
    around: Id | None = None
    cursor: Cursor | None = None
    epoch: Epoch | None = None
    html: bool = False  # text blocks also have `html`, as many of the newest as fit; for the others ask chat.render
    notices: bool = False  # with messages of role `notice`: resets, compactions, runs that failed or were stopped


class Queued(TypedDict):
    runId: str
    text: str
    truncated: NotRequired[bool]
    acceptedAt: int
    sender: str
    attachments: NotRequired[list[dict[str, Any]]]


class ActiveRun(TypedDict):
    """The run that has the session's turn, and the answer it is writing: `text` holds everything up to `seq`."""

    runId: str
    status: Literal["running", "waiting"]
    waitingFor: str | None
    seq: int
    cursor: int
    messageId: str | None
    text: str
    thinking: str
    startedAt: int | None


class HistoryAnswer(Missed):
    """`cursor` was the head of the session's events before the messages were read: events after it may be news."""

    sessionKey: str
    sessionId: str | None
    messages: NotRequired[list[Message]]
    nextCursor: NotRequired[int | None]
    newerCursor: NotRequired[int]
    queued: NotRequired[list[Queued]]
    activeRun: NotRequired[ActiveRun | None]
    thinkingLevel: NotRequired[str]
    verboseLevel: NotRequired[str]


@method("chat.history", scope=Scope.READ)
async def chat_history(call: Call, params: HistoryParams) -> HistoryAnswer:
    """The newest messages of a session, oldest first, with what is queued and what is being written now.

    A reply holds at most 768 KiB; `nextCursor` is then the `before` of the next older page, `newerCursor` the `after` of the next
    newer one. With `cursor` it answers like sessions.history. A session that does not exist yet is empty.
    """
    if sum(place is not None for place in (params.before, params.after, params.around, params.cursor)) > 1:
        raise InvalidRequest("give at most one of before, after, around and cursor")
    session = await db.read(find_or_none, call.user, params.address)
    if session:
        answer = HistoryAnswer(sessionKey=session.key_for(call.user.pk), sessionId=str(session.generation_id))
    else:
        answer = HistoryAnswer(sessionKey=params.address.own_key(), sessionId=None)
    if params.cursor is not None:
        return {**answer, **await missed_events(call, session, Place(params.cursor, params.epoch), limit=params.limit)}
    answer["epoch"] = await db.read(epoch_of, session)
    if session is None:
        return {**answer, "messages": [], "cursor": 0, "nextCursor": None, "queued": [], "activeRun": None}
    wanted = partial(history, session, limit=params.limit, notices=params.notices)
    page = await db.read(wanted, before=params.before, after=params.after, around=params.around)
    await db.read(add_approvals, session, page.messages)
    messages = await with_html(page.messages) if params.html else page.messages
    answer["messages"] = cast("list[Message]", messages)
    answer["cursor"] = page.cursor
    answer["nextCursor"] = page.before
    if page.after is not None:
        answer["newerCursor"] = page.after
    answer["queued"] = cast("list[Queued]", page.queued)
    answer["activeRun"] = cast("ActiveRun", {**page.active, "cursor": page.cursor}) if page.active else None
    if session.thinking_level:
        answer["thinkingLevel"] = session.thinking_level
    if session.verbose_level:
        answer["verboseLevel"] = session.verbose_level
    return answer


class AbortParams(ToSession):
    run_id: IdempotencyKey | None = None
    withdraw: bool = Field(False, description="Only what waits in the queue; its message is as if it had never been said")


class AbortAnswer(TypedDict):
    ok: Literal[True]
    aborted: bool
    runIds: list[str]


@method("chat.abort", scope=Scope.WRITE)
async def chat_abort(call: Call, params: AbortParams) -> AbortAnswer:
    """Stop the runs of a session, or one of them. A run that a worker is busy with ends when the worker has let go of it."""
    return await _abort(call, params.address, params.run_id, Run.WITHDRAWN if params.withdraw else "rpc")


async def _abort(call: Call, address: Address, run_id: str | None, reason: str) -> AbortAnswer:
    session = await db.read(find_or_none, call.user, address)
    if session is None:
        return AbortAnswer(ok=True, aborted=False, runIds=[])
    if run_id is not None:
        state = await db.read(selectors.run_state, call.user, run_id)
        if state.session_id != str(session.id):
            raise InvalidRequest(f"run {run_id!r} belongs to another session")
    asked = await db.write(request_abort, user=call.user, session=session, run_id=run_id, reason=reason, key=str(session.id))
    return AbortAnswer(ok=True, aborted=bool(asked), runIds=[run.run_id for run in asked])


class InjectParams(ToSession):
    message: str = Field(min_length=1, max_length=1_000_000)
    label: str | None = Field(None, max_length=100)


class InjectAnswer(TypedDict):
    ok: Literal[True]
    messageId: str


@method("chat.inject", scope=Scope.WRITE, order=order_of_session)
async def chat_inject(call: Call, params: InjectParams) -> InjectAnswer:
    """Append an assistant message without asking a model. Everybody who follows the session sees it."""
    session = await found(call, params.address)
    entry: Any = await db.write(inject_message, call.user, session, params.message, params.label or "", key=str(session.id))
    return InjectAnswer(ok=True, messageId=entry.message_id)
