"""Compact a session: earlier messages are summarized for the model and stay visible to people."""

import asyncio
from functools import partial
from typing import Literal, NotRequired
from uuid import uuid4

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.methods.agent import to_failure
from clawsite.gateway.protocol.params import IdempotencyKey
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, method
from clawsite.gateway.server.session_address import ByKey, find_session
from clawsite.gateway.server.tool_invocation import DEFAULT_TIMEOUT_MS, TimeoutMs
from clawsite.infra import db
from sessions_app.models import Run
from sessions_app.runs.compaction_requests import MAX_INSTRUCTIONS_LENGTH, read_compaction_outcome, request_compaction
from sessions_app.sessions.run_waits import wait_for_run_end


class CompactParams(ByKey):
    """With `maxLines` no model is called: only that many of the newest messages stay, with a note that others were left out.

    After `timeoutMs` the compaction continues; the same idempotencyKey returns its result.
    """

    max_lines: int | None = Field(None, ge=1, le=100_000)
    instructions: str | None = Field(None, max_length=MAX_INSTRUCTIONS_LENGTH, description="What the summary should focus on")
    idempotency_key: IdempotencyKey | None = None
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS


class CompactAnswer(TypedDict):
    """`kept` messages stay verbatim. If not `compacted`, `reason` is nothing_to_compact, in_progress, or why it was stopped."""

    ok: Literal[True]
    key: str
    sessionId: str
    runId: str
    compacted: bool
    kept: NotRequired[int]
    reason: NotRequired[str]


@method("sessions.compact", scope=Scope.WRITE, limited=LimitedTokenRule.CARRIED)
async def compact(call: Call, params: CompactParams) -> CompactAnswer:
    """Summarize the earlier part of a session. It is queued after the session's current work; the response is sent when it ends.

    Nothing is removed: the transcript gets one more entry, and models get the summary and the messages after it. Only the
    session's owner can request it.
    """
    session = await find_session(call, params.address)
    run_id = params.idempotency_key or f"compact-{uuid4().hex}"
    request = partial(request_compaction, call.user, session, run_id=run_id)
    accepted = await db.write(request, words=params.instructions or "", max_lines=params.max_lines, key=str(session.id))
    answer = CompactAnswer(
        ok=True, key=session.key_for(call.user.pk), sessionId=str(session.generation_id), runId=run_id, compacted=False
    )
    try:
        async with asyncio.timeout(params.timeout_ms / 1000):
            state = await wait_for_run_end(call.runtime.hub.run_waits, call.user, run_id, accepted.pk)
    except TimeoutError:
        return {**answer, "reason": "in_progress"}
    if state.status == Run.Status.FAILED:
        raise to_failure(state)
    outcome = await db.read(read_compaction_outcome, state)
    if outcome.compacted:
        return {**answer, "compacted": True, "kept": outcome.kept or 0}
    return {**answer, "reason": outcome.reason}
