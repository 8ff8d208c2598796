"""Send messages to a session, stop its runs, and inject messages. `chat/history.py` reads them."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal, NotRequired

from django.utils.translation import gettext as _
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.methods.agent import INTERNAL_OPTION, NO_CHANNELS, NO_MODE, RunRequestParams, to_failure
from clawsite.gateway.methods.chat.slash_commands import run_slash_command, show_notice
from clawsite.gateway.protocol.params import Id, IdempotencyKey
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import AnswerWithFollowUp, Call, method
from clawsite.gateway.server.session_address import ToSession, find_session, session_order_key
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from clawsite.routing.inbound import CommandRequested, SessionAddress, StopRequested, find_session_or_none, receive
from sessions_app.models import Run
from sessions_app.run_request import Prompt, RunRequest
from sessions_app.runs.lifecycle import request_abort
from sessions_app.sessions import selectors
from sessions_app.sessions.service import inject_message


class SendParams(RunRequestParams):
    """With `suppressCommandInterpretation` a message that starts with a slash is sent as text."""

    refused: ClassVar[Mapping[str, str]] = {
        **RunRequestParams.refused,
        **dict.fromkeys(("originatingChannel", "originatingTo", "originatingAccountId", "originatingThreadId"), NO_CHANNELS),
        **dict.fromkeys(("systemInputProvenance", "systemProvenanceReceipt", "expectedSessionRoutingContract"), INTERNAL_OPTION),
        **dict.fromkeys(("fastMode", "fastAutoOnSeconds"), NO_MODE),
        **dict.fromkeys(("expectedPermissionMode", "expectedToolOverrides", "toolBindings"), "tools are only set by policy"),
        "expectedLeafEntryId": "a session has no branches",
        "replyToId": "a message can't reply to a particular message",
        "intent": "sessions have no goals",
    }

    timeout_ms: int | None = Field(None, ge=0, le=86_400_000)
    replaces: Id | None = None  # ID of a user's message; it is hidden along with all later messages
    queue_mode: Literal["followup"] | None = None  # messages sent during a run are always queued
    suppress_command_interpretation: bool = False


class SendAnswer(TypedDict):
    """`in_flight` and `ok` are for a repeated key: the run continues, or has ended. A command has a `notice` and no run."""

    runId: NotRequired[str]
    status: NotRequired[Literal["started", "in_flight", "ok"]]
    sessionKey: NotRequired[str]
    ok: NotRequired[bool]
    aborted: NotRequired[bool]
    runIds: NotRequired[list[str]]
    command: NotRequired[str]
    notice: NotRequired[str]


@method("chat.send", scope=Scope.WRITE, limited=LimitedTokenRule.CARRIED, order=session_order_key)
async def chat_send(call: Call, params: SendParams) -> SendAnswer | AnswerWithFollowUp[SendAnswer]:
    """Send a message; the answer arrives as `agent` and `chat` events. Commands (commands.list) are run instead.

    A command's output is in `notice`, and also in a `chat` event for clients that wait for one; it is not stored.

    `@model text` uses another model for this message only.

    With `replaces` the session continues from before that message: to edit it, or to retry it with the same text. This is a
    CONFLICT while the session has an unfinished run.
    """
    timeout = params.timeout_ms / 1000 if params.timeout_ms else None
    try:
        request = RunRequest(Prompt(params.replaces or ""), model=params.model or "", thinking=params.thinking or "")
        verbatim = params.suppress_command_interpretation
        accepted = await receive(params.inbound(call, request, timeout=timeout, verbatim=verbatim))
    except StopRequested:
        stopped = await abort_runs(call, params.address, None, "stop")
        return SendAnswer(ok=True, command="stop", aborted=stopped["aborted"], runIds=stopped["runIds"])
    except CommandRequested as requested:
        done = await run_slash_command(call, requested.command, params.address, params.idempotency_key)
        answer = SendAnswer(ok=True, command=requested.command.name, notice=done.notice, sessionKey=done.session_key)
        return AnswerWithFollowUp(answer, partial(show_notice, call, params.address, params.idempotency_key, done.notice))
    if accepted.status == Run.Status.FAILED:
        raise to_failure(await db.read(selectors.read_run_state, call.user, accepted.run_id))
    status: Literal["started", "in_flight", "ok"] = "started"
    if not accepted.created:
        status = "ok" if accepted.status in Run.ENDED else "in_flight"
    return SendAnswer(runId=accepted.run_id, status=status, sessionKey=accepted.session_key)


class AbortParams(ToSession):
    run_id: IdempotencyKey | None = None
    preserve_side_runs: bool | None = None  # ignored: sessions have no side runs
    withdraw: bool = Field(False, description="Only recall queued messages, as if they had never been sent")


class AbortAnswer(TypedDict):
    ok: Literal[True]
    aborted: bool
    runIds: list[str]


@method("chat.abort", scope=Scope.WRITE, limited=LimitedTokenRule.HARMLESS)
async def chat_abort(call: Call, params: AbortParams) -> AbortAnswer:
    """Stop the runs of a session, or one of them. An active run ends once its worker has stopped it."""
    return await abort_runs(call, params.address, params.run_id, Run.WITHDRAWN if params.withdraw else "rpc")


async def abort_runs(call: Call, address: SessionAddress, run_id: str | None, reason: str) -> AbortAnswer:
    session = await db.read(find_session_or_none, call.user, address)
    if session is None:
        return AbortAnswer(ok=True, aborted=False, runIds=[])
    if run_id is not None:
        state = await db.read(selectors.read_run_state, call.user, run_id)
        if state.session_id != str(session.id):
            raise InvalidRequest(_("This run belongs to another session: %(run)s") % {"run": run_id})
    aborted = await db.write(request_abort, user=call.user, session=session, run_id=run_id, reason=reason, key=str(session.id))
    return AbortAnswer(ok=True, aborted=bool(aborted), runIds=[run.run_id for run in aborted])


class InjectParams(ToSession):
    message: str = Field(min_length=1, max_length=1_000_000)
    label: str | None = Field(None, max_length=100)


class InjectAnswer(TypedDict):
    ok: Literal[True]
    messageId: str


@method("chat.inject", scope=Scope.WRITE, limited=LimitedTokenRule.REFUSED, order=session_order_key)
async def chat_inject(call: Call, params: InjectParams) -> InjectAnswer:
    """Append an assistant message without calling a model. All who follow the session see it."""
    session = await find_session(call, params.address)
    entry: Any = await db.write(inject_message, call.user, session, params.message, params.label or "", key=str(session.id))
    return InjectAnswer(ok=True, messageId=entry.message_id)
