"""Compact a session's history, either during a run when it gets too long, or as a run that does only that.

The summary is an additional transcript entry, written under the run's fence. Nothing is deleted: the model's next history
starts with the summary, while people still see everything. A worker that dies before writing the entry only wastes a model
call. `agents.context.compaction.summarize` decides where to cut and how to summarize.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from agents.context import token_count
from agents.context.compaction import summarize
from agents.context.compaction.facts import CompactionFacts, collect_facts
from agents.context.compaction.summarize import HistoryItem, KeepLimits, Summary
from agents.context.history import History, format_summary
from agents.deltas import OpenMessage
from agents.instrumentation import ModelInstrumentation
from agents.llm.base import FailureKind, ProviderError, Usage
from agents.llm.events import Replied
from agents.llm.messages import Message, UserMessage
from agents.llm.prices import calculate_cost_microusd, find_context_window
from agents.llm.retry import ask_model
from agents.llm.summary_prompt import SUMMARY_SYSTEM_PROMPT
from agents.prepare.model_plan import ModelPlan, reload_history
from clawsite.infra import db
from sessions_app.events.journal import NewEntry, NewEvent, new_message_id
from sessions_app.models import Run
from sessions_app.run_request import Compaction
from sessions_app.runs import lifecycle, queue
from sessions_app.runs.compaction_requests import COMPACTED, NOTHING_TO_COMPACT
from sessions_app.runs.queue import ClaimedRun
from sessions_app.transcript.messages import INCLUDES_OTHERS_KEY, MAX_HISTORY_ENTRIES, SUMMARIZED_THROUGH_KEY

log = logging.getLogger(__name__)

DEFAULT_CONTEXT_WINDOW = 200_000  # tokens, for models whose context window is unknown
COMPACT_THRESHOLD = 0.7  # of the context; the estimate may be 20% too low, and the answer needs room too
MIN_SAVING = 0.2  # share that must be messages: a small context filled by instructions and tools gains nothing from a summary
# Compact before the oldest messages fall out of the history window.
MAX_MESSAGES, MAX_KEPT_MESSAGES = MAX_HISTORY_ENTRIES * 3 // 4, MAX_HISTORY_ENTRIES // 4
KEEP_SHARES = (0.3, 0.15, 0.05)  # of the context, for the first attempt and each retry
KEEP_TURNS = 2  # kept by a manual compaction


class CompactionTrigger(StrEnum):
    """The values match OpenClaw's checkpoints."""

    MANUAL = "manual"
    THRESHOLD = "auto-threshold"
    REFUSED = "overflow-retry"


class ContextAlmostFull(Exception):
    """The next model request might not fit in the context window."""


@dataclass(frozen=True, slots=True)
class _CompactionJob:
    """Summarize the first `cut` parts of the history."""

    plan: ModelPlan
    history: History
    cut: int
    why: CompactionTrigger
    window: int
    instructions: str = ""
    asks_model: bool = True

    @property
    def summarized(self) -> Sequence[HistoryItem]:
        return [part for part in self.history.parts[: self.cut] if not part.opens]

    @property
    def kept_verbatim(self) -> Sequence[HistoryItem]:
        return [part for number, part in enumerate(self.history.parts) if number >= self.cut or part.opens]

    @property
    def is_untrusted(self) -> bool:
        return self.history.summary_is_untrusted or any(part.is_untrusted for part in self.summarized)


class Compactor:
    """Compacts the history of one claimed run."""

    def __init__(self, claimed: ClaimedRun, message: OpenMessage, span: str) -> None:
        self._claimed, self._open, self._span = claimed, message, span
        self._attempts_in_a_row = 0  # since the last model answer
        self._fixed_tokens: tuple[ModelPlan, int] | None = None  # tokens of instructions and tools, counted once per plan

    def reset_attempts(self) -> None:
        self._attempts_in_a_row = 0

    def check(self, plan: ModelPlan, messages: Sequence[Message]) -> None:
        """Raise ContextAlmostFull when it is time to compact, but not right after a compaction: ask the model first."""
        if self._attempts_in_a_row or plan.run.invoked_call:
            return
        window, used = _context_window(plan), sum(map(token_count.count_message_tokens, messages))
        is_full = self._count_fixed_tokens(plan) + used > COMPACT_THRESHOLD * window and used > MIN_SAVING * window
        if is_full or len(messages) > MAX_MESSAGES:
            raise ContextAlmostFull

    async def make_room(self, plan: ModelPlan, full: ProviderError | ContextAlmostFull) -> ModelPlan:
        """Return the plan with a shorter history. Re-raise `full` if it is not about length or compacting did not help."""
        if isinstance(full, ProviderError) and full.kind is not FailureKind.CONTEXT_OVERFLOW:
            raise full
        number, self._attempts_in_a_row = self._attempts_in_a_row, self._attempts_in_a_row + 1
        job = await self._plan_job(
            plan, CompactionTrigger.REFUSED if isinstance(full, ProviderError) else CompactionTrigger.THRESHOLD, number
        )
        if job is None or not await self._compact(job, will_retry=True):
            if isinstance(full, ContextAlmostFull):
                return plan  # ask the model anyway: the request may still fit
            raise _still_too_long_error(full, number)
        return await reload_history(plan)

    async def run_compaction(self, plan: ModelPlan, requested: Compaction) -> None:
        """Carry out a run that only compacts. The summary and the end of the run are one commit."""
        history, window = plan.history, _context_window(plan)
        max_lines = requested.max_lines
        keep = KeepLimits(window, messages=max_lines) if max_lines else KeepLimits(int(window * KEEP_SHARES[0]), turns=KEEP_TURNS)
        cut = summarize.choose_cut(history.parts, keep)
        if cut:
            job = _CompactionJob(plan, history, cut, CompactionTrigger.MANUAL, window, requested.instructions, not max_lines)
            await self._compact(job, will_retry=False)
            return
        end = NewEvent("compaction", {"phase": "end", "willRetry": False, "completed": False, "reason": NOTHING_TO_COMPACT})
        await self._publish_step(
            events=[end, self._last_event(NOTHING_TO_COMPACT)], to=Run.Status.COMPLETED, reason=NOTHING_TO_COMPACT
        )

    async def _plan_job(self, plan: ModelPlan, why: CompactionTrigger, number: int) -> _CompactionJob | None:
        """Return None if nothing more can be cut or the attempts are used up."""
        if number >= len(KEEP_SHARES):
            return None
        history = (await reload_history(plan)).history
        around = self._count_fixed_tokens(plan)
        size = around + sum(map(token_count.count_message_tokens, history.messages))
        # A request that the provider rejected exceeds the context, whatever the catalog says.
        window = min(_context_window(plan), size) if why is CompactionTrigger.REFUSED else _context_window(plan)
        room = int(max(window - around, window // 10) * KEEP_SHARES[number])
        cut = summarize.choose_cut(history.parts, KeepLimits(room, messages=MAX_KEPT_MESSAGES))
        return _CompactionJob(plan, history, cut, why, window) if cut else None

    async def _compact(self, job: _CompactionJob, *, will_retry: bool) -> bool:
        """Summarize and store the summary. If the model fails, return False if the run can continue without it, else raise."""
        failed = {"phase": "end", "willRetry": False, "completed": False}
        before = self._count_fixed_tokens(job.plan) + sum(map(token_count.count_message_tokens, job.history.messages))
        start = {"phase": "start", "reason": str(job.why), "tokensBefore": before, "summarised": len(job.summarized)}
        void = self._open.void()
        self._open.begin("", 1)
        await self._publish_step(events=[*void, NewEvent("compaction", start)])
        self._open.closing = (NewEvent("compaction", {**failed, "reason": "stopped"}),)
        usages: list[Usage] = []
        try:
            summary = await self._summarize(job, usages)
        except ProviderError as error:
            self._open.closing = ()
            can_wait = job.why is CompactionTrigger.THRESHOLD
            end = NewEvent("compaction", {**failed, "willRetry": can_wait, "reason": str(error.kind)})
            await self._publish_step(events=[end])
            if not can_wait:
                raise
            log.warning("run %d could not summarize its history (%s); continuing with all of it", self._claimed.pk, error.kind)
            return False
        await self._store(job, summary, usages, before, will_retry=will_retry)
        self._open.closing = ()
        return True

    async def _summarize(self, job: _CompactionJob, usages: list[Usage]) -> Summary:
        messages = [part.message for part in job.summarized]
        before = _previous_summary(job.history)
        if not job.asks_model:
            return summarize.summarize_without_model(messages, before, "no model was used")

        async def ask(request: str) -> str:
            return await self._ask(job.plan, request, usages)

        return await summarize.summarize_messages(
            messages, before=before, instructions=job.instructions, ask=ask, window=job.window
        )

    async def _ask(self, plan: ModelPlan, prompt: str, usages: list[Usage]) -> str:
        # The caller's parameters, such as response format or length, apply to its own answer only.
        request = replace(
            plan.request, messages=(UserMessage(prompt),), system=SUMMARY_SYSTEM_PROMPT, tools=(), parameters={}, thinking=""
        )
        watch = ModelInstrumentation(plan.model, self._span)
        answer = ask_model(plan.provider, request, new_id=new_message_id, sleep=asyncio.sleep, watch=watch)
        async with aclosing(watch), aclosing(answer) as events:
            async for event in events:
                if isinstance(event, Replied):
                    usages.append(event.usage)
                    return event.message.text
        raise RuntimeError("the model's stream ended without an answer")

    async def _store(
        self, job: _CompactionJob, summary: Summary, usages: Sequence[Usage], before: int, *, will_retry: bool
    ) -> None:
        claimed, plan = self._claimed, job.plan
        earlier = CompactionFacts.from_meta(job.history.summary.meta if job.history.summary else {})
        facts = collect_facts((part.message for part in job.summarized), earlier)
        blocks = [{"type": "text", "text": text} for text in (summary.text, facts.as_text()) if text]
        text = "\n\n".join(block["text"] for block in blocks)
        after = (
            self._count_fixed_tokens(plan)
            + token_count.count_text_tokens(format_summary(text, holds_others=job.is_untrusted))
            + sum(token_count.count_message_tokens(part.message) for part in job.kept_verbatim)
        )
        numbers: dict[str, Any] = {
            "summarised": len(job.summarized),
            "kept": len(job.kept_verbatim),
            "tokensBefore": before,
            "tokensAfter": after,
        }
        numbers |= {"leftOut": summary.left_out} if summary.left_out else {}
        used = Usage(sum(usage.input_tokens for usage in usages), sum(usage.output_tokens for usage in usages))
        costs = [calculate_cost_microusd(plan.model.display_name, usage) or 0 for usage in usages]
        last = max(job.history.parts[: job.cut], key=lambda part: part.position)
        meta = {SUMMARIZED_THROUGH_KEY: last.id, "reason": str(job.why), **numbers, **facts.to_meta()}
        # The originals leave the history together with their envelopes, so their summary needs one too.
        meta |= {INCLUDES_OTHERS_KEY: True} if job.is_untrusted else {}
        if usages:
            meta |= {"provider": plan.model.provider, "model": plan.model.model}
            meta["usage"] = {"input": used.input_tokens, "output": used.output_tokens, "costMicroUsd": sum(costs)}
        message_id = new_message_id()
        end_data = {"phase": "end", "willRetry": will_retry, "completed": True, "reason": str(job.why), **numbers}
        end = NewEvent("compaction", {**end_data, "messageId": message_id, "text": text})
        ending: dict[str, Any] = {"events": [end]}
        if job.why is CompactionTrigger.MANUAL:
            ending = {"events": [end, self._last_event(COMPACTED)], "to": Run.Status.COMPLETED, "reason": COMPACTED}
        await self._publish_step(
            entries=[NewEntry("compaction", "", blocks, text, message_id, meta)],
            model=plan.model.display_name if usages else "",
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cost_microusd=sum(costs),
            **ending,
        )
        log.info("run %d summarized %d messages (%s, %d model calls)", claimed.pk, len(job.summarized), job.why, len(usages))

    async def _publish_step(self, **step: Any) -> None:
        await db.write(queue.write_step, self._claimed, key=str(self._claimed.session_id), **step)

    def _last_event(self, reason: str) -> NewEvent:
        return lifecycle.build_end_event(Run.Status.COMPLETED, reason, startedAt=self._claimed.started_ms)

    def _count_fixed_tokens(self, plan: ModelPlan) -> int:
        if self._fixed_tokens is None or self._fixed_tokens[0].request is not plan.request:
            self._fixed_tokens = (
                plan,
                token_count.count_text_tokens(plan.request.system) + token_count.count_tool_tokens(plan.request.tools),
            )
        return self._fixed_tokens[1]


def _context_window(plan: ModelPlan) -> int:
    return find_context_window(plan.model.display_name) or DEFAULT_CONTEXT_WINDOW


def _previous_summary(history: History) -> str:
    """Return the previous summary without the appended fact lists, which are stored separately."""
    if history.summary is None:
        return ""
    first = history.summary.content[0] if history.summary.content else {}
    return first["text"] if first.get("type") == "text" else history.summary.text


def _still_too_long_error(refused: ProviderError, times: int) -> ProviderError:
    if not times:
        return refused
    message = f"{refused.message} (the history was summarized {times} times and is still too long)"
    return ProviderError(refused.kind, message, status=refused.status)
