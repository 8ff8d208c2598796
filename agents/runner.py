"""Work on one run, from claim to end.

    1 take the session: done by the claim; every later write checks its lease
    2 resolve model   3 choose credentials   4 build tools   5 load history        (prepare/: RunPlan, then ModelPlan)
    6 stream          7 execute tools                                              (loop.py, tool_calls/turns.py)
    8 persist                                                                      (here, through run_store.py)

If the model can't take the history, the run recovers in one place (`_recover`), and the loop starts again.

Everything the loop yields is committed before the loop continues, so a run whose worker died continues after its last step.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from functools import partial

from agents.compactor import Compactor, ContextAlmostFull
from agents.deltas import TEXT, THINKING, DeltaSource, DeltaWriter, OpenMessage
from agents.instrumentation import ModelInstrumentation, start_run_span
from agents.llm.base import CallDelta, ProviderError, TextDelta, ThinkingDelta
from agents.llm.events import AskEvent, AttemptReset, MessageStarted, Replied
from agents.llm.messages import Message
from agents.llm.retry import ask_model
from agents.loop import HandedOver, LoopEvent, Parked, TurnsUsedUp, converse, run_single_call
from agents.prepare.model_plan import ModelPlan, plan_for_model
from agents.prepare.run_plan import prepare_run
from agents.run_store import RunStore
from agents.tool_calls.turns import ToolTurns
from clawsite.infra import db
from clawsite.infra.errors import ClawError, Unavailable
from clawsite.infra.observability import tracing
from clawsite.infra.reasons import Reason
from sessions_app.events.journal import new_message_id
from sessions_app.models import Run
from sessions_app.run_request import Compaction, Unreadable
from sessions_app.runs.freezes import RunFrozen
from sessions_app.runs.queue import ClaimedRun, LeaseLost
from sessions_app.transcript.history import build_live_view

log = logging.getLogger(__name__)


class Runner:
    """Works on one claimed run. `stop()` ends it from outside; the outcome is stored in the database."""

    def __init__(self, claimed: ClaimedRun, deltas: DeltaWriter) -> None:
        self.claimed = claimed
        self.open = OpenMessage(claimed)
        self._deltas = deltas
        self._store = RunStore(claimed, self.open)
        self._stop_reason: tuple[Run.Status | None, str] | None = None
        self._end_stored = False  # the run is stored as ended or parked
        self.abandoned = False  # a database write failed: the run is released once the database works again
        self._span = start_run_span(claimed)
        self._abort = asyncio.Event()  # asks running tool calls to stop
        self._turns = ToolTurns(self._store, span=self._span.header, abort=self._abort)
        self._timeout_seconds = 0.0
        self._compactor = Compactor(claimed, self.open, self._span.header)

    def start(self) -> "asyncio.Task[None]":
        self.open.owner = asyncio.create_task(self._run(), name=f"run {self.claimed.pk}")
        return self.open.owner

    def extend_lease(self, until: float) -> None:
        """Allow tool calls to start until this `clock.boot_time`."""
        self._store.extend_lease(until)

    def stop(self, to: Run.Status | None, reason: str) -> None:
        """End the run as `to`, or freeze it if `to` is WAITING; None leaves it to another worker (drained, lease lost)."""
        if self._stop_reason is None and self.open.owner and not self.open.owner.done():
            self._stop_reason = (to, reason)
            self._abort.set()
            self.open.owner.cancel()

    async def _run(self) -> None:
        tracing.set_traceparent(self._span.header)
        try:
            await self._run_until_done()
        finally:
            self._span.end()

    async def _run_until_done(self) -> None:
        claimed = self.claimed
        try:
            async with asyncio.timeout(None) as limit:
                await self._work(limit)
        except TimeoutError as fault:
            if not limit.expired():
                await self._fail(fault)
                return
            error = Reason("run_error.timeout", seconds=f"{self._timeout_seconds:g}")
            await self._end(Run.Status.FAILED, "timeout", error)
        except asyncio.CancelledError:
            if self.open.write_error is not None:
                self.abandoned = isinstance(self.open.write_error, Unavailable)
                log.warning("run %d can't be written and is left for another worker: %s", claimed.pk, self.open.write_error)
            elif self._stop_reason is None:
                raise
            else:
                to, reason = self._stop_reason
                if to == Run.Status.WAITING:
                    await self._settle(self._store.freeze(reason))
                elif to is not None:
                    await self._end(to, reason)
        except RunFrozen as frozen:  # noticed before the bus hint arrived
            await self._settle(self._store.freeze(str(frozen)))
        except ProviderError as error:
            await self._end(Run.Status.FAILED, error.kind, Reason("run_error.model", message=error.message))
        except LeaseLost as error:
            log.warning("%s; stopped working on the run", error)
        except Unavailable as error:  # the database failed, not the run: it continues once rows can be written again
            self.abandoned = True
            log.warning("run %d is left for another worker: %s", claimed.pk, error)
        except ClawError as error:
            await self._end(Run.Status.FAILED, error.code.lower(), Reason.of(error.message))
        except Exception as fault:
            await self._fail(fault)

    async def _work(self, limit: asyncio.Timeout) -> None:
        if isinstance(self.claimed.request.kind, Unreadable):
            await self._end(Run.Status.FAILED, "unreadable", Reason("run_error.unreadable"))
            return
        if not self.claimed.first:
            await self._void_open_answer()
        run = await prepare_run(self.claimed)
        plan = await plan_for_model(run, run.model_name)
        # Only running time counts, including earlier leases; waiting for approval doesn't.
        self._timeout_seconds = run.timeout_seconds
        left = run.timeout_seconds - self.claimed.running_seconds
        limit.reschedule(asyncio.get_running_loop().time() + max(left, 0))
        if isinstance(self.claimed.request.kind, Compaction):
            await self._compactor.run_compaction(plan, self.claimed.request.kind)
            return
        await self._converse(plan)
        if run.invoked_call and not self._end_stored:
            await self._end(Run.Status.COMPLETED, "invoked")
        elif not self._end_stored:
            # An answer and the end of its run are one commit, so another worker has taken over the run and stored both.
            raise LeaseLost(f"run {self.claimed.pk} was answered by another worker")

    async def _converse(self, plan: ModelPlan) -> None:
        """Run the loop to its end. After a recovery, continue after the last stored step."""
        while True:
            try:
                async with aclosing(self._conversation(plan)) as events:
                    async for event in events:
                        await self._persist(event)
                return
            except (ProviderError, ContextAlmostFull) as problem:
                plan = await self._recover(plan, problem)

    async def _recover(self, plan: ModelPlan, problem: ProviderError | ContextAlmostFull) -> ModelPlan:
        """Return a plan with which the run can continue, or raise the problem. Recovery from model failures happens only here."""
        return await self._compactor.make_room(plan, problem)

    def _conversation(self, plan: ModelPlan) -> AsyncGenerator[LoopEvent, None]:
        history, invoked = plan.history, plan.run.invoked_call
        record, use = partial(self._turns.record_answer, plan), partial(self._turns.use, plan)
        mark = "" if history.is_complete else f"_{self.claimed.pk}"
        if invoked:
            return run_single_call(history.messages, invoked, new_id=new_message_id, record=record, use=use, id_mark=mark)
        turns = history.turns_before + plan.run.agent.max_turns
        loop = partial(converse, history.messages, ask=partial(self._ask, plan), record=record, use=use)
        return loop(max_turns=turns, is_callers=plan.is_client_call, id_mark=mark)

    async def _void_open_answer(self) -> None:
        """Discard the text of an answer that the previous worker died in the middle of; the model is asked again."""
        view = await db.read(build_live_view, self.claimed.pk)
        if view.open_message:
            await self._store.reset(view.open_message, view.attempt + 1)

    async def _persist(self, event: LoopEvent) -> None:
        match event:
            case TextDelta(text):
                self._deltas.add(self.open, TEXT, text)
            case ThinkingDelta(text):
                self._deltas.add(self.open, THINKING, text)
            case CallDelta(index, name, text):
                self._deltas.add(self.open, DeltaSource("toolcall", index, name), text)
            case MessageStarted(message_id, attempt):
                self.open.begin(message_id, attempt)
            case AttemptReset():
                await self._store.retry(event)
            case Replied(message=message):  # stored by the tool turns, together with the decisions about its calls
                self._compactor.reset_attempts()
                self._end_stored = not message.tool_calls
            case TurnsUsedUp(limit):
                self._end_stored = True
                error = Reason("run_error.turns_used_up", limit=limit)
                await self._end(Run.Status.FAILED, "turns_used_up", error)
            case HandedOver(calls):
                self._end_stored = True
                await self._store.hand_over([call.id for call in calls])
            case Parked(reason):
                self._end_stored = True
                await self._store.park(reason)
            case _:
                pass  # tool events were stored before they were yielded

    async def _ask(self, plan: ModelPlan, messages: Sequence[Message]) -> AsyncGenerator[AskEvent, None]:
        self._compactor.check(plan, messages)
        request = plan.build_request(messages)
        watch = ModelInstrumentation(plan.model, self._span.header)
        # Each attempt has its own span, whose ID is sent with the HTTP request.
        answer = ask_model(plan.provider, request, new_id=new_message_id, sleep=asyncio.sleep, watch=watch)
        async with aclosing(watch), aclosing(answer) as events:
            async for event in events:
                yield event

    async def _fail(self, fault: Exception) -> None:
        reference = uuid.uuid4().hex[:8]
        log.error("run %d failed unexpectedly (reference %s)", self.claimed.pk, reference, exc_info=fault)
        await self._end(Run.Status.FAILED, "internal", Reason("run_error.internal", reference=reference))

    async def _end(self, to: Run.Status, reason: str, error: Reason | None = None) -> None:
        if to == Run.Status.FAILED:
            self._span.set_failed(reason)
        await self._settle(self._store.end(to, reason, error))

    async def _settle(self, writing: Awaitable[None]) -> None:
        """Store how the run ended or why it waits, even if the task is canceled a second time."""
        ending = asyncio.ensure_future(writing)
        ending.add_done_callback(lambda done: done.cancelled() or done.exception())  # mark the exception as retrieved
        try:
            await asyncio.shield(ending)
        except LeaseLost as lost:
            log.info("%s; the run had already ended", lost)
        except ClawError as fault:
            self.abandoned = isinstance(fault, Unavailable)
            log.warning("could not record the end of run %d (%s); the worker that recovers it will do so", self.claimed.pk, fault)
