"""A person's own tool call, from the wish to its outcome. For the socket and for HTTP."""

import asyncio
from typing import Annotated

from pydantic import Field

from clawsite.gateway.delivery.run_waits import RunWaits, end_of_run
from clawsite.infra import db
from clawsite.routing.tool_invocation import Invocation, invoke
from sessions_app.runs.invocation_outcome import Outcome, outcome_of

Patience = Annotated[int, Field(ge=0, le=86_400_000)]  # milliseconds
USUAL_PATIENCE = 600_000


async def carry_out(wish: Invocation, waits: RunWaits, patience_ms: int) -> Outcome:
    """Queue the call and wait until it has ended. When the patience is over it goes on, and the same key finds it again."""
    accepted = await invoke(wish)
    try:
        async with asyncio.timeout(patience_ms / 1000):
            state = await end_of_run(waits, wish.user, accepted.run_id, accepted.pk)
    except TimeoutError:
        return Outcome({}, "timeout", "the call has not ended yet and goes on; send the same idempotencyKey again for its result")
    return await db.read(outcome_of, state)
