"""Store what the loop yields. Each method is one transaction under the run's fence.

The functions at the end run on the writer thread and may be retried, so they change only the database.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from agents.deltas import OpenMessage
from agents.llm.catalog import ResolvedModel
from agents.llm.events import AttemptReset, Replied
from agents.llm.prices import calculate_cost_microusd
from clawsite.infra import clock, db
from clawsite.infra.clock import boot_time
from clawsite.infra.reasons import Reason
from sessions_app.events.journal import NewEntry, NewEvent
from sessions_app.models import Run, RunWait
from sessions_app.runs import lifecycle, outbox, queue, tool_calls, waiting
from sessions_app.runs.client_tools import HANDED_OVER
from sessions_app.runs.queue import ClaimedRun
from sessions_app.runs.waiting import Wait

Decisions = TypeVar("Decisions")


class RunStore:
    """Writes the steps of one run, and knows how long its lease holds."""

    def __init__(self, claimed: ClaimedRun, message: OpenMessage) -> None:
        self._claimed = claimed
        self._open = message
        self._key = str(claimed.session_id)
        self._may_act_until = 0.0

    async def write(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a function of the claimed run on the writer thread, in one transaction."""
        return await db.write(fn, self._claimed, *args, key=self._key, **kwargs)

    async def reset(self, message_id: str, attempt: int) -> None:
        data = {"messageId": message_id, "attempt": attempt, "reset": True}
        await self.write(queue.write_step, events=[NewEvent("assistant", data)])

    async def retry(self, event: AttemptReset) -> None:
        """Discard what a failed attempt has streamed and announce the retry."""
        void = {"messageId": event.message_id, "attempt": event.attempt, "reset": True}
        pause = {"phase": "retry", "kind": str(event.kind), "attempt": event.attempt, "delayMs": int(event.delay_s * 1000)}
        self._open.begin(event.message_id, event.attempt)
        await self.write(queue.write_step, events=[NewEvent("assistant", void), NewEvent("lifecycle", pause)])

    async def reply(self, event: Replied, model: ResolvedModel, decide: Callable[[ClaimedRun], Decisions]) -> Decisions | None:
        """Store an answer and decide its tool calls, or end the run if it has none, in one transaction."""
        streamed, thinking_ms = self._open.take_events(), self._open.thinking_ms
        self._open.begin("", 1)
        decisions: Decisions | None = await self.write(_store_reply, event, model, decide, streamed, thinking_ms)
        return decisions

    async def hand_over(self, call_ids: Sequence[str]) -> None:
        """End the run with calls that the client has to make."""
        last = lifecycle.build_end_event(
            Run.Status.COMPLETED, HANDED_OVER, startedAt=self._claimed.started_ms, toolCallIds=list(call_ids)
        )
        await self.write(queue.write_step, to=Run.Status.COMPLETED, reason=HANDED_OVER, events=[last])

    async def park(self, reason: str) -> None:
        await self.write(_park_run, reason)

    async def freeze(self, reason: str) -> None:
        """Freeze the run: discard a partly streamed answer, keep what is stored, leave calls that haven't started pending."""
        void = [*self._open.closing, *self._open.void()]
        self._open.begin("", 1)
        await self.write(_freeze_run, reason, void)

    async def end(self, to: Run.Status, reason: str, error: Reason | None) -> None:
        """End the run without another answer. Text already shown is stored as an unfinished answer."""
        text = "".join(self._open.text)
        streamed = [*self._open.closing, *self._open.take_events()]
        unfinished = (self._open.message_id, self._open.attempt, text) if text else None
        self._open.begin("", 1)
        await self.write(_end_run, to, reason, error, streamed, unfinished)

    def may_act(self) -> bool:
        """Whether the lease still holds. A commit proves it only at that moment; a worker paused since then must not act."""
        return boot_time() <= self._may_act_until

    def extend_lease(self, until: float) -> None:
        """Allow tool calls to start until this `clock.boot_time`."""
        self._may_act_until = until


def _store_reply(
    claimed: ClaimedRun,
    event: Replied,
    model: ResolvedModel,
    decide: Callable[[ClaimedRun], Decisions],
    streamed: Sequence[NewEvent],
    thinking_ms: int,
) -> Decisions | None:
    message, usage = event.message, event.usage
    cost = calculate_cost_microusd(model.display_name, usage)
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
        meta = {"provider": model.provider, "model": model.model, "usage": usage_data, **meta}
    entry = NewEntry("message", "assistant", content, message.text, event.message_id, meta)
    wire = {"role": "assistant", "content": content, "timestamp": clock.now_ms(), "messageId": event.message_id, **meta}
    final = NewEvent("assistant", {"messageId": event.message_id, "attempt": event.attempt, "final": True, "message": wire})
    written: dict[str, Any] = {
        "entries": [entry],
        "model": model.display_name if event.model else "",
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_microusd": cost or 0,
    }
    if message.tool_calls:
        queue.write_step(claimed, events=[*streamed, final], **written)
        return decide(claimed)
    last = lifecycle.build_end_event(Run.Status.COMPLETED, event.finish_reason, startedAt=claimed.started_ms, usage=meta["usage"])
    queue.write_step(claimed, to=Run.Status.COMPLETED, reason=event.finish_reason, events=[*streamed, final, last], **written)
    # A message from a channel is answered there, even if its session is not a chat of that channel.
    channel = claimed.request.origin.channel or claimed.channel
    outbox.enqueue(run_pk=claimed.pk, session_id=claimed.session_id, channel=channel, payloads=[{"text": message.text}])
    return None


def _park_run(claimed: ClaimedRun, reason: str) -> None:
    """Park the run until all its deferred calls have results or, if there are none, until one of its open requests is decided."""
    if stop_reason := lifecycle.find_stop_request(claimed.pk):  # nothing checks it once the run is parked
        _end_run(claimed, Run.Status.ABORTED, stop_reason, None, (), None)
        return
    deferred = [Wait(RunWait.Kind(call.kind), call.ref, call.until) for call in tool_calls.list_deferred(claimed.pk)]
    waiting.park(claimed, reason, deferred or waiting.list_open(claimed.pk))


def _freeze_run(claimed: ClaimedRun, reason: str, void: Sequence[NewEvent]) -> None:
    if stop_reason := lifecycle.find_stop_request(claimed.pk):  # a stop takes precedence over a freeze
        _end_run(claimed, Run.Status.ABORTED, stop_reason, None, void, None)
        return
    tool_calls.interrupt_frozen(claimed, reason)
    waiting.park_frozen(claimed, before=void)


def _end_run(
    claimed: ClaimedRun,
    to: Run.Status,
    reason: str,
    error: Reason | None,
    streamed: Sequence[NewEvent],
    unfinished: tuple[str, int, str] | None,
) -> None:
    tool_calls.close_started(claimed, reason)
    events, entries = list(streamed), []
    if unfinished:
        message_id, attempt, text = unfinished
        content = [{"type": "text", "text": text}]
        entries.append(NewEntry("message", "assistant", content, text, message_id, {"stopReason": reason}))
        wire = {"role": "assistant", "content": content, "timestamp": clock.now_ms(), "messageId": message_id, "stopReason": reason}
        events.append(NewEvent("assistant", {"messageId": message_id, "attempt": attempt, "final": True, "message": wire}))
    queue.end_run(claimed, to, reason, error, before=events, entries=entries)
