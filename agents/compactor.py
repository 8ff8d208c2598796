"""A run makes room in its conversation: by itself when it has grown too long, or because it was asked to and does nothing else.

The summary is one entry more in the transcript, written under the run's fence. Nothing is removed: the model's next history
begins with the summary, people see everything. Who dies before that entry is written has lost a model call and no more. Where to
cut and how to summarise is agents.context.compaction.summarize's.
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
from agents.context.history import History, format_summary, load_history
from agents.deltas import OpenMessage
from agents.instrumentation import ModelInstrumentation
from agents.llm.base import FailureKind, ProviderError, Usage
from agents.llm.events import Replied
from agents.llm.messages import Message, UserMessage
from agents.llm.prices import calculate_cost_microusd, find_context_window, takes_images
from agents.llm.retry import ask_model
from agents.llm.summary_prompt import SUMMARY_SYSTEM_PROMPT
from agents.prepare.run_plan import RunPlan
from clawsite.infra import db
from sessions_app.events.journal import NewEntry, NewEvent, new_message_id
from sessions_app.models import Run
from sessions_app.origin import reader_origin
from sessions_app.runs import lifecycle, queue
from sessions_app.runs.compaction_requests import COMPACTED, NOTHING_TO_COMPACT
from sessions_app.runs.queue import ClaimedRun
from sessions_app.transcript.messages import INCLUDES_OTHERS_KEY, MAX_HISTORY_ENTRIES, SUMMARIZED_THROUGH_KEY, read_model_history

log = logging.getLogger(__name__)

DEFAULT_CONTEXT_WINDOW = 200_000  # tokens of a model that nobody knows the context of
COMPACT_THRESHOLD = 0.7  # of the context, by an estimate that may be a fifth too low; the answer needs room as well
MIN_SAVING = 0.2  # so much of it must be conversation: a small context that instructions and tools fill gains nothing by a summary
MAX_MESSAGES, MAX_KEPT_MESSAGES = MAX_HISTORY_ENTRIES * 3 // 4, MAX_HISTORY_ENTRIES // 4  # before the oldest fall out of the window
KEEP_SHARES = (0.3, 0.15, 0.05)  # of the context, for the first time and for each time that it was still too long
KEEP_TURNS = 2  # of a conversation that somebody wants summarised


class CompactionTrigger(StrEnum):
    """In the words of OpenClaw's checkpoints."""

    MANUAL = "manual"
    THRESHOLD = "auto-threshold"
    REFUSED = "overflow-retry"


class ContextAlmostFull(Exception):
    """The next question would hardly fit any more."""


@dataclass(frozen=True, slots=True)
class _CompactionJob:
    """What is to be summarised: the first `cut` parts of the past."""

    plan: RunPlan
    past: History
    cut: int
    why: CompactionTrigger
    window: int
    wish: str = ""
    asks_model: bool = True

    @property
    def gone(self) -> Sequence[HistoryItem]:
        return [part for part in self.past.parts[: self.cut] if not part.opens]

    @property
    def kept(self) -> Sequence[HistoryItem]:
        return [part for number, part in enumerate(self.past.parts) if number >= self.cut or part.opens]

    @property
    def is_untrusted(self) -> bool:
        return self.past.summary_is_untrusted or any(part.is_untrusted for part in self.gone)


class Compactor:
    """Makes room for one claimed run."""

    def __init__(self, claimed: ClaimedRun, message: OpenMessage, span: str) -> None:
        self._claimed, self._open, self._span = claimed, message, span
        self._attempts_in_a_row = 0  # since the last answer
        self._fixed_tokens: tuple[RunPlan, int] | None = None  # tokens of instructions and tools, counted once for each plan

    def answered(self) -> None:
        self._attempts_in_a_row = 0

    def check(self, plan: RunPlan, messages: Sequence[Message]) -> None:
        """AlmostFull when it is time to make room. Not twice in a row: what the model says then counts for more."""
        if self._attempts_in_a_row or plan.invoked_call:
            return
        window, said = _context_window(plan), sum(map(token_count.count_message_tokens, messages))
        is_full = self._count_fixed_tokens(plan) + said > COMPACT_THRESHOLD * window and said > MIN_SAVING * window
        if is_full or len(messages) > MAX_MESSAGES:
            raise ContextAlmostFull

    async def make_room(self, plan: RunPlan, full: ProviderError | ContextAlmostFull) -> RunPlan:
        """The plan with a shorter past. Raises what it was given when that is no matter of length, or cannot be helped."""
        if isinstance(full, ProviderError) and full.kind is not FailureKind.CONTEXT_OVERFLOW:
            raise full
        number, self._attempts_in_a_row = self._attempts_in_a_row, self._attempts_in_a_row + 1
        job = await self._plan_job(
            plan, CompactionTrigger.REFUSED if isinstance(full, ProviderError) else CompactionTrigger.THRESHOLD, number
        )
        if job is None or not await self._compact(job, will_retry=True):
            if isinstance(full, ContextAlmostFull):
                return plan  # it is asked all the same: perhaps there is room after all
            raise _still_too_long_error(full, number)
        return replace(plan, past=await self._read_history(plan))

    async def run_compaction(self, plan: RunPlan, wish: dict[str, Any]) -> None:
        """The whole of a run that was asked for nothing else: it ends with the summary, in one commit."""
        past, window = plan.past, _context_window(plan)
        most = wish.get("maxLines")
        keep = KeepLimits(window, messages=most) if most else KeepLimits(int(window * KEEP_SHARES[0]), turns=KEEP_TURNS)
        cut = summarize.choose_cut(past.parts, keep)
        if cut:
            await self._compact(
                _CompactionJob(plan, past, cut, CompactionTrigger.MANUAL, window, wish.get("words", ""), not most), will_retry=False
            )
            return
        end = NewEvent("compaction", {"phase": "end", "willRetry": False, "completed": False, "reason": NOTHING_TO_COMPACT})
        await self._publish_step(
            events=[end, self._last_event(NOTHING_TO_COMPACT)], to=Run.Status.COMPLETED, reason=NOTHING_TO_COMPACT
        )

    async def _plan_job(self, plan: RunPlan, why: CompactionTrigger, number: int) -> _CompactionJob | None:
        """None: nothing can be cut off any more, or it was tried often enough."""
        if number >= len(KEEP_SHARES):
            return None
        past = await self._read_history(plan)
        around = self._count_fixed_tokens(plan)
        size = around + sum(map(token_count.count_message_tokens, past.messages))
        # One that was refused is longer than the context, whatever is known about that.
        window = min(_context_window(plan), size) if why is CompactionTrigger.REFUSED else _context_window(plan)
        room = int(max(window - around, window // 10) * KEEP_SHARES[number])
        cut = summarize.choose_cut(past.parts, KeepLimits(room, messages=MAX_KEPT_MESSAGES))
        return _CompactionJob(plan, past, cut, why, window) if cut else None

    async def _compact(self, job: _CompactionJob, *, will_retry: bool) -> bool:
        """Summarise and store it. False when no model could be asked and it can wait; else that is raised."""
        failed = {"phase": "end", "willRetry": False, "completed": False}
        before = self._count_fixed_tokens(job.plan) + sum(map(token_count.count_message_tokens, job.past.messages))
        start = {"phase": "start", "reason": str(job.why), "tokensBefore": before, "summarised": len(job.gone)}
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
            log.warning("run %d could not summarise its conversation (%s) and goes on with all of it", self._claimed.pk, error.kind)
            return False
        await self._store(job, summary, usages, before, will_retry=will_retry)
        self._open.closing = ()
        return True

    async def _summarize(self, job: _CompactionJob, usages: list[Usage]) -> Summary:
        messages = [part.message for part in job.gone]
        before = _previous_summary(job.past)
        if not job.asks_model:
            return summarize.summarize_without_model(messages, before, "nobody was asked to")

        async def ask(request: str) -> str:
            return await self._ask(job.plan, request, usages)

        return await summarize.summarize_messages(messages, before=before, wish=job.wish, ask=ask, window=job.window)

    async def _ask(self, plan: RunPlan, words: str, usages: list[Usage]) -> str:
        # What the caller wished for its answer, such as a form or a length, is not meant for this one.
        request = replace(
            plan.request, messages=(UserMessage(words),), system=SUMMARY_SYSTEM_PROMPT, tools=(), parameters={}, thinking=""
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
        facts = collect_facts(
            (part.message for part in job.gone), CompactionFacts.from_meta(job.past.summary.meta if job.past.summary else {})
        )
        blocks = [{"type": "text", "text": text} for text in (summary.text, facts.as_text()) if text]
        text = "\n\n".join(block["text"] for block in blocks)
        after = (
            self._count_fixed_tokens(plan)
            + token_count.count_text_tokens(format_summary(text, holds_others=job.is_untrusted))
            + sum(token_count.count_message_tokens(part.message) for part in job.kept)
        )
        numbers: dict[str, Any] = {"summarised": len(job.gone), "kept": len(job.kept), "tokensBefore": before, "tokensAfter": after}
        numbers |= {"leftOut": summary.left_out} if summary.left_out else {}
        used = Usage(sum(usage.input_tokens for usage in usages), sum(usage.output_tokens for usage in usages))
        costs = [calculate_cost_microusd(plan.model.display_name, usage) or 0 for usage in usages]
        last = max(job.past.parts[: job.cut], key=lambda part: part.position)
        meta = {SUMMARIZED_THROUGH_KEY: last.id, "reason": str(job.why), **numbers, **facts.to_meta()}
        # The originals leave the history with their envelopes: what is said of them must have one as well.
        meta |= {INCLUDES_OTHERS_KEY: True} if job.is_untrusted else {}
        if usages:
            meta |= {"provider": plan.model.provider, "model": plan.model.model}
            meta["usage"] = {"input": used.input_tokens, "output": used.output_tokens, "costMicroUsd": sum(costs)}
        message_id = new_message_id()
        told_end = {"phase": "end", "willRetry": will_retry, "completed": True, "reason": str(job.why), **numbers}
        end = NewEvent("compaction", {**told_end, "messageId": message_id, "text": text})
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
        log.info("run %d summarised %d messages (%s, %d model calls)", claimed.pk, len(job.gone), job.why, len(usages))

    async def _publish_step(self, **what: Any) -> None:
        await db.write(queue.write_step, self._claimed, key=str(self._claimed.session_id), **what)

    async def _read_history(self, plan: RunPlan) -> History:
        """The past as it is stored now: with everything this run has done."""
        claimed = self._claimed
        reader = reader_origin(claimed.options, claimed.session_key)
        entries = await db.read(read_model_history, claimed.session_id, claimed.generation, claimed.pk, reader)
        return await load_history(claimed, entries, plan.workspace, takes_images=takes_images(plan.model.display_name))

    def _last_event(self, reason: str) -> NewEvent:
        return lifecycle.build_end_event(Run.Status.COMPLETED, reason, startedAt=self._claimed.started_ms)

    def _count_fixed_tokens(self, plan: RunPlan) -> int:
        if self._fixed_tokens is None or self._fixed_tokens[0].request is not plan.request:
            self._fixed_tokens = (
                plan,
                token_count.count_text_tokens(plan.request.system) + token_count.count_tool_tokens(plan.request.tools),
            )
        return self._fixed_tokens[1]


def _context_window(plan: RunPlan) -> int:
    return find_context_window(plan.model.display_name) or DEFAULT_CONTEXT_WINDOW


def _previous_summary(past: History) -> str:
    """The summary before, without the lists that were appended to it: they are kept apart."""
    if past.summary is None:
        return ""
    first = past.summary.content[0] if past.summary.content else {}
    return first["text"] if first.get("type") == "text" else past.summary.text


def _still_too_long_error(refused: ProviderError, times: int) -> ProviderError:
    if not times:
        return refused
    words = f"{refused.message} (the conversation was summarised {times} times and is still too long)"
    return ProviderError(refused.kind, words, status=refused.status)
