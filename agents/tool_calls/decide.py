"""All tool calls of one answer are decided at once, by the rules and tools of this moment, and the decisions become rows.

These functions run on the writer thread inside a transaction, and may be run twice: they change nothing but the database.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from agents.llm.messages import ToolCallRequest
from agents.prepare.run_plan import RunPlan
from sessions_app.labels.rules import NOT_OFFERED
from sessions_app.models import ToolCall
from sessions_app.runs import queue, tool_calls
from sessions_app.runs.queue import ClaimedRun
from sessions_app.runs.tool_calls import CallDecision
from tools_app.approvals.supervise import decide_command
from tools_app.authorize import Authorization, authorize_tool_call
from tools_app.core.definition import CallRef
from tools_app.core.supervision import Supervision
from tools_app.exec.plan import PlannedCommand
from tools_app.loop_guard import LoopVerdict, build_denied_result
from tools_app.policy_store.policies import current_rules
from tools_app.sources.offered import read_current_offer

STATUS_BY_EFFECT = {
    "allow": ToolCall.Status.ALLOWED,
    "ask": ToolCall.Status.WAITING,
    "deny": ToolCall.Status.REFUSED,
    "hand_over": ToolCall.Status.HANDED_OVER,
}
MAX_TOOL_NAME_LENGTH = 128  # characters of a tool's name that the model made up


@dataclass(frozen=True, slots=True)
class ProposedCalls:
    """The calls of one answer as they will be decided, and what is known about each before that, by call id."""

    calls: Sequence[ToolCallRequest]
    plans: Mapping[str, PlannedCommand | Supervision] = field(default_factory=dict)  # of supervised ones; or what is told instead
    opinions: Mapping[str, LoopVerdict] = field(default_factory=dict)  # of the loop guard


def decide_calls_again(claimed: ClaimedRun, turn: ProposedCalls, plan: RunPlan) -> dict[str, Authorization]:
    queue.write_step(claimed)  # the fence: a decision alone would pass it, and undo what the next owner has done by now
    return decide_calls(claimed, turn, plan)


def decide_calls(claimed: ClaimedRun, turn: ProposedCalls, plan: RunPlan, *, why: str = "") -> dict[str, Authorization]:
    """Authorise all calls of a turn by the rules and the sources of tools of this moment, and tell refusals and questions."""
    toolset, rules = plan.toolset, current_rules()
    now = read_current_offer(toolset.query.tools)
    decided: dict[str, Authorization] = {}
    for call in turn.calls:
        made = authorize_tool_call(
            CallRef(call.id, call.name, call.arguments),
            toolset=toolset,
            rules=rules,
            now=now,
            supervise=partial(_supervise, claimed, turn.plans.get(call.id), why, rules.version),
        )
        if made.effect == "hand_over" and call.error:
            words = f"invalid_arguments: the arguments could not be read: {call.error} Send them as one JSON object."
            made = replace(made, effect="deny", layer=NOT_OFFERED, rule=call.error, reason=words, code="invalid_arguments")
        if made.effect == "deny":
            words = build_denied_result(call.name[:MAX_TOOL_NAME_LENGTH], made.refusal, turn.opinions[call.id]).text
            made = replace(made, reason=words)
        decided[call.id] = made
    decisions = [_to_decision(call, decided[call.id]) for call in turn.calls]
    tool_calls.record_decisions(claimed, decisions)
    for decision in decisions:
        asked = decided[decision.call_id].supervision
        if decision.status == ToolCall.Status.REFUSED:
            tool_calls.record_denial(claimed, decision)
        elif asked and asked.newly_requested:
            tool_calls.record_waiting(claimed, decision, asked.told)
    return decided


def _supervise(claimed: ClaimedRun, planned: PlannedCommand | Supervision | None, why: str, version: int) -> Supervision:
    if planned is None:
        return Supervision("deny", "exec_denied: no plan of it could be made. It did not run.")
    return planned if isinstance(planned, Supervision) else decide_command(claimed, planned, why=why, version=version)


def _to_decision(call: ToolCallRequest, authorization: Authorization) -> CallDecision:
    return CallDecision(
        call_id=call.id,
        name=call.name[:MAX_TOOL_NAME_LENGTH],
        arguments=call.arguments,
        status=STATUS_BY_EFFECT[authorization.effect],
        refused_by=authorization.layer,
        words=authorization.reason,
        query=authorization.query,
        verdict=authorization.verdict,
        policy_version=authorization.policy_version,
        code=authorization.code,
    )
