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
from agents.context.compaction.facts import Facts, facts_of
from agents.context.compaction.summarize import Keep, Part, Summary
from agents.context.history import Past, recall, told_summary
from agents.deltas import OpenMessage
from agents.instrumentation import ModelWatch
from agents.llm.base import FailureKind, ProviderError, Usage
from agents.llm.events import Replied
from agents.llm.messages import Message, UserMessage
from agents.llm.prices import context_window, cost_microusd, takes_images
from agents.llm.retry import ask_model
from agents.llm.summary_prompt import SYSTEM
from agents.prepare.run_plan import RunPlan
from clawsite.infra import db
from sessions_app.events.journal import NewEntry, NewEvent, new_message_id
from sessions_app.models import Run
from sessions_app.origin import reader_of
from sessions_app.runs import lifecycle, queue
from sessions_app.runs.compaction_requests import COMPACTED, NOTHING
from sessions_app.runs.queue import Claimed
from sessions_app.transcript.messages import HISTORY_ENTRIES, HOLDS_OTHERS, THROUGH, model_history

log = logging.getLogger(__name__)

USUAL_WINDOW = 200_000  # tokens of a model that nobody knows the context of
ALMOST_FULL = 0.7  # of the context, by an estimate that may be a fifth too low; the answer needs room as well
WORTH_IT = 0.2  # so much of it must be conversation: a small context that instructions and tools fill gains nothing by a summary
MOST_MESSAGES, MESSAGES_KEPT = HISTORY_ENTRIES * 3 // 4, HISTORY_ENTRIES // 4  # before the oldest fall out of the window
KEPT_SHARES = (0.3, 0.15, 0.05)  # of the context, for the first time and for each time that it was still too long
KEPT_TURNS = 2  # of a conversation that somebody wants summarised


class Why(StrEnum):
    """In the words of OpenClaw's checkpoints."""

    ASKED_FOR = "manual"
    ALMOST_FULL = "auto-threshold"
    REFUSED = "overflow-retry"


class AlmostFull(Exception):
    """The next question would hardly fit any more."""


@dataclass(frozen=True, slots=True)
class _Job:
    """What is to be summarised: the first `cut` parts of the past."""

    plan: RunPlan
    past: Past
    cut: int
    why: Why
    window: int
    wish: str = ""
    asks_model: bool = True

    @property
    def gone(self) -> Sequence[Part]:
        return [part for part in self.past.parts[: self.cut] if not part.opens]

    @property
    def kept(self) -> Sequence[Part]:
        return [part for number, part in enumerate(self.past.parts) if number >= self.cut or part.opens]

    @property
    def holds_others(self) -> bool:
        return self.past.summary_holds_others or any(part.of_others for part in self.gone)


class Compactor:
    """Makes room for one claimed run."""

    def __init__(self, claimed: Claimed, message: OpenMessage, span: str) -> None:
        self._claimed, self._open, self._span = claimed, message, span
        self._in_a_row = 0  # since the last answer
        self._around: tuple[RunPlan, int] | None = None  # tokens of instructions and tools, counted once for each plan

    def answered(self) -> None:
        self._in_a_row = 0

    def check(self, plan: RunPlan, messages: Sequence[Message]) -> None:
        """AlmostFull when it is time to make room. Not twice in a row: what the model says then counts for more."""
        if self._in_a_row or plan.invoked:
            return
        window, said = _window(plan), sum(map(token_count.in_message, messages))
        is_full = self._size_around(plan) + said > ALMOST_FULL * window and said > WORTH_IT * window
        if is_full or len(messages) > MOST_MESSAGES:
            raise AlmostFull

    async def make_room(self, plan: RunPlan, full: ProviderError | AlmostFull) -> RunPlan:
        """The plan with a shorter past. Raises what it was given when that is no matter of length, or cannot be helped."""
        if isinstance(full, ProviderError) and full.kind is not FailureKind.CONTEXT_OVERFLOW:
            raise full
        number, self._in_a_row = self._in_a_row, self._in_a_row + 1
        job = await self._job(plan, Why.REFUSED if isinstance(full, ProviderError) else Why.ALMOST_FULL, number)
        if job is None or not await self._done(job, will_retry=True):
            if isinstance(full, AlmostFull):
                return plan  # it is asked all the same: perhaps there is room after all
            raise _still_too_long(full, number)
        return replace(plan, past=await self._read(plan))

    async def carry_out(self, plan: RunPlan, wish: dict[str, Any]) -> None:
        """The whole of a run that was asked for nothing else: it ends with the summary, in one commit."""
        past, window = plan.past, _window(plan)
        most = wish.get("maxLines")
        keep = Keep(window, messages=most) if most else Keep(int(window * KEPT_SHARES[0]), turns=KEPT_TURNS)
        cut = summarize.choose_cut(past.parts, keep)
        if cut:
            await self._done(_Job(plan, past, cut, Why.ASKED_FOR, window, wish.get("words", ""), not most), will_retry=False)
            return
        end = NewEvent("compaction", {"phase": "end", "willRetry": False, "completed": False, "reason": NOTHING})
        await self._step(events=[end, self._last(NOTHING)], to=Run.Status.COMPLETED, reason=NOTHING)

    async def _job(self, plan: RunPlan, why: Why, number: int) -> _Job | None:
        """None: nothing can be cut off any more, or it was tried often enough."""
        if number >= len(KEPT_SHARES):
            return None
        past = await self._read(plan)
        around = self._size_around(plan)
        size = around + sum(map(token_count.in_message, past.messages))
        # One that was refused is longer than the context, whatever is known about that.
        window = min(_window(plan), size) if why is Why.REFUSED else _window(plan)
        room = int(max(window - around, window // 10) * KEPT_SHARES[number])
        cut = summarize.choose_cut(past.parts, Keep(room, messages=MESSAGES_KEPT))
        return _Job(plan, past, cut, why, window) if cut else None

    async def _done(self, job: _Job, *, will_retry: bool) -> bool:
        """Summarise and store it. False when no model could be asked and it can wait; else that is raised."""
        failed = {"phase": "end", "willRetry": False, "completed": False}
        before = self._size_around(job.plan) + sum(map(token_count.in_message, job.past.messages))
        start = {"phase": "start", "reason": str(job.why), "tokensBefore": before, "summarised": len(job.gone)}
        void = self._open.void()
        self._open.begin("", 1)
        await self._step(events=[*void, NewEvent("compaction", start)])
        self._open.closing = (NewEvent("compaction", {**failed, "reason": "stopped"}),)
        usages: list[Usage] = []
        try:
            summary = await self._summary(job, usages)
        except ProviderError as error:
            self._open.closing = ()
            can_wait = job.why is Why.ALMOST_FULL
            end = NewEvent("compaction", {**failed, "willRetry": can_wait, "reason": str(error.kind)})
            await self._step(events=[end])
            if not can_wait:
                raise
            log.warning("run %d could not summarise its conversation (%s) and goes on with all of it", self._claimed.pk, error.kind)
            return False
        await self._store(job, summary, usages, before, will_retry=will_retry)
        self._open.closing = ()
        return True

    async def _summary(self, job: _Job, usages: list[Usage]) -> Summary:
        messages = [part.message for part in job.gone]
        before = _words_of(job.past)
        if not job.asks_model:
            return summarize.plain_cut(messages, before, "nobody was asked to")

        async def ask(request: str) -> str:
            return await self._ask(job.plan, request, usages)

        return await summarize.summarise(messages, before=before, wish=job.wish, ask=ask, window=job.window)

    async def _ask(self, plan: RunPlan, words: str, usages: list[Usage]) -> str:
        # What the caller wished for its answer, such as a form or a length, is not meant for this one.
        request = replace(plan.request, messages=(UserMessage(words),), system=SYSTEM, tools=(), parameters={}, thinking="")
        watch = ModelWatch(plan.model, self._span)
        answer = ask_model(plan.provider, request, new_id=new_message_id, sleep=asyncio.sleep, watch=watch)
        async with aclosing(watch), aclosing(answer) as events:
            async for event in events:
                if isinstance(event, Replied):
                    usages.append(event.usage)
                    return event.message.text
        raise RuntimeError("the model's stream ended without an answer")

    async def _store(self, job: _Job, summary: Summary, usages: Sequence[Usage], before: int, *, will_retry: bool) -> None:
        claimed, plan = self._claimed, job.plan
        facts = facts_of((part.message for part in job.gone), Facts.of_meta(job.past.summary.meta if job.past.summary else {}))
        blocks = [{"type": "text", "text": text} for text in (summary.text, facts.as_text()) if text]
        text = "\n\n".join(block["text"] for block in blocks)
        after = (
            self._size_around(plan)
            + token_count.in_text(told_summary(text, holds_others=job.holds_others))
            + sum(token_count.in_message(part.message) for part in job.kept)
        )
        numbers: dict[str, Any] = {"summarised": len(job.gone), "kept": len(job.kept), "tokensBefore": before, "tokensAfter": after}
        numbers |= {"leftOut": summary.left_out} if summary.left_out else {}
        used = Usage(sum(usage.input_tokens for usage in usages), sum(usage.output_tokens for usage in usages))
        costs = [cost_microusd(plan.model.display, usage) or 0 for usage in usages]
        last = max(job.past.parts[: job.cut], key=lambda part: part.position)
        meta = {THROUGH: last.id, "reason": str(job.why), **numbers, **facts.to_meta()}
        # The originals leave the history with their envelopes: what is said of them must have one as well.
        meta |= {HOLDS_OTHERS: True} if job.holds_others else {}
        if usages:
            meta |= {"provider": plan.model.provider, "model": plan.model.model}
            meta["usage"] = {"input": used.input_tokens, "output": used.output_tokens, "costMicroUsd": sum(costs)}
        message_id = new_message_id()
        told_end = {"phase": "end", "willRetry": will_retry, "completed": True, "reason": str(job.why), **numbers}
        end = NewEvent("compaction", {**told_end, "messageId": message_id, "text": text})
        ending: dict[str, Any] = {"events": [end]}
        if job.why is Why.ASKED_FOR:
            ending = {"events": [end, self._last(COMPACTED)], "to": Run.Status.COMPLETED, "reason": COMPACTED}
        await self._step(
            entries=[NewEntry("compaction", "", blocks, text, message_id, meta)],
            model=plan.model.display if usages else "",
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cost_microusd=sum(costs),
            **ending,
        )
        log.info("run %d summarised %d messages (%s, %d model calls)", claimed.pk, len(job.gone), job.why, len(usages))

    async def _step(self, **what: Any) -> None:
        await db.write(queue.step, self._claimed, key=str(self._claimed.session_id), **what)

    async def _read(self, plan: RunPlan) -> Past:
        """The past as it is stored now: with everything this run has done."""
        claimed = self._claimed
        reader = reader_of(claimed.options, claimed.session_key)
        entries = await db.read(model_history, claimed.session_id, claimed.generation, claimed.pk, reader)
        return await recall(claimed, entries, plan.workspace, takes_images=takes_images(plan.model.display))

    def _last(self, reason: str) -> NewEvent:
        return lifecycle.end_event(Run.Status.COMPLETED, reason, startedAt=self._claimed.started_ms)

    def _size_around(self, plan: RunPlan) -> int:
        if self._around is None or self._around[0].request is not plan.request:
            self._around = plan, token_count.in_text(plan.request.system) + token_count.in_tools(plan.request.tools)
        return self._around[1]


def _window(plan: RunPlan) -> int:
    return context_window(plan.model.display) or USUAL_WINDOW


def _words_of(past: Past) -> str:
    """The summary before, without the lists that were appended to it: they are kept apart."""
    if past.summary is None:
        return ""
    first = past.summary.content[0] if past.summary.content else {}
    return first["text"] if first.get("type") == "text" else past.summary.text


def _still_too_long(refused: ProviderError, times: int) -> ProviderError:
    if not times:
        return refused
    words = f"{refused.message} (the conversation was summarised {times} times and is still too long)"
    return ProviderError(refused.kind, words, status=refused.status)
