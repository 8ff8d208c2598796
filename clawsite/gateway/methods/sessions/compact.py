"""Making room in a session: what was said earlier is summarised for the model, and stays for people."""

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
    """With `maxLines` no model is asked: at most so many of the newest messages stay, and the model is told what is missing.

    When `timeoutMs` is over it goes on, and the same idempotencyKey finds it again.
    """

    max_lines: int | None = Field(None, ge=1, le=100_000)
    instructions: str | None = Field(None, max_length=MAX_INSTRUCTIONS_LENGTH, description="What to keep in mind above all")
    idempotency_key: IdempotencyKey | None = None
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS


class CompactAnswer(TypedDict):
    """`kept` messages stay word for word. Not `compacted`: `reason` is nothing_to_compact, in_progress, or why it was stopped."""

    ok: Literal[True]
    key: str
    sessionId: str
    runId: str
    compacted: bool
    kept: NotRequired[int]
    reason: NotRequired[str]


@method("sessions.compact", scope=Scope.WRITE, limited=LimitedTokenRule.CARRIED)
async def compact(call: Call, params: CompactParams) -> CompactAnswer:
    """Summarise the earlier part of a session, in its turn behind what the session is doing. Answers when that has ended.

    Nothing is removed: the transcript has one entry more, a model is given the summary and what came after it. Only the session's
    owner may ask for it.
    """
    session = await find_session(call, params.address)
    run_id = params.idempotency_key or f"compact-{uuid4().hex}"
    ask = partial(request_compaction, call.user, session, run_id=run_id)
    accepted = await db.write(ask, words=params.instructions or "", max_lines=params.max_lines, key=str(session.id))
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
