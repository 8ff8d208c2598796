"""The tool sessions_send: send a message to the agent of another session; the run parks until the answer or a deadline."""

from typing import Any

from pydantic import Field

from agents.tools import nested_runs, reachable_sessions
from agents.tools.results import errors_as_tool_failures, mark_untrusted
from clawsite.accounts.models import User
from clawsite.infra import db
from clawsite.infra.observability import tracing
from sessions_app.models import Run, RunWait, Session
from sessions_app.runs.lifecycle import AcceptedRun
from sessions_app.runs.types import RunState
from sessions_app.sessions import selectors
from tools_app.core.definition import (
    CallContext,
    Deferred,
    DeferredCall,
    ToolArgs,
    ToolEnv,
    ToolFailed,
    ToolFunction,
    ToolResult,
    tool,
)
from tools_app.core.results import json_result

MAX_WAIT_S = 300
MAX_REPLY_LENGTH = 8_000  # about half of a result, even if each character needs six bytes
UNTRUSTED_SOURCE = "the agent of another session"


class SendArgs(ToolArgs):
    session_key: str = Field("", description="Key of the session, as returned by `sessions_list`")
    label: str = Field("", description="Label of the session, instead of its key")
    agent_id: str = Field("", description="With a label: ID of the session's agent")
    message: str = Field(
        min_length=1, max_length=100_000, description="Text of the message; the other agent knows nothing about this session"
    )
    timeout_seconds: float = Field(
        30, ge=0, le=MAX_WAIT_S, description="How long to wait for the answer; 0 to send without waiting"
    )


async def read_answer(env: ToolEnv, call: DeferredCall) -> ToolResult | None:
    """Build the call's result from the other run: its answer, or how far it is when the time is up."""
    with errors_as_tool_failures():
        state = await db.read(_read_nested_run, env, call.call.id)
    if not (state.ended or call.overdue):
        return None
    answer = {"runId": state.run_id, "sessionKey": state.session_key, **_describe_outcome(state)}
    return mark_untrusted(json_result(answer, is_error=answer["status"] == "error"), UNTRUSTED_SOURCE)


@tool("sessions_send", group="sessions", args=SendArgs, resume=read_answer)
def make_sessions_send(env: ToolEnv) -> ToolFunction[SendArgs]:
    """Send a message to another session of the person you work for; its agent handles it and its answer is returned.
    `status` is ok with a `reply`; accepted if you didn't wait; timeout if there is no answer yet, which then goes to that
    session only; or error. Name the session by `session_key` or by `label`. A chain of messages can have at most 5 hops."""

    async def sessions_send(args: SendArgs, call: CallContext) -> ToolResult | Deferred:
        sender, target = await db.read(_find_target, env, args)
        with errors_as_tool_failures():
            accepted: AcceptedRun = await db.write(
                nested_runs.send_nested_message,
                env,
                call.call_id,
                sender,
                target,
                args.message,
                wait_seconds=args.timeout_seconds,
                trace=tracing.current_traceparent(),
                alone=True,
            )
        if args.timeout_seconds:
            return Deferred(RunWait.Kind.CHILD, str(accepted.pk), args.timeout_seconds)
        return json_result({"runId": accepted.run_id, "status": "accepted", "sessionKey": accepted.session_key})

    return sessions_send


def _find_target(env: ToolEnv, args: SendArgs) -> tuple[User, Session]:
    if bool(args.session_key) == bool(args.label):
        raise ToolFailed("name the session either by `session_key` or by `label`; `sessions_list` shows both")
    by_key = bool(args.session_key)
    target = (
        reachable_sessions.find_session_by_key(env, args.session_key)
        if by_key
        else reachable_sessions.find_session_by_label(env, args.label, args.agent_id)
    )
    if str(target.pk) == env.session_id:
        raise ToolFailed("that is this session: your answer appears here anyway")
    return reachable_sessions.find_sender(env), target


def _read_nested_run(env: ToolEnv, call_id: str) -> RunState:
    return selectors.read_run_state(reachable_sessions.find_sender(env), nested_runs.nested_run_id(env, call_id))


def _describe_outcome(state: RunState) -> dict[str, Any]:
    if not state.ended:
        doing = "is still queued" if state.status == Run.Status.ACCEPTED else "is still working"
        return {"status": "timeout", "note": f"the time is up and the other agent {doing}; its answer will be in its session"}
    if state.status != Run.Status.COMPLETED:
        return {"status": "error", "error": state.error or f"the run there was stopped ({state.reason or 'aborted'})"}
    reply = {"status": "ok", "reply": state.text[:MAX_REPLY_LENGTH]}
    if len(state.text) > MAX_REPLY_LENGTH:
        reply["cut"] = f"the first {MAX_REPLY_LENGTH} of {len(state.text)} characters; `sessions_history` shows more"
    return reply
