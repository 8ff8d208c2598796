"""The chat of one session: send, stop, put words in. It is read back by chat_history.py."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal, NotRequired

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
from sessions_app.runs.lifecycle import request_abort
from sessions_app.sessions import selectors
from sessions_app.sessions.service import inject_message


class SendParams(RunRequestParams):
    """With `suppressCommandInterpretation` the message is words only, also if it begins with a slash."""

    refused: ClassVar[Mapping[str, str]] = {
        **RunRequestParams.refused,
        **dict.fromkeys(("originatingChannel", "originatingTo", "originatingAccountId", "originatingThreadId"), NO_CHANNELS),
        **dict.fromkeys(("systemInputProvenance", "systemProvenanceReceipt", "expectedSessionRoutingContract"), INTERNAL_OPTION),
        **dict.fromkeys(("fastMode", "fastAutoOnSeconds"), NO_MODE),
        **dict.fromkeys(("expectedPermissionMode", "expectedToolOverrides", "toolBindings"), "tools are given by policy only"),
        "expectedLeafEntryId": "a conversation has no branches to choose from",
        "replyToId": "a message answers the conversation, not one message of it",
        "intent": "sessions have no goals",
    }

    timeout_ms: int | None = Field(None, ge=0, le=86_400_000)
    replaces: Id | None = None  # a message of a user, which is hidden with all that came after it
    queue_mode: Literal["followup"] | None = None  # what comes during a run waits for its turn
    suppress_command_interpretation: bool = False


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


@method("chat.send", scope=Scope.WRITE, limited=LimitedTokenRule.CARRIED, order=session_order_key)
async def chat_send(call: Call, params: SendParams) -> SendAnswer | AnswerWithFollowUp[SendAnswer]:
    """Send a message; the answer comes as `agent` and `chat` events. Commands (commands.list) are carried out instead.

    What a command has to say is in `notice`, and for clients that wait for a `chat` event also in one, which is in no history.

    `@model words` asks another model this once.

    With `replaces` the conversation goes on from before that message: to edit it, or with the same words to try again. That is
    a CONFLICT while the session has an unfinished run.
    """
    timeout = params.timeout_ms / 1000 if params.timeout_ms else None
    try:
        verbatim = params.suppress_command_interpretation
        accepted = await receive(params.inbound(call, timeout=timeout, verbatim=verbatim, replaces=params.replaces))
    except StopRequested:
        stopped = await abort_runs(call, params.address, None, "stop")
        return SendAnswer(ok=True, command="stop", aborted=stopped["aborted"], runIds=stopped["runIds"])
    except CommandRequested as asked:
        done = await run_slash_command(call, asked.command, params.address, params.idempotency_key)
        answer = SendAnswer(ok=True, command=asked.command.name, notice=done.notice, sessionKey=done.session_key)
        return AnswerWithFollowUp(answer, partial(show_notice, call, params.address, params.idempotency_key, done.notice))
    if accepted.status == Run.Status.FAILED:
        raise to_failure(await db.read(selectors.read_run_state, call.user, accepted.run_id))
    status: Literal["started", "in_flight", "ok"] = "started"
    if not accepted.created:
        status = "ok" if accepted.status in Run.ENDED else "in_flight"
    return SendAnswer(runId=accepted.run_id, status=status, sessionKey=accepted.session_key)


class AbortParams(ToSession):
    run_id: IdempotencyKey | None = None
    preserve_side_runs: bool | None = None  # a session has none
    withdraw: bool = Field(False, description="Only what waits in the queue; its message is as if it had never been said")


class AbortAnswer(TypedDict):
    ok: Literal[True]
    aborted: bool
    runIds: list[str]


@method("chat.abort", scope=Scope.WRITE, limited=LimitedTokenRule.HARMLESS)
async def chat_abort(call: Call, params: AbortParams) -> AbortAnswer:
    """Stop the runs of a session, or one of them. A run that a worker is busy with ends when the worker has let go of it."""
    return await abort_runs(call, params.address, params.run_id, Run.WITHDRAWN if params.withdraw else "rpc")


async def abort_runs(call: Call, address: SessionAddress, run_id: str | None, reason: str) -> AbortAnswer:
    session = await db.read(find_session_or_none, call.user, address)
    if session is None:
        return AbortAnswer(ok=True, aborted=False, runIds=[])
    if run_id is not None:
        state = await db.read(selectors.read_run_state, call.user, run_id)
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


@method("chat.inject", scope=Scope.WRITE, limited=LimitedTokenRule.REFUSED, order=session_order_key)
async def chat_inject(call: Call, params: InjectParams) -> InjectAnswer:
    """Append an assistant message without asking a model. Everybody who follows the session sees it."""
    session = await find_session(call, params.address)
    entry: Any = await db.write(inject_message, call.user, session, params.message, params.label or "", key=str(session.id))
    return InjectAnswer(ok=True, messageId=entry.message_id)
