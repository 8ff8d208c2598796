"""A user's direct tool call, from the request to its outcome. Used by the socket and by HTTP."""

import asyncio
from typing import Annotated

from pydantic import Field

from clawsite.infra import db
from clawsite.routing.tool_invocation import ToolInvocation, invoke_tool
from sessions_app.runs.results import InvocationOutcome, read_invocation_outcome
from sessions_app.sessions.run_waits import RunWaiters, wait_for_run_end

TimeoutMs = Annotated[int, Field(ge=0, le=86_400_000)]  # milliseconds
DEFAULT_TIMEOUT_MS = 600_000


async def invoke_and_wait(invocation: ToolInvocation, waits: RunWaiters, timeout_ms: int) -> InvocationOutcome:
    """Queue the call and wait for its result. After the timeout the call continues; the same idempotency key returns its result."""
    accepted = await invoke_tool(invocation)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            state = await wait_for_run_end(waits, invocation.user, accepted.run_id, accepted.pk)
    except TimeoutError:
        return InvocationOutcome({}, "timeout", "the call is still running; send the same idempotencyKey again for its result")
    return await db.read(read_invocation_outcome, state)
