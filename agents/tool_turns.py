"""Prepare, authorize and run the tool calls of one run, turn by turn.

Plugin hooks, the loop guard and command planning come first; `agents.run_store` makes and stores the decisions.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from agents.instrumentation import ToolInstrumentation
from agents.llm.messages import Message, ToolCallRequest
from agents.loop import Parked, UseEvent, list_steps
from agents.prepare.run_plan import RunPlan
from agents.run_store import RunStore
from agents.tool_calls.decide import ProposedCalls
from clawsite.infra import clock, db
from sessions_app.runs import tool_calls
from sessions_app.runs.queue import ClaimedRun
from sessions_app.runs.tool_calls import OpenDeferral
from tools_app.authorize import Authorization, AuthorizedCall
from tools_app.core.definition import CallRef, DeferredCall, ToolDeferred, ToolEnded, ToolResult, text_result
from tools_app.core.plugin_hooks import ArgumentsChanged, CallBlocked, HookCall, run_hooks
from tools_app.core.supervision import SupervisedCall, Supervision
from tools_app.execute import add_note, plan_call, resume_call, run_tool_calls
from tools_app.loop_guard import LoopVerdict, build_denied_result, build_loop_denial, check_repetition, to_pending_call
from tools_app.schemas.argument_aliases import apply_aliases


class ToolTurns:
    """Tool calls of one claimed run. The runner keeps `plan` and `messages` current; `abort` stops running calls."""

    plan: RunPlan
    messages: Sequence[Message] = ()

    def __init__(self, claimed: ClaimedRun, store: RunStore, span: str) -> None:
        self._claimed, self._store, self._span = claimed, store, span
        self.decided: dict[str, Authorization] = {}
        self._blocked: dict[str, CallBlocked] = {}
        self.abort = asyncio.Event()

    async def use(self, calls: Sequence[ToolCallRequest]) -> AsyncGenerator[UseEvent, None]:
        """Run the calls of one turn that have no result yet."""
        verdicts, unsettled = self._check_loops(calls), ""
        if any(call.id not in self.decided for call in calls):
            # Left by an earlier worker: the run was recovered or parked. Deferred calls have run and only need their results.
            for deferral in await db.read(tool_calls.list_deferred, self._claimed.pk):
                if ended := await self._resume(deferral, verdicts[deferral.call_id].note):
                    yield ended
                else:
                    unsettled = deferral.kind
                calls = [call for call in calls if call.id != deferral.call_id]
            if unsettled:
                yield Parked(unsettled)
                return
        undecided = [call for call in calls if call.id not in self.decided]
        if undecided:  # the policy may have changed
            self.decided |= await self._store.decide(await self.propose_calls(undecided), self.plan)
        permits: list[AuthorizedCall] = []
        waiting = False
        for call in calls:
            if waiting := self.decided[call.id].effect == "ask":
                break  # keep the model's order: later calls may depend on this one
            cleared = await self._authorize_call(call, verdicts[call.id])
            if isinstance(cleared, ToolResult):
                yield ToolEnded(CallRef(call.id, call.name, call.arguments), cleared)
            else:
                permits.append(cleared)
        notes = {call_id: verdict.note for call_id, verdict in verdicts.items()}
        watch = ToolInstrumentation(self._span)
        async with aclosing(run_tool_calls(permits, journal=self._store, abort=self.abort, notes=notes)) as events, aclosing(watch):
            async for event in events:
                watch.observe(event)
                yield event
                if isinstance(event, ToolDeferred):
                    unsettled = event.deferred.kind
        if unsettled:
            yield Parked(unsettled)
        elif waiting and permits and self._depends_on_files(call):
            # The calls made just now may have changed the files that this call depends on, so plan and request approval again.
            del self.decided[call.id]
            async with aclosing(self.use(calls[calls.index(call) :])) as rest:
                async for later in rest:
                    yield later
        elif waiting:
            yield Parked("approval")

    async def _resume(self, deferral: OpenDeferral, note: str) -> ToolEnded | None:
        """Store and return the result of a deferred call; None if the run has to wait on."""
        ref = CallRef(deferral.call_id, deferral.name, deferral.arguments)
        overdue = deferral.until is not None and deferral.until <= clock.now()
        result = await resume_call(self.plan.toolset.get(ref.name), DeferredCall(ref, deferral.kind, deferral.ref, overdue))
        if result is None:
            return None
        result = add_note(result, note)
        await self._store.ended(ref, result)
        return ToolEnded(ref, result)

    def _depends_on_files(self, call: ToolCallRequest) -> bool:
        supervision = self.decided[call.id].supervision
        return bool(supervision and supervision.plan and supervision.plan.depends_on_files)

    async def propose_calls(self, calls: Sequence[ToolCallRequest]) -> ProposedCalls:
        """Collect everything needed to authorize the calls of one turn, before the transaction that does so."""
        verdicts = self._check_loops(calls)
        changed_calls = await self._apply_hooks(calls)
        supervised = {call.id: one for call in changed_calls if (one := await self._plan_call(call, verdicts[call.id]))}
        return ProposedCalls(changed_calls, supervised, verdicts)

    async def _plan_call(self, call: ToolCallRequest, verdict: LoopVerdict) -> SupervisedCall | None:
        """Plan a supervised call. Calls that won't run anyway are denied here, so that no approval is requested for them."""
        tool = self.plan.toolset.get(call.name)
        if tool is None or tool.supervisor is None:
            return None
        if call.error:
            denied = Supervision("deny", _unreadable_arguments_text(call.error), code="invalid_arguments")
        elif blocked := self._blocked.get(call.id):
            denied = Supervision("deny", blocked.result.text, code="blocked_by_hook")
        elif verdict.deny:
            denied = Supervision("deny", build_loop_denial(call.name, verdict).text, code="loop_detected")
        else:
            return await plan_call(tool, CallRef(call.id, call.name, call.arguments))
        return SupervisedCall(tool.supervisor, decided=denied)

    def _check_loops(self, calls: Sequence[ToolCallRequest]) -> dict[str, LoopVerdict]:
        """Return the loop guard's verdict on each call of one turn as the model made it, whether it will run or not."""
        steps, verdicts = list_steps(self.messages), {}
        for call in calls:
            tool = self.plan.toolset.get(call.name)
            verdicts[call.id] = check_repetition(call.name, call.arguments, steps, polls=bool(tool and tool.polls))
            steps.append(to_pending_call(call.name, call.arguments, steps))
        return verdicts

    async def _apply_hooks(self, calls: Sequence[ToolCallRequest]) -> list[ToolCallRequest]:
        """Return the calls as changed by plugin hooks, which is how they are authorized, recorded and run. Note blocked ones."""
        changed_calls = []
        for call in calls:
            tool = self.plan.toolset.get(call.name)
            if call.error or tool is None:
                changed_calls.append(call)
                continue
            # Resolve argument aliases first: a hook that checks `path` must not miss a `file_path`.
            call = replace(call, arguments=apply_aliases(call.name, call.arguments, tool.parameters))
            hook_call = HookCall(call.name, call.arguments, self.plan.agent.slug, self._claimed.session_key)
            match await run_hooks(hook_call, self.plan.hooks):
                case ArgumentsChanged(arguments):
                    call = replace(call, arguments=arguments)
                case CallBlocked() as blocked:
                    self._blocked[call.id] = blocked
            changed_calls.append(call)
        return changed_calls

    async def _authorize_call(self, call: ToolCallRequest, verdict: LoopVerdict) -> AuthorizedCall | ToolResult:
        """Return the permit for a call, or the stored result that replaces its execution."""
        authorization = self.decided[call.id]
        if authorization.permit is None:
            return authorization.denial
        if call.error:
            result = text_result(_unreadable_arguments_text(call.error), is_error=True)
        elif blocked := self._blocked.get(call.id):
            result = blocked.result
        elif verdict.deny:
            result = build_loop_denial(call.name, verdict)
        else:
            return authorization.permit
        result = build_denied_result(call.name, result, verdict)
        await self._store.record_not_run(call, result)
        return result


def _unreadable_arguments_text(error: str) -> str:
    return f"the arguments could not be read: {error}. Send them as one JSON object."
