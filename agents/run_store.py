"""Store what the loop yields. Each method is one transaction under the run's fence.

The functions at the end run on the writer thread and may be retried, so they change only the database.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from agents.deltas import OpenMessage
from agents.llm.events import AttemptReset, Replied
from agents.llm.messages import ToolCallRequest
from agents.llm.prices import calculate_cost_microusd
from agents.prepare.run_plan import RunPlan
from agents.tool_calls import images as tool_images
from agents.tool_calls.decide import ProposedCalls, decide_calls, decide_calls_again
from clawsite.infra import clock, db
from clawsite.infra.clock import boot_time
from sessions_app.events.journal import NewEntry, NewEvent
from sessions_app.models import Run
from sessions_app.runs import freezes, lifecycle, outbox, queue, tool_calls
from sessions_app.runs.client_tools import HANDED_OVER
from sessions_app.runs.queue import ClaimedRun, LeaseLost
from sessions_app.sessions.attachments import StoredFile
from tools_app.approvals import requests as approval_requests
from tools_app.authorize import Authorization, find_current_denial
from tools_app.core.definition import CallRef, Deferred, ImageBlock, ToolResult
from tools_app.core.supervision import SupervisedCall, Supervision
from tools_app.execute import CallNotStarted
from tools_app.policy_store.policies import current_rules
from tools_app.sources.offered import read_current_offer


class RunStore:
    """Writes the steps of one run. Implements the journal of tools_app.execute."""

    def __init__(self, claimed: ClaimedRun, message: OpenMessage) -> None:
        self._claimed = claimed
        self._open = message
        self._key = str(claimed.session_id)
        self.may_act_until = 0.0
        # Authorizations that are checked again when their call starts.
        self._supervised: dict[str, tuple[SupervisedCall, Supervision, RunPlan]] = {}

    async def _write(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await db.write(fn, self._claimed, *args, key=self._key, **kwargs)

    async def reset(self, message_id: str, attempt: int) -> None:
        data = {"messageId": message_id, "attempt": attempt, "reset": True}
        await self._write(queue.write_step, events=[NewEvent("assistant", data)])

    async def retry(self, event: AttemptReset) -> None:
        """Discard what a failed attempt has streamed and announce the retry."""
        void = {"messageId": event.message_id, "attempt": event.attempt, "reset": True}
        pause = {"phase": "retry", "kind": str(event.kind), "attempt": event.attempt, "delayMs": int(event.delay_s * 1000)}
        self._open.begin(event.message_id, event.attempt)
        await self._write(queue.write_step, events=[NewEvent("assistant", void), NewEvent("lifecycle", pause)])

    async def reply(self, event: Replied, turn: ProposedCalls, plan: RunPlan) -> dict[str, Authorization]:
        """Store an answer, authorize its tool calls, and end the run if it has none, all in one transaction."""
        streamed, thinking_ms = self._open.take_events(), self._open.thinking_ms
        self._open.begin("", 1)
        decided = await self._write(_store_reply, event, turn, plan, streamed, thinking_ms)
        return self._remember_supervised(decided, turn, plan)

    async def decide(self, turn: ProposedCalls, plan: RunPlan) -> dict[str, Authorization]:
        """Authorize calls left by an earlier worker again: policies or approvals may have changed since."""
        return self._remember_supervised(await self._write(decide_calls_again, turn, plan), turn, plan)

    def _remember_supervised(
        self, decided: dict[str, Authorization], turn: ProposedCalls, plan: RunPlan
    ) -> dict[str, Authorization]:
        for call_id, authorization in decided.items():
            supervised = turn.supervised.get(call_id)
            if authorization.supervision and supervised and supervised.planned:
                self._supervised[call_id] = (supervised, authorization.supervision, plan)
        return decided

    async def record_not_run(self, call: ToolCallRequest, result: ToolResult) -> None:
        """Store the result of a call that was allowed but, for some other reason, not run."""
        await self.started(CallRef(call.id, call.name, call.arguments))
        await self.ended(CallRef(call.id, call.name, call.arguments), result)

    async def hand_over(self, call_ids: Sequence[str]) -> None:
        """End the run with calls that the client has to make."""
        last = lifecycle.build_end_event(
            Run.Status.COMPLETED, HANDED_OVER, startedAt=self._claimed.started_ms, toolCallIds=list(call_ids)
        )
        await self._write(queue.write_step, to=Run.Status.COMPLETED, reason=HANDED_OVER, events=[last])

    async def park(self, reason: str) -> None:
        await self._write(_park_run, reason)

    async def freeze(self, reason: str) -> None:
        """Freeze the run: discard a partly streamed answer, keep what is stored, leave calls that haven't started pending."""
        void = [*self._open.closing, *self._open.void()]
        self._open.begin("", 1)
        await self._write(_freeze_run, reason, void)

    async def end(self, to: Run.Status, reason: str, error: str) -> None:
        """End the run without another answer. Text already shown is stored as an unfinished answer."""
        text = "".join(self._open.text)
        streamed = [*self._open.closing, *self._open.take_events()]
        unfinished = (self._open.message_id, self._open.attempt, text) if text else None
        self._open.begin("", 1)
        await self._write(_end_run, to, reason, error, streamed, unfinished)

    def may_act(self) -> bool:
        """Whether the lease still holds. A commit proves it only at that moment; a worker paused since then must not act."""
        return boot_time() <= self.may_act_until

    async def started(self, call: CallRef) -> None:
        if denial := await self._write(_start_call, call, self._supervised.get(call.id)):
            raise CallNotStarted(denial)
        if not self.may_act():
            raise LeaseLost(f"the lease of run {self._claimed.pk} may have expired before call {call.id} could start")

    async def updated(self, call: CallRef, partial: ToolResult) -> None:
        await self._write(queue.write_step, events=[tool_calls.build_update_event(call.id, call.name, partial.text)])

    async def deferred(self, call: CallRef, deferred: Deferred) -> None:
        until = clock.now() + dt.timedelta(seconds=deferred.deadline_s) if deferred.deadline_s is not None else None
        await self._write(tool_calls.record_deferral, call.id, deferred.kind, deferred.ref, until)

    async def ended(self, call: CallRef, result: ToolResult) -> None:
        """Store a result. Images are stored as attachments; rows and events only refer to them by ID."""
        images = [block for block in result.content if isinstance(block, ImageBlock)]
        stored = await db.read(tool_images.store_images, images) if images else []
        await self._write(_store_result, call, result, stored)


def _store_reply(
    claimed: ClaimedRun,
    event: Replied,
    turn: ProposedCalls,
    plan: RunPlan,
    streamed: Sequence[NewEvent],
    thinking_ms: int,
) -> dict[str, Authorization]:
    message, usage = event.message, event.usage
    cost = calculate_cost_microusd(plan.model.display_name, usage)
    content: list[dict[str, Any]] = []
    if message.thinking:
        content.append({"type": "thinking", "thinking": message.thinking, "durationMs": thinking_ms})
    if message.text:
        content.append({"type": "text", "text": message.text})
    for call in message.tool_calls:
        block = {"type": "toolCall", "id": call.id, "name": call.name, "arguments": call.arguments}
        content.append(block | ({"error": call.error} if call.error else {}))
    usage_data: dict[str, Any] = {"input": usage.input_tokens, "output": usage.output_tokens, "cacheRead": usage.cache_read}
    meta: dict[str, Any] = {"stopReason": event.finish_reason}
    if event.model:  # empty for a call invoked by a person
        usage_data |= {"cacheWrite": usage.cache_write, "costMicroUsd": cost}
        meta = {"provider": plan.model.provider, "model": plan.model.model, "usage": usage_data, **meta}
    entry = NewEntry("message", "assistant", content, message.text, event.message_id, meta)
    wire = {"role": "assistant", "content": content, "timestamp": clock.now_ms(), "messageId": event.message_id, **meta}
    final = NewEvent("assistant", {"messageId": event.message_id, "attempt": event.attempt, "final": True, "message": wire})
    written: dict[str, Any] = {
        "entries": [entry],
        "model": plan.model.display_name if event.model else "",
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_microusd": cost or 0,
    }
    if message.tool_calls:
        queue.write_step(claimed, events=[*streamed, final], **written)
        return decide_calls(claimed, turn, plan, why=message.text)
    last = lifecycle.build_end_event(Run.Status.COMPLETED, event.finish_reason, startedAt=claimed.started_ms, usage=meta["usage"])
    queue.write_step(claimed, to=Run.Status.COMPLETED, reason=event.finish_reason, events=[*streamed, final, last], **written)
    outbox.enqueue(run_pk=claimed.pk, session_id=claimed.session_id, channel=claimed.channel, payloads=[{"text": message.text}])
    return {}


def _start_call(claimed: ClaimedRun, call: CallRef, supervised: tuple[SupervisedCall, Supervision, RunPlan] | None) -> str:
    """Mark a call as started; if it must not run, return the reason. Checks a command's approval or grants again and uses them."""
    freezes.check_not_frozen(claimed.agent, claimed.pk)
    denial = "stopped: a stop of this run was requested. It did not run." if _find_stop_request(claimed) else ""
    if supervised and not denial:
        call_to_check, decided, plan = supervised
        now = read_current_offer(plan.toolset.query.tools)
        denial = find_current_denial(call, toolset=plan.toolset, rules=current_rules(), now=now)
        denial = denial or call_to_check.check_still_allowed(claimed, decided)
    tool_calls.mark_started(claimed, call.id, call.name, call.arguments)
    return denial


def _find_stop_request(claimed: ClaimedRun) -> str:
    """Return the reason of a stop request for this run, or an empty string if there is none."""
    stop_reason = Run.objects.filter(pk=claimed.pk, abort_requested_at__isnull=False).values_list("abort_reason", flat=True).first()
    return "" if stop_reason is None else stop_reason or "rpc"


def _park_run(claimed: ClaimedRun, reason: str) -> None:
    """Park the run for approval or deferred calls. A decision made a moment ago saw a running run, so check for decisions here."""
    if stop_reason := _find_stop_request(claimed):  # made while the run was active; nothing checks it once the run is parked
        _end_run(claimed, Run.Status.ABORTED, stop_reason, "", (), None)
        return
    queue.park_run(claimed, reason)
    if not tool_calls.list_deferred(claimed.pk) and not approval_requests.has_open_approval(claimed.pk):
        lifecycle.make_runs_ready([claimed.pk])


def _freeze_run(claimed: ClaimedRun, reason: str, void: Sequence[NewEvent]) -> None:
    if stop_reason := _find_stop_request(claimed):  # a stop takes precedence over a freeze
        _end_run(claimed, Run.Status.ABORTED, stop_reason, "", void, None)
        return
    tool_calls.interrupt_frozen(claimed, reason)
    queue.park_frozen_run(claimed, before=void)


def _store_result(claimed: ClaimedRun, call: CallRef, result: ToolResult, stored: Sequence[StoredFile | None]) -> None:
    data = result.to_json()
    if stored:
        data["content"] = tool_images.replace_images_with_ids(data["content"], stored, claimed.session_id, claimed.session_owner_id)
    tool_calls.record_result(claimed, call.id, call.name, data, text=result.text, is_error=result.is_error)


def _end_run(
    claimed: ClaimedRun,
    to: Run.Status,
    reason: str,
    error: str,
    streamed: Sequence[NewEvent],
    unfinished: tuple[str, int, str] | None,
) -> None:
    tool_calls.close_started(claimed, reason)
    undecided, entries = tool_calls.close_waiting(claimed.pk, reason)
    approval_requests.void_for_run(claimed.pk, f"the run ended ({reason})")
    events = [*streamed, *undecided]
    if unfinished:
        message_id, attempt, text = unfinished
        content = [{"type": "text", "text": text}]
        entries.append(NewEntry("message", "assistant", content, text, message_id, {"stopReason": reason}))
        wire = {"role": "assistant", "content": content, "timestamp": clock.now_ms(), "messageId": message_id, "stopReason": reason}
        events.append(NewEvent("assistant", {"messageId": message_id, "attempt": attempt, "final": True, "message": wire}))
    last = lifecycle.build_end_event(to, reason, error, startedAt=claimed.started_ms)
    queue.write_step(claimed, to=to, reason=reason, error=error, entries=entries, events=[*events, last])
