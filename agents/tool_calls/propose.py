"""The first steps of every tool call, before any transaction: guard → hooks → plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agents.llm.messages import Message, ToolCallRequest
from agents.loop import list_steps
from agents.prepare.model_plan import ModelPlan
from agents.prepare.run_plan import RunPlan
from clawsite.infra.reasons import Reason
from tools_app.core.definition import CallRef, Tool, ToolResult, text_result
from tools_app.core.plugin_hooks import ArgumentsChanged, CallBlocked, HookCall, run_hooks
from tools_app.core.supervision import SupervisedCall, Supervision, deny_unplanned_call
from tools_app.execute import plan_call
from tools_app.loop_guard import LoopVerdict, build_loop_denial, check_repetition, to_pending_call
from tools_app.schemas.argument_aliases import apply_aliases
from tools_app.toolset import Toolset


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a call will not run even if it is allowed: the result the model gets instead."""

    result: ToolResult
    code: str


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call as it will be authorized, recorded and run."""

    call: ToolCallRequest  # with the arguments as plugin hooks have changed them
    verdict: LoopVerdict  # of the loop guard
    obstacle: Obstacle | None = None
    supervised: SupervisedCall | None = None  # for calls of supervised tools

    @property
    def ref(self) -> CallRef:
        return CallRef(self.call.id, self.call.name, self.call.arguments)


async def propose_calls(calls: Sequence[ToolCallRequest], messages: Sequence[Message], plan: ModelPlan) -> list[ProposedCall]:
    """Collect everything needed to authorize the calls of one answer. `messages` are those before the answer."""
    verdicts = check_loops(calls, messages, plan.toolset)
    proposed = []
    for call in calls:
        tool, verdict = plan.toolset.get(call.name), verdicts[call.id]
        call, blocked = await apply_hooks(call, tool, plan.run)
        obstacle = _find_obstacle(call, blocked, verdict)
        supervised = await _plan(call, tool, obstacle) if tool else None
        proposed.append(ProposedCall(call, verdict, obstacle, supervised))
    return proposed


def check_loops(calls: Sequence[ToolCallRequest], messages: Sequence[Message], toolset: Toolset) -> Mapping[str, LoopVerdict]:
    """Return the loop guard's verdict on each call as the model made it, by call ID, whether the call will run or not."""
    steps, verdicts = list_steps(messages), {}
    for call in calls:
        tool = toolset.get(call.name)
        verdicts[call.id] = check_repetition(call.name, call.arguments, steps, polls=bool(tool and tool.polls))
        steps.append(to_pending_call(call.name, call.arguments, steps))
    return verdicts


async def apply_hooks(call: ToolCallRequest, tool: Tool | None, run: RunPlan) -> tuple[ToolCallRequest, CallBlocked | None]:
    """Return the call as changed by plugin hooks, and whether one blocks it."""
    if call.error or tool is None:
        return call, None
    # Resolve argument aliases first: a hook that checks `path` must not miss a `file_path`.
    call = replace(call, arguments=apply_aliases(call.name, call.arguments, tool.parameters))
    match await run_hooks(HookCall(call.name, call.arguments, run.agent.slug, run.claimed.session_key), run.hooks):
        case ArgumentsChanged(arguments):
            return replace(call, arguments=arguments), None
        case CallBlocked() as blocked:
            return call, blocked
    return call, None


def unreadable_arguments(call: ToolCallRequest) -> Reason:
    return Reason("call.unreadable_arguments", error=call.error)


def _find_obstacle(call: ToolCallRequest, blocked: CallBlocked | None, verdict: LoopVerdict) -> Obstacle | None:
    if call.error:
        return Obstacle(text_result(unreadable_arguments(call).text, is_error=True), "invalid_arguments")
    if blocked:
        return Obstacle(blocked.result, "blocked_by_hook")
    if verdict.deny:
        return Obstacle(build_loop_denial(call.name, verdict), "loop_detected")
    return None


async def _plan(call: ToolCallRequest, tool: Tool, obstacle: Obstacle | None) -> SupervisedCall | None:
    """Plan a call of a supervised tool. One that won't run anyway is denied here, so that no approval is requested for it."""
    if tool.supervisor is None:
        return None
    if call.error:
        denied = Supervision("deny", unreadable_arguments(call), code="invalid_arguments")
        return SupervisedCall(tool.supervisor, decided=denied)
    if obstacle:
        return SupervisedCall(tool.supervisor, decided=deny_unplanned_call(obstacle.result.text, obstacle.code))
    return await plan_call(tool, CallRef(call.id, call.name, call.arguments))
