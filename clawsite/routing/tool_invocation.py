"""Direct tool calls by users and programs. They are queued as a run, so they are checked and recorded like the model's calls."""

from dataclasses import dataclass
from typing import Any

import orjson
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra.errors import InvalidRequest, NotFound
from clawsite.routing.inbound import Inbound, SessionAddress, receive
from sessions_app.run_request import Invocation, RunRequest
from sessions_app.runs.lifecycle import AcceptedRun
from tools_app.core.definition import TOOL_NAME

MAX_SHOWN_CHARACTERS = 300  # of the arguments in the message shown in the session
MAX_ARGUMENT_BYTES = 1_000_000  # same limit as a message


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """`run_id` is the caller's idempotency key: a retry never acts twice."""

    user: User
    tool: str
    args: dict[str, Any]
    run_id: str
    to: SessionAddress


async def invoke_tool(invocation: ToolInvocation) -> AcceptedRun:
    """Queue the call in its session, after the session's other runs."""
    if not TOOL_NAME.fullmatch(invocation.tool):  # the name enters the transcript, where providers would reject it
        raise NotFound(_("Tool not found: %(tool)s") % {"tool": invocation.tool})
    arguments = orjson.dumps(invocation.args).decode()
    if len(arguments) > MAX_ARGUMENT_BYTES:
        raise InvalidRequest(f"the arguments have {len(arguments)} bytes; the limit is {MAX_ARGUMENT_BYTES}")
    shown = arguments if len(arguments) <= MAX_SHOWN_CHARACTERS else f"{arguments[:MAX_SHOWN_CHARACTERS]}…"
    request = RunRequest(Invocation(invocation.tool, invocation.args))
    text = f"Run the tool `{invocation.tool}` with `{shown}`"
    return await receive(Inbound(invocation.user, text, invocation.run_id, invocation.to, request))
