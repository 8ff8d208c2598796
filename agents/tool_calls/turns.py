"""Every tool call takes this path, turn by turn:

    guard → hooks → plan    propose.py     before any transaction; no state is changed
    authorize               authorize.py   all calls of an answer, in the transaction that stores the answer
    start                   start.py       the last checks, in the commit that marks a call as started
    run                     tools_app.execute
    record                  record.py      updates, the deferral or the result, each in a commit

A call found without a result was left by an earlier worker. If it was deferred, it only needs its result; otherwise it takes
the path again from the beginning, because rules, grants and files may have changed. A call that was started is never run again.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from itertools import takewhile

from agents.instrumentation import ToolInstrumentation
from agents.llm.events import Replied
from agents.llm.messages import Message, ToolCallRequest
from agents.loop import Parked, UseEvent
from agents.prepare.model_plan import ModelPlan
from agents.run_store import RunStore
from agents.tool_calls.authorize import DecidedCall, Decisions, authorize_calls, authorize_calls_again
from agents.tool_calls.propose import check_loops, propose_calls
from agents.tool_calls.record import TurnJournal, record_result
from clawsite.infra import db
from sessions_app.runs import tool_calls
from sessions_app.runs.tool_calls import OpenDeferral
from tools_app.authorize import AuthorizedCall
from tools_app.core.definition import CallRef, DeferredCall, ToolDeferred, ToolEnded, ToolEvent, ToolStarted
from tools_app.execute import CallNotStarted, add_note, resume_call, run_tool_calls
from tools_app.loop_guard import build_denied_result

WAITS_FOR_APPROVAL = "approval"


class ToolTurns:
    """The tool calls of one run. Setting `abort` asks running calls to stop."""

    def __init__(self, store: RunStore, *, span: str, abort: asyncio.Event) -> None:
        self._store, self._span, self._abort = store, span, abort

    async def record_answer(self, plan: ModelPlan, reply: Replied, messages: Sequence[Message]) -> Decisions:
        """Store an answer of the model to these messages, and authorize its calls in the same transaction."""
        calls = await propose_calls(reply.message.tool_calls, messages, plan)
        authorize = partial(authorize_calls, calls=calls, plan=plan, why=reply.message.text)
        return await self._store.reply(reply, plan.model, authorize) or {}

    async def use(
        self, plan: ModelPlan, calls: Sequence[ToolCallRequest], messages: Sequence[Message], decisions: Decisions | None
    ) -> AsyncGenerator[UseEvent, None]:
        """Run the calls of one turn that have no result yet. Without decisions, an earlier worker has left them."""
        waits_for = ""
        if decisions is None:
            deferred = await db.read(tool_calls.list_deferred, plan.run.claimed.pk)
            notes = {call_id: verdict.note for call_id, verdict in check_loops(calls, messages, plan.toolset).items()}
            for each in deferred:
                if ended := await self._resume(plan, each, notes.get(each.call_id, "")):
                    yield ended
                else:
                    waits_for = each.kind
            if waits_for:
                yield Parked(waits_for)
                return
            resumed = {each.call_id for each in deferred}
            calls = [call for call in calls if call.id not in resumed]
            decisions = await self._decide_again(plan, calls, messages)
        while calls:
            # Keep the model's order: later calls may depend on one that waits.
            ready = list(takewhile(lambda each: not each.waits_for_approval, (decisions[call.id] for call in calls)))
            has_started = False
            async with aclosing(self._run(plan, ready)) as events:
                async for event in events:
                    yield event
                    match event:
                        case ToolStarted():
                            has_started = True
                        case ToolDeferred(_, deferral):
                            waits_for = deferral.kind
            calls = calls[len(ready) :]
            if waits_for or not calls:
                break
            if not (has_started and decisions[calls[0].id].depends_on_files):
                waits_for = WAITS_FOR_APPROVAL
                break
            # The calls made just now may have changed the files that this one depends on: plan it and request approval again.
            decisions = {**decisions, **await self._decide_again(plan, calls[:1], messages)}
        if waits_for:
            yield Parked(waits_for)

    async def _decide_again(self, plan: ModelPlan, calls: Sequence[ToolCallRequest], messages: Sequence[Message]) -> Decisions:
        if not calls:
            return {}
        decisions: Decisions = await self._store.write(authorize_calls_again, await propose_calls(calls, messages, plan), plan)
        return decisions

    async def _run(self, plan: ModelPlan, calls: Sequence[DecidedCall]) -> AsyncGenerator[ToolEvent, None]:
        """Run the allowed calls, each to its result or until it is deferred. The others have a result already or get one here."""
        journal = TurnJournal(self._store, {call.proposed.call.id: call for call in calls}, plan.toolset)
        permits: list[AuthorizedCall] = []
        for call in calls:
            ref, permit = call.proposed.ref, call.authorization.permit
            if permit is None:
                yield ToolEnded(ref, call.authorization.denial)
            elif obstacle := call.proposed.obstacle:
                result = build_denied_result(ref.name, obstacle.result, call.proposed.verdict)
                with suppress(CallNotStarted):
                    await journal.started(ref)
                await journal.ended(ref, result)
                yield ToolEnded(ref, result)
            else:
                permits.append(permit)
        notes = {call.proposed.call.id: call.proposed.verdict.note for call in calls}
        watch = ToolInstrumentation(self._span)
        async with aclosing(run_tool_calls(permits, journal=journal, abort=self._abort, notes=notes)) as events, aclosing(watch):
            async for event in events:
                watch.observe(event)
                yield event

    async def _resume(self, plan: ModelPlan, deferral: OpenDeferral, note: str) -> ToolEnded | None:
        """Store and return the result of a deferred call, or return None if it is still waiting."""
        ref = CallRef(deferral.call_id, deferral.name, deferral.arguments)
        result = await resume_call(plan.toolset.get(ref.name), DeferredCall(ref, deferral.kind, deferral.ref, deferral.overdue))
        if result is None:
            return None
        result = add_note(result, note)
        await record_result(self._store, ref, result)
        return ToolEnded(ref, result)
