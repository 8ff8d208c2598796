"""The tool message: the agent posts a message here or in another session of the person it works for.

A browser shows the message immediately. On other channels it also goes to the outbox, from which the connector delivers it.
Either way it is part of the transcript, so the agent of that session knows about it.
"""

import hashlib
from typing import Any, Literal

from django.db import transaction
from pydantic import Field

from agents.tools import reachable_sessions
from agents.tools.nested_runs import read_run_request
from agents.tools.results import errors_as_tool_failures
from clawsite.accounts.models import User
from clawsite.infra import db
from clawsite.infra.reasons import Reason
from sessions_app.models import Session
from sessions_app.run_request import reader_origin
from sessions_app.runs import outbox
from sessions_app.sessions.service import inject_message
from tools_app.core.definition import CallContext, ToolArgs, ToolEnv, ToolFailed, ToolFunction, ToolResult, ToolUnavailable, tool
from tools_app.core.results import json_result


class MessageArgs(ToolArgs):
    action: Literal["send"] = Field("send", description="What to do")
    target: str = Field("", description="Key or label of one of the person's sessions; leave empty for this one")
    message: str = Field(min_length=1, max_length=100_000, description="Text of the message, in Markdown")


@tool("message", group="messaging", args=MessageArgs)
def make_message(env: ToolEnv) -> ToolFunction[MessageArgs]:
    """Send a message to the person right away, in this session or another of their sessions. It doesn't start an agent there:
    to ask another agent, use `sessions_send`. Your final answer is delivered anyway: do not send it twice."""
    if env.run_pk is None:
        raise ToolUnavailable(Reason("tool.outside_run"))

    async def message(args: MessageArgs, call: CallContext) -> ToolResult:
        target = await db.read(_find_target, env, args.target)
        with errors_as_tool_failures():
            return json_result(await db.write(_post_message, env, call.call_id, target, args.message, key=str(target.pk)))

    return message


def _find_target(env: ToolEnv, name: str) -> Session:
    """Find the target: this session for any sender, because the agent posts here anyway; otherwise only the sender's own."""
    target = reachable_sessions.find_session_by_name(env, name) if name else Session.objects.get(pk=env.session_id)
    if str(target.pk) != env.session_id and target.owner_id != env.sender_id:
        raise ToolFailed("that session belongs to another user: only its owner and its agent can post there")
    return target


@transaction.atomic
def _post_message(env: ToolEnv, call_id: str, target: Session, message: str) -> dict[str, Any]:
    """Post once per call: the entry's ID is derived from the call ID."""
    here = Session.objects.get(pk=env.session_id)
    entry_id = hashlib.sha256(f"{env.run_pk}:{call_id}".encode()).hexdigest()[:16]
    # In another session the message would look like that agent's own, so label its origin.
    label = "" if target.pk == here.pk else f"Message from agent {env.agent} in session {here.key_for(target.owner_id)}"
    origin = reader_origin(read_run_request(env.run_pk), here.key)  # later runs without this run's limits read the message too
    inject_message(User.objects.get(pk=target.owner_id), target, message, label, message_id=entry_id, origin=origin)
    outbox.enqueue(
        run_pk=env.run_pk or 0, session_id=target.pk, channel=target.channel, payloads=[{"text": message}], call_id=call_id
    )
    live = target.channel in outbox.LIVE_CHANNELS
    return {
        "status": "sent",
        "sessionKey": target.key_for(env.sender_id),
        "channel": target.channel,
        "delivery": "posted in the session" if live else f"queued for delivery by {target.channel}",
        "messageId": entry_id,
    }
