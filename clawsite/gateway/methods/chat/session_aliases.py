"""OpenClaw's newer names for the methods of one session: describe, get, send and abort. They work like `chat.*`."""

from typing import Literal, cast
from uuid import uuid4

from pydantic import AliasChoices, Field
from typing_extensions import TypedDict

from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.methods.chat.history import HistoryParams, chat_history
from clawsite.gateway.methods.chat.send import SendAnswer, SendParams, abort_runs, chat_send
from clawsite.gateway.methods.sessions.lifecycle import to_answer
from clawsite.gateway.protocol.events.sessions import Message
from clawsite.gateway.protocol.params import AttachmentParams, Id, IdempotencyKey, Key, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.protocol.sessions import SessionRow
from clawsite.gateway.server.registry import AnswerWithFollowUp, Call, method
from clawsite.gateway.server.session_address import ByKey, find_session
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from clawsite.routing.inbound import SessionAddress, find_session_or_none
from sessions_app.sessions import selectors
from sessions_app.sessions.attachments import MAX_PER_MESSAGE


class DescribeParams(ByKey):
    include_derived_titles: bool = True  # ignored: always included
    include_last_message: bool = False


class DescribeAnswer(TypedDict):
    session: SessionRow | None


@method("sessions.describe", scope=Scope.READ)
async def describe(call: Call, params: DescribeParams) -> DescribeAnswer:
    """Return a session as in sessions.list; null if it does not exist."""
    session = await db.read(find_session_or_none, call.user, params.address)
    if session is None:
        return DescribeAnswer(session=None)
    row = (await to_answer(call, session))["entry"]
    if params.include_last_message:
        last = await db.read(selectors.read_last_texts, [session])
        if session.pk in last:
            row["lastMessagePreview"] = last[session.pk]
    return DescribeAnswer(session=row)


class GetParams(ByKey):
    key: Key | None = Field(None, validation_alias=AliasChoices("key", "sessionKey"))
    limit: int = Field(200, ge=1, le=1000)


class GetAnswer(TypedDict):
    messages: list[Message]


@method("sessions.get", scope=Scope.READ)
async def get(call: Call, params: GetParams) -> GetAnswer:
    """Return a session's newest messages, oldest first; chat.history returns more. A session that does not exist is empty."""
    address = {"sessionKey": params.key, "sessionId": params.session_id, "agentId": params.agent_id}
    page = await chat_history(call, HistoryParams.model_validate({**address, "limit": params.limit}))
    return GetAnswer(messages=cast("list[Message]", page["messages"]))


class SendToParams(ByKey):
    """Without `idempotencyKey` a repeated request is another message."""

    message: str = Field(max_length=1_000_000)
    thinking: str | None = Field(None, max_length=16)
    attachments: list[AttachmentParams] = Field(default_factory=list, max_length=MAX_PER_MESSAGE)
    timeout_ms: int | None = Field(None, ge=0, le=86_400_000)
    idempotency_key: IdempotencyKey | None = None


def _order_key(params: dict[str, object]) -> str:
    return str(params.get("key") or params.get("sessionId") or "")


@method("sessions.send", scope=Scope.WRITE, limited=LimitedTokenRule.CARRIED, order=_order_key)
async def send(call: Call, params: SendToParams) -> SendAnswer | AnswerWithFollowUp[SendAnswer]:
    """Send a message to an existing session, like chat.send."""
    session = await find_session(call, params.address)
    options = {"message": params.message, "thinking": params.thinking, "timeout_ms": params.timeout_ms}
    key = params.idempotency_key or uuid4().hex
    send_params = SendParams(session_id=str(session.id), idempotency_key=key, attachments=params.attachments, **options)  # type: ignore[arg-type]
    answer: SendAnswer | AnswerWithFollowUp[SendAnswer] = await chat_send(call, send_params)
    return answer


class AbortParams(Params):
    """A session, a run, or both. Without `runId`, queued messages are also stopped."""

    key: Key | None = None
    session_id: Id | None = None
    agent_id: Id | None = None
    run_id: IdempotencyKey | None = None
    clear_queued: Literal[True] | None = None  # ignored: always the case


class AbortAnswer(TypedDict):
    ok: Literal[True]
    abortedRunId: str | None
    runIds: list[str]
    status: Literal["aborted", "no-active-run"]


@method("sessions.abort", scope=Scope.WRITE, limited=LimitedTokenRule.HARMLESS)
async def abort_session(call: Call, params: AbortParams) -> AbortAnswer:
    """Stop the runs of a session, or one run, like chat.abort."""
    if params.key or params.session_id:
        address = ByKey(key=params.key, session_id=params.session_id, agent_id=params.agent_id).address
    elif params.run_id:
        state = await db.read(selectors.read_run_state, call.user, params.run_id)
        address = SessionAddress(session_id=state.session_id)
    else:
        raise InvalidRequest("set key for a session, or runId for a run")
    stopped = await abort_runs(call, address, params.run_id, "rpc")
    runs = stopped["runIds"]
    status: Literal["aborted", "no-active-run"] = "aborted" if stopped["aborted"] else "no-active-run"
    return AbortAnswer(ok=True, abortedRunId=runs[0] if runs else None, runIds=runs, status=status)
