"""The tool calls of one run, turn by turn: looked at before anybody decides about them, and cleared before they are made.

Hooks of plugins, the loop guard and the plan of a command come first; the decision itself and every row are agents.run_store's.
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
from sessions_app.runs.queue import ClaimedRun
from tools_app.authorize import Authorization, AuthorizedCall
from tools_app.core.definition import CallRef, ToolEnded, ToolResult, text_result
from tools_app.core.plugin_hooks import ArgumentsChanged, CallBlocked, HookCall, run_hooks
from tools_app.core.supervision import Supervision
from tools_app.exec.plan import ExecPlan, PlannedCommand
from tools_app.execute import plan_call, run_tool_calls
from tools_app.loop_guard import LoopVerdict, build_denied_result, build_loop_denial, check_repetition, to_pending_call
from tools_app.schemas.argument_aliases import apply_aliases


class ToolTurns:
    """Of one claimed run. `plan` and `messages` are the runner's, as they are at this moment; `abort` stops what is being made."""

    plan: RunPlan
    messages: Sequence[Message] = ()

    def __init__(self, claimed: ClaimedRun, store: RunStore, span: str) -> None:
        self._claimed, self._store, self._span = claimed, store, span
        self.decided: dict[str, Authorization] = {}
        self._blocked: dict[str, CallBlocked] = {}
        self.abort = asyncio.Event()

    async def use(self, calls: Sequence[ToolCallRequest]) -> AsyncGenerator[UseEvent, None]:
        """Carry out the calls of one turn that have no result yet."""
        opinions = self._check_loops(calls)
        undecided = [call for call in calls if call.id not in self.decided]
        if undecided:  # the run was rescued or parked between the decision and the result: the policy may have changed
            self.decided |= await self._store.decide(await self.propose_calls(undecided), self.plan)
        permits: list[AuthorizedCall] = []
        waiting = False
        for call in calls:
            if waiting := self.decided[call.id].effect == "ask":
                break  # in the model's order: what comes behind may build on it
            cleared = await self._authorize_call(call, opinions[call.id])
            if isinstance(cleared, ToolResult):
                yield ToolEnded(CallRef(call.id, call.name, call.arguments), cleared)
            else:
                permits.append(cleared)
        notes = {call_id: opinion.note for call_id, opinion in opinions.items()}
        watch = ToolInstrumentation(self._span)
        async with aclosing(run_tool_calls(permits, journal=self._store, abort=self.abort, notes=notes)) as events, aclosing(watch):
            async for event in events:
                watch.observe(event)
                yield event
        if waiting and permits and self._runs_scripts(call):
            # What was done just now may have written what the command runs: people are asked about what is there.
            del self.decided[call.id]
            async with aclosing(self.use(calls[calls.index(call) :])) as rest:
                async for later in rest:
                    yield later
        elif waiting:
            yield Parked("approval")

    def _runs_scripts(self, call: ToolCallRequest) -> bool:
        asked = self.decided[call.id].supervision
        return bool(asked and isinstance(asked.plan, ExecPlan) and asked.plan.scripts)

    async def propose_calls(self, calls: Sequence[ToolCallRequest]) -> ProposedCalls:
        """Everything that is known about the calls of one turn before the transaction that decides about them."""
        opinions = self._check_loops(calls)
        hooked = await self._apply_hooks(calls)
        plans = {call.id: plan for call in hooked if (plan := await self._plan_call(call, opinions[call.id]))}
        return ProposedCalls(hooked, plans, opinions)

    async def _plan_call(self, call: ToolCallRequest, opinion: LoopVerdict) -> PlannedCommand | Supervision | None:
        """What a supervised call would do. What will not run anyway is not planned, so that nobody is asked about it."""
        tool = self.plan.toolset.get(call.name)
        if tool is None or tool.plan is None:
            return None
        if call.error:
            return Supervision("deny", _unreadable_arguments_text(call.error), code="invalid_arguments")
        if blocked := self._blocked.get(call.id):
            return Supervision("deny", blocked.result.text, code="blocked_by_hook")
        if opinion.refuse:
            return Supervision("deny", build_loop_denial(call.name, opinion).text, code="loop_detected")
        made: PlannedCommand | Supervision = await plan_call(tool, CallRef(call.id, call.name, call.arguments))
        return made

    def _check_loops(self, calls: Sequence[ToolCallRequest]) -> dict[str, LoopVerdict]:
        """What the loop guard thinks of the calls of one turn, as the model made them, whether they will run or not."""
        steps, judged = list_steps(self.messages), {}
        for call in calls:
            tool = self.plan.toolset.get(call.name)
            judged[call.id] = check_repetition(call.name, call.arguments, steps, polls=bool(tool and tool.polls))
            steps.append(to_pending_call(call.name, call.arguments, steps))
        return judged

    async def _apply_hooks(self, calls: Sequence[ToolCallRequest]) -> list[ToolCallRequest]:
        """The calls as the plugins' hooks leave them, which is how they are judged, recorded and run. Blocks are remembered."""
        hooked = []
        for call in calls:
            tool = self.plan.toolset.get(call.name)
            if call.error or tool is None:
                hooked.append(call)
                continue
            # Under the names that the tool knows: a hook that looks for `path` must not miss a `file_path`.
            call = replace(call, arguments=apply_aliases(call.name, call.arguments, tool.parameters))
            asked = HookCall(call.name, call.arguments, self.plan.agent.slug, self._claimed.session_key)
            match await run_hooks(asked, self.plan.hooks):
                case ArgumentsChanged(arguments):
                    call = replace(call, arguments=arguments)
                case CallBlocked() as blocked:
                    self._blocked[call.id] = blocked
            hooked.append(call)
        return hooked

    async def _authorize_call(self, call: ToolCallRequest, opinion: LoopVerdict) -> AuthorizedCall | ToolResult:
        """The permit for a call; or what is told in place of its result, and stored."""
        authorization = self.decided[call.id]
        if authorization.permit is None:
            return authorization.refusal
        if call.error:
            result = text_result(_unreadable_arguments_text(call.error), is_error=True)
        elif blocked := self._blocked.get(call.id):
            result = blocked.result
        elif opinion.refuse:
            result = build_loop_denial(call.name, opinion)
        else:
            return authorization.permit
        result = build_denied_result(call.name, result, opinion)
        await self._store.record_not_run(call, result)
        return result


def _unreadable_arguments_text(error: str) -> str:
    return f"the arguments could not be read: {error}. Send them as one JSON object."
