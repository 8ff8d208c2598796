"""A person's own tool call: queued as a run like a message, so that it is judged, recorded, parked and resumed like the model's."""

from dataclasses import dataclass
from typing import Any

import orjson

from clawsite.accounts.models import User
from clawsite.infra.errors import InvalidRequest, NotFound
from clawsite.routing.inbound import Inbound, SessionAddress, receive
from sessions_app.runs.lifecycle import AcceptedRun
from tools_app.core.definition import TOOL_NAME

MAX_SHOWN_CHARACTERS = 300  # characters of the arguments in the words that stand in the conversation
MAX_ARGUMENT_BYTES = 1_000_000  # bytes of arguments, as many as a message may have


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """`run_id` is the caller's idempotency key: the same again never acts a second time."""

    user: User
    tool: str
    args: dict[str, Any]
    run_id: str
    to: SessionAddress


async def invoke_tool(wish: ToolInvocation) -> AcceptedRun:
    """Queue the call in its session, behind whatever that session is doing."""
    if not TOOL_NAME.fullmatch(wish.tool):  # it would stand in the conversation, where providers refuse such a name
        raise NotFound(f"there is no tool {wish.tool!r}")
    told = orjson.dumps(wish.args).decode()
    if len(told) > MAX_ARGUMENT_BYTES:
        raise InvalidRequest(f"the arguments have {len(told)} bytes; at most {MAX_ARGUMENT_BYTES} are taken")
    shown = told if len(told) <= MAX_SHOWN_CHARACTERS else f"{told[:MAX_SHOWN_CHARACTERS]}…"
    options = {"invoke": {"name": wish.tool, "args": wish.args}}
    text = f"Run the tool `{wish.tool}` with `{shown}`"
    return await receive(Inbound(wish.user, text, wish.run_id, wish.to, options))
