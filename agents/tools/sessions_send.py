"""The tool sessions_send: send a message to the agent of another session and wait a while for its answer."""

import asyncio
import contextlib
from typing import Any

from django.conf import settings
from pydantic import Field

from agents.tools import nested_runs, reachable_sessions
from agents.tools.results import errors_as_tool_failures, mark_untrusted
from clawsite.accounts.models import User
from clawsite.infra import bus, db
from clawsite.infra.observability import tracing
from sessions_app.events.announce import EventsCommitted, is_last_event
from sessions_app.models import Run, Session
from sessions_app.runs.lifecycle import AcceptedRun
from sessions_app.runs.types import RunState
from sessions_app.sessions import selectors
from tools_app.core.definition import CallContext, ToolArgs, ToolEnv, ToolFailed, ToolFunction, ToolResult, tool
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


@tool("sessions_send", group="sessions", args=SendArgs, timeout_s=MAX_WAIT_S + 30)
def make_sessions_send(env: ToolEnv) -> ToolFunction[SendArgs]:
    """Send a message to another session of the person you work for; its agent handles it and its answer is returned.
    `status` is ok with a `reply`; accepted if you didn't wait; timeout if there is no answer yet, which then goes to that
    session only; or error. Name the session by `session_key` or by `label`. A chain of messages can have at most 5 hops."""
    # While it waits, the run keeps its worker slot: parking it would cost more than one of 80 coroutines for 30 s. The wait is
    # bounded, and so are chains of waiting sessions: lane `nested` has 2 concurrent runs for the whole server.

    async def sessions_send(args: SendArgs, call: CallContext) -> ToolResult:
        sender, target = await db.read(_find_target, env, args)
        waits = args.timeout_seconds > 0
        with errors_as_tool_failures():
            accepted: AcceptedRun = await db.write(
                nested_runs.send_nested_message,
                env,
                call.call_id,
                sender,
                target,
                args.message,
                waits=waits,
                trace=tracing.current_traceparent(),
                alone=True,
            )
            answer = {"runId": accepted.run_id, "status": "accepted", "sessionKey": accepted.session_key}
            if not waits:
                return json_result(answer)
            state = await wait_for_nested_run(sender, accepted.run_id, accepted.pk, seconds=args.timeout_seconds, abort=call.abort)
        answer |= _describe_outcome(state, args.timeout_seconds)
        return mark_untrusted(json_result(answer, is_error=answer["status"] == "error"), UNTRUSTED_SOURCE)

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


def _describe_outcome(state: RunState, waited: float) -> dict[str, Any]:
    if not state.ended:
        doing = "is still queued" if state.status == Run.Status.ACCEPTED else "is still working"
        return {"status": "timeout", "note": f"after {waited:g} s the other agent {doing}; its answer will be in its session"}
    if state.status != Run.Status.COMPLETED:
        return {"status": "error", "error": state.error or f"the run there was stopped ({state.reason or 'aborted'})"}
    reply = {"status": "ok", "reply": state.text[:MAX_REPLY_LENGTH]}
    if len(state.text) > MAX_REPLY_LENGTH:
        reply["cut"] = f"the first {MAX_REPLY_LENGTH} of {len(state.text)} characters; `sessions_history` shows more"
    return reply


async def wait_for_nested_run(user: User, run_id: str, run_pk: int, *, seconds: float, abort: asyncio.Event) -> RunState:
    """Return the run's state once it has ended, the time is up or `abort` is set. Holds no lock while waiting."""
    ended = asyncio.Event()

    def on_events(message: EventsCommitted) -> None:
        if any(event["run"] == run_pk and is_last_event(event) for event in message.events):
            ended.set()

    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    unsubscribe = bus.subscribe(EventsCommitted, on_events)
    try:
        while True:
            ended.clear()  # before reading the state, so that an end after it is not missed
            state = await db.read(selectors.read_run_state, user, run_id)
            left = deadline - loop.time()
            if state.ended or left <= 0 or abort.is_set():
                return state
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, settings.POLL_SECONDS)):
                    await ended.wait()
    finally:
        unsubscribe()
