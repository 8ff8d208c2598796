"""`agent` starts a run and responds twice; `agent.wait` waits for a run."""

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.protocol.errors import ErrorWithPayload
from clawsite.gateway.protocol.params import AttachmentParams, Id, IdempotencyKey, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import AnswerWithFollowUp, Call, method
from clawsite.gateway.server.session_address import ToSession, check_session_unchanged, session_order_key
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from clawsite.routing.inbound import CommandRequested, Inbound, StopRequested, find_session_or_none, receive
from sessions_app.models import Run
from sessions_app.run_request import RunRequest
from sessions_app.runs import lanes
from sessions_app.runs.lifecycle import AcceptedRun
from sessions_app.runs.types import RunState
from sessions_app.sessions import selectors
from sessions_app.sessions.attachments import MAX_PER_MESSAGE
from sessions_app.sessions.run_waits import wait_for_run_end

NO_CHANNELS = "answers are not delivered to messaging channels; follow the session to get them"
INTERNAL_OPTION = "it is internal to OpenClaw's own gateway"
NO_MODE = "there are no run modes; choose the model and the thinking level"


class RunRequestParams(ToSession):
    """Parameters of both `agent` and `chat.send`."""

    refused: ClassVar[Mapping[str, str]] = {"deliver": NO_CHANNELS}

    message: str = Field(max_length=1_000_000)
    idempotency_key: IdempotencyKey
    thinking: str | None = Field(None, max_length=16)
    model: str | None = Field(None, max_length=200)
    attachments: list[AttachmentParams] = Field(default_factory=list, max_length=MAX_PER_MESSAGE)

    def inbound(
        self, call: Call, request: RunRequest, *, timeout: float | None, lane: str = lanes.MAIN, verbatim: bool = False
    ) -> Inbound:
        return Inbound(
            call.user,
            self.message,
            self.idempotency_key,
            self.address,
            request,
            lane=lane,
            timeout_seconds=timeout or None,
            files=[attachment.file() for attachment in self.attachments],
            verbatim=verbatim,
        )


class AgentParams(RunRequestParams):
    """`timeout` is in seconds. `history` is protocol 1's; it is ignored, because the session has its own.

    With `expectedExistingSessionId` no run is started if the session was reset or does not exist.
    """

    refused: ClassVar[Mapping[str, str]] = {
        **RunRequestParams.refused,
        **dict.fromkeys(
            ("to", "replyTo", "channel", "replyChannel", "accountId", "replyAccountId", "threadId", "bestEffortDeliver"),
            NO_CHANNELS,
        ),
        **dict.fromkeys(("groupId", "groupChannel", "groupSpace", "sourceReplyDeliveryMode", "disableMessageTool"), NO_CHANNELS),
        **dict.fromkeys(("promptMode", "modelRun", "bootstrapContextMode", "bootstrapContextRunKind"), NO_MODE),
        **dict.fromkeys(("internalRuntimeHandoffId", "internalExecutionIdentityRetry", "internalEvents"), INTERNAL_OPTION),
        **dict.fromkeys(("internalExecutionIdentityRecoveryAttempt", "execApprovalFollowupExpectedSessionId"), INTERNAL_OPTION),
        **dict.fromkeys(("acpTurnSource", "cleanupBundleMcpOnRunEnd", "inputProvenance", "voiceWakeTrigger"), INTERNAL_OPTION),
        **dict.fromkeys(("forceRestartSafeTools", "forceCodeModeTools", "swarmCollector", "swarmOutputSchema"), INTERNAL_OPTION),
        "suppressPromptPersistence": "a session stores all its messages",
        "sessionEffects": "every run is visible in its session",
        "label": "name the session with sessions.patch",
        "spawnedBy": "only agents can spawn sessions",
        "cwd": "an agent works in its workspace",
    }

    extra_system_prompt: str | None = Field(None, max_length=100_000)
    timeout: float | None = Field(None, ge=0, le=86_400)
    lane: Literal["main", "cron", "subagent"] | None = None
    provider: str | None = Field(None, max_length=100)
    expected_existing_session_id: Id | None = None
    history: list[Any] | None = None


class AgentAnswer(TypedDict):
    """First `accepted` (protocol 1: `pending`), then `ok` with the result (protocol 1: `complete`)."""

    runId: str
    status: Literal["accepted", "pending", "ok", "complete", "error"]
    sessionKey: NotRequired[str]
    acceptedAt: NotRequired[int]
    summary: NotRequired[str]
    result: NotRequired[dict[str, Any]]


@method("agent", scope=Scope.WRITE, limited=LimitedTokenRule.CARRIED, order=session_order_key)
async def agent(call: Call, params: AgentParams) -> AgentAnswer | AnswerWithFollowUp[AgentAnswer]:
    """Start a run. Responds twice with the same ID: accepted, then the result.

    The idempotency key becomes the run ID. The same key never starts a second run, in any process: it gets the responses of the
    first. The same key with a different body is a CONFLICT.
    """
    if params.provider and not params.model:
        raise InvalidRequest("provider requires model, for example provider openai and model gpt-5")
    if params.expected_existing_session_id:
        check_session_unchanged(await db.read(find_session_or_none, call.user, params.address), params.expected_existing_session_id)
    request = RunRequest(
        model=f"{params.provider}/{params.model}" if params.provider else params.model or "",
        thinking=params.thinking or "",
        extra_system_prompt=params.extra_system_prompt or "",
    )
    inbound = params.inbound(call, request, timeout=params.timeout, lane=params.lane or lanes.MAIN)
    try:
        accepted = await receive(inbound)
    except StopRequested:
        raise InvalidRequest("/stop only works in chat.send; use chat.abort") from None
    except CommandRequested as requested:
        raise InvalidRequest(f"/{requested.command.name} only works in chat.send; to send it as text, start with a space") from None
    if accepted.status in Run.ENDED:
        return build_final_answer(await db.read(selectors.read_run_state, call.user, accepted.run_id), call.connection.protocol)
    first = AgentAnswer(
        runId=accepted.run_id,
        status="pending" if call.connection.protocol == 1 else "accepted",
        sessionKey=accepted.session_key,
        acceptedAt=accepted.accepted_at_ms,
    )
    return AnswerWithFollowUp(first, lambda: _wait_for_final_answer(call, accepted))


async def _wait_for_final_answer(call: Call, accepted: AcceptedRun) -> AgentAnswer:
    state = await wait_for_run_end(call.runtime.hub.run_waits, call.user, accepted.run_id, accepted.pk)
    return build_final_answer(state, call.connection.protocol)


def build_final_answer(state: RunState, protocol: int) -> AgentAnswer:
    """Build the response for an ended run. Raise the error if it failed."""
    if state.status == Run.Status.FAILED or state.reason == "timeout":
        raise to_failure(state)
    aborted = state.status == Run.Status.ABORTED
    meta: dict[str, Any] = {"durationMs": (state.ended_ms or 0) - (state.started_ms or state.accepted_ms)}
    meta["agentMeta"] = {
        "sessionId": state.generation_id,
        "provider": state.model.partition("/")[0],
        "model": state.model.partition("/")[2] or state.model,
        "usage": state.usage,
    }
    if aborted:
        meta |= {"aborted": True, "stopReason": state.reason or "rpc"}
    payloads = [{"text": state.text}] if state.text else []
    return AgentAnswer(
        runId=state.run_id,
        status="complete" if protocol == 1 else "ok",
        sessionKey=state.session_key,
        summary="aborted" if aborted else "completed",
        result={"payloads": payloads, "meta": meta},
    )


def to_failure(state: RunState) -> ErrorWithPayload:
    message = state.error or "the run failed"
    code = "AGENT_TIMEOUT" if state.reason == "timeout" else "UNAVAILABLE"
    return ErrorWithPayload(code, message, {"runId": state.run_id, "status": "error", "summary": message})


class WaitParams(Params):
    run_id: IdempotencyKey
    timeout_ms: int = Field(30_000, ge=0, le=86_400_000)


class WaitAnswer(TypedDict):
    runId: str
    status: Literal["ok", "error", "timeout"]
    startedAt: NotRequired[int]
    endedAt: NotRequired[int]
    error: NotRequired[str]
    aborted: NotRequired[bool]
    stopReason: NotRequired[str]


@method("agent.wait", scope=Scope.WRITE, limited=LimitedTokenRule.HARMLESS)
async def agent_wait(call: Call, params: WaitParams) -> WaitAnswer:
    """Wait until a run has ended or the timeout is reached. A timeout does not stop the run."""
    state = await db.read(selectors.read_run_state, call.user, params.run_id)
    if not state.ended:
        try:
            async with asyncio.timeout(params.timeout_ms / 1000):
                state = await wait_for_run_end(call.runtime.hub.run_waits, call.user, params.run_id, state.pk)
        except TimeoutError:
            return WaitAnswer(runId=params.run_id, status="timeout")
    answer = WaitAnswer(runId=state.run_id, status="error" if state.status == Run.Status.FAILED else "ok")
    if state.started_ms is not None:
        answer["startedAt"] = state.started_ms
    if state.ended_ms is not None:
        answer["endedAt"] = state.ended_ms
    if state.status == Run.Status.FAILED:
        answer["error"] = state.error or "the run failed"
    if state.status == Run.Status.ABORTED:
        answer |= {"aborted": True, "stopReason": state.reason or "rpc"}
    return answer
