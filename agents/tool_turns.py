"""The tool calls of one run, turn by turn: looked at before anybody decides about them, and cleared before they are made.

Hooks of plugins, the loop guard and the plan of a command come first; the decision itself and every row are agents.run_store's.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from agents.instrumentation import ToolWatch
from agents.llm.messages import Message, ToolCallAsked
from agents.loop import Parked, UseEvent, steps_taken
from agents.prepare.run_plan import RunPlan
from agents.run_store import Store
from agents.tool_calls.decide import Turn
from sessions_app.runs.queue import Claimed
from tools_app.authorize import Authorization, AuthorizedCall
from tools_app.core.definition import CallRef, ToolEnded, ToolResult, text_result
from tools_app.core.plugin_hooks import Blocked, Changed, HookCall, run_hooks
from tools_app.core.supervision import Supervision
from tools_app.exec.plan import ExecPlan, Planned
from tools_app.execute import planned, use_tools
from tools_app.loop_guard import Opinion, judge, pending, refusal, told_instead
from tools_app.schemas.argument_aliases import with_own_names


class ToolTurns:
    """Of one claimed run. `plan` and `messages` are the runner's, as they are at this moment; `abort` stops what is being made."""

    plan: RunPlan
    messages: Sequence[Message] = ()

    def __init__(self, claimed: Claimed, store: Store, span: str) -> None:
        self._claimed, self._store, self._span = claimed, store, span
        self.decided: dict[str, Authorization] = {}
        self._blocked: dict[str, Blocked] = {}
        self.abort = asyncio.Event()

    async def use(self, calls: Sequence[ToolCallAsked]) -> AsyncGenerator[UseEvent, None]:
        """Carry out the calls of one turn that have no result yet."""
        opinions = self._judged(calls)
        undecided = [call for call in calls if call.id not in self.decided]
        if undecided:  # the run was rescued or parked between the decision and the result: the policy may have changed
            self.decided |= await self._store.decide(await self.turn(undecided), self.plan)
        permits: list[AuthorizedCall] = []
        waiting = False
        for call in calls:
            if waiting := self.decided[call.id].effect == "ask":
                break  # in the model's order: what comes behind may build on it
            cleared = await self._clear(call, opinions[call.id])
            if isinstance(cleared, ToolResult):
                yield ToolEnded(CallRef(call.id, call.name, call.arguments), cleared)
            else:
                permits.append(cleared)
        notes = {call_id: opinion.note for call_id, opinion in opinions.items()}
        watch = ToolWatch(self._span)
        async with aclosing(use_tools(permits, journal=self._store, abort=self.abort, notes=notes)) as events, aclosing(watch):
            async for event in events:
                watch.saw(event)
                yield event
        if waiting and permits and self._runs_scripts(call):
            # What was done just now may have written what the command runs: people are asked about what is there.
            del self.decided[call.id]
            async with aclosing(self.use(calls[calls.index(call) :])) as rest:
                async for later in rest:
                    yield later
        elif waiting:
            yield Parked("approval")

    def _runs_scripts(self, call: ToolCallAsked) -> bool:
        asked = self.decided[call.id].supervision
        return bool(asked and isinstance(asked.plan, ExecPlan) and asked.plan.scripts)

    async def turn(self, calls: Sequence[ToolCallAsked]) -> Turn:
        """Everything that is known about the calls of one turn before the transaction that decides about them."""
        opinions = self._judged(calls)
        hooked = await self._hooked(calls)
        plans = {call.id: plan for call in hooked if (plan := await self._planned(call, opinions[call.id]))}
        return Turn(hooked, plans, opinions)

    async def _planned(self, call: ToolCallAsked, opinion: Opinion) -> Planned | Supervision | None:
        """What a supervised call would do. What will not run anyway is not planned, so that nobody is asked about it."""
        tool = self.plan.toolset.get(call.name)
        if tool is None or tool.plan is None:
            return None
        if call.error:
            return Supervision("deny", _unreadable(call.error), code="invalid_arguments")
        if blocked := self._blocked.get(call.id):
            return Supervision("deny", blocked.result.text, code="blocked_by_hook")
        if opinion.refuse:
            return Supervision("deny", refusal(call.name, opinion).text, code="loop_detected")
        made: Planned | Supervision = await planned(tool, CallRef(call.id, call.name, call.arguments))
        return made

    def _judged(self, calls: Sequence[ToolCallAsked]) -> dict[str, Opinion]:
        """What the loop guard thinks of the calls of one turn, as the model made them, whether they will run or not."""
        steps, judged = steps_taken(self.messages), {}
        for call in calls:
            tool = self.plan.toolset.get(call.name)
            judged[call.id] = judge(call.name, call.arguments, steps, polls=bool(tool and tool.polls))
            steps.append(pending(call.name, call.arguments, steps))
        return judged

    async def _hooked(self, calls: Sequence[ToolCallAsked]) -> list[ToolCallAsked]:
        """The calls as the plugins' hooks leave them, which is how they are judged, recorded and run. Blocks are remembered."""
        hooked = []
        for call in calls:
            tool = self.plan.toolset.get(call.name)
            if call.error or tool is None:
                hooked.append(call)
                continue
            # Under the names that the tool knows: a hook that looks for `path` must not miss a `file_path`.
            call = replace(call, arguments=with_own_names(call.name, call.arguments, tool.parameters))
            asked = HookCall(call.name, call.arguments, self.plan.agent.slug, self._claimed.session_key)
            match await run_hooks(asked, self.plan.hooks):
                case Changed(arguments):
                    call = replace(call, arguments=arguments)
                case Blocked() as blocked:
                    self._blocked[call.id] = blocked
            hooked.append(call)
        return hooked

    async def _clear(self, call: ToolCallAsked, opinion: Opinion) -> AuthorizedCall | ToolResult:
        """The permit for a call; or what is told in place of its result, and stored."""
        authorization = self.decided[call.id]
        if authorization.permit is None:
            return authorization.refusal
        if call.error:
            result = text_result(_unreadable(call.error), is_error=True)
        elif blocked := self._blocked.get(call.id):
            result = blocked.result
        elif opinion.refuse:
            result = refusal(call.name, opinion)
        else:
            return authorization.permit
        result = told_instead(call.name, result, opinion)
        await self._store.not_run(call, result)
        return result


def _unreadable(error: str) -> str:
    return f"the arguments could not be read: {error}. Send them as one JSON object."
