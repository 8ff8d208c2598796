"""A person's own tool call, from the wish to its outcome. For the socket and for HTTP."""

import asyncio
from typing import Annotated

from pydantic import Field

from clawsite.infra import db
from clawsite.routing.tool_invocation import ToolInvocation, invoke_tool
from sessions_app.runs.invocation_outcome import InvocationOutcome, read_invocation_outcome
from sessions_app.sessions.run_waits import RunWaiters, wait_for_run_end

TimeoutMs = Annotated[int, Field(ge=0, le=86_400_000)]  # milliseconds
DEFAULT_TIMEOUT_MS = 600_000


async def invoke_and_wait(wish: ToolInvocation, waits: RunWaiters, patience_ms: int) -> InvocationOutcome:
    """Queue the call and wait until it has ended. When the patience is over it goes on, and the same key finds it again."""
    accepted = await invoke_tool(wish)
    try:
        async with asyncio.timeout(patience_ms / 1000):
            state = await wait_for_run_end(waits, wish.user, accepted.run_id, accepted.pk)
    except TimeoutError:
        return InvocationOutcome(
            {}, "timeout", "the call has not ended yet and goes on; send the same idempotencyKey again for its result"
        )
    return await db.read(read_invocation_outcome, state)
