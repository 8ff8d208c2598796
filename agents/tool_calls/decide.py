"""All tool calls of one answer are decided at once, by the rules and tools of this moment, and the decisions become rows.

These functions run on the writer thread inside a transaction, and may be run twice: they change nothing but the database.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from agents.llm.messages import ToolCallAsked
from agents.prepare.run_plan import RunPlan
from sessions_app.labels.rules import NOT_OFFERED
from sessions_app.models import ToolCall
from sessions_app.runs import queue, tool_calls
from sessions_app.runs.queue import Claimed
from sessions_app.runs.tool_calls import Decision
from tools_app.approvals.supervise import supervise
from tools_app.authorize import Authorization, authorize_tool_call
from tools_app.core.definition import CallRef
from tools_app.core.supervision import Supervision
from tools_app.exec.plan import Planned
from tools_app.loop_guard import Opinion, told_instead
from tools_app.policy_store.policies import current_rules
from tools_app.sources.offered import offered_now

STATUSES = {
    "allow": ToolCall.Status.ALLOWED,
    "ask": ToolCall.Status.WAITING,
    "deny": ToolCall.Status.REFUSED,
    "hand_over": ToolCall.Status.HANDED_OVER,
}
LONGEST_NAME = 128  # characters of a tool's name that the model made up


@dataclass(frozen=True, slots=True)
class Turn:
    """The calls of one answer as they will be decided, and what is known about each before that, by call id."""

    calls: Sequence[ToolCallAsked]
    plans: Mapping[str, Planned | Supervision] = field(default_factory=dict)  # of supervised ones; or what is told instead
    opinions: Mapping[str, Opinion] = field(default_factory=dict)  # of the loop guard


def decide_again(claimed: Claimed, turn: Turn, plan: RunPlan) -> dict[str, Authorization]:
    queue.step(claimed)  # the fence: a decision alone would pass it, and undo what the next owner has done by now
    return decide(claimed, turn, plan)


def decide(claimed: Claimed, turn: Turn, plan: RunPlan, *, why: str = "") -> dict[str, Authorization]:
    """Authorise all calls of a turn by the rules and the sources of tools of this moment, and tell refusals and questions."""
    toolset, rules = plan.toolset, current_rules()
    now = offered_now(toolset.query.tools)
    decided: dict[str, Authorization] = {}
    for call in turn.calls:
        made = authorize_tool_call(
            CallRef(call.id, call.name, call.arguments),
            toolset=toolset,
            rules=rules,
            now=now,
            supervise=partial(_supervised, claimed, turn.plans.get(call.id), why, rules.version),
        )
        if made.effect == "hand_over" and call.error:
            words = f"invalid_arguments: the arguments could not be read: {call.error} Send them as one JSON object."
            made = replace(made, effect="deny", layer=NOT_OFFERED, rule=call.error, reason=words, code="invalid_arguments")
        if made.effect == "deny":
            words = told_instead(call.name[:LONGEST_NAME], made.refusal, turn.opinions[call.id]).text
            made = replace(made, reason=words)
        decided[call.id] = made
    decisions = [_decision(call, decided[call.id]) for call in turn.calls]
    tool_calls.record(claimed, decisions)
    for decision in decisions:
        asked = decided[decision.call_id].supervision
        if decision.status == ToolCall.Status.REFUSED:
            tool_calls.refuse(claimed, decision)
        elif asked and asked.asked_now:
            tool_calls.wait(claimed, decision, asked.told)
    return decided


def _supervised(claimed: Claimed, planned: Planned | Supervision | None, why: str, version: int) -> Supervision:
    if planned is None:
        return Supervision("deny", "exec_denied: no plan of it could be made. It did not run.")
    return planned if isinstance(planned, Supervision) else supervise(claimed, planned, why=why, version=version)


def _decision(call: ToolCallAsked, authorization: Authorization) -> Decision:
    return Decision(
        call_id=call.id,
        name=call.name[:LONGEST_NAME],
        arguments=call.arguments,
        status=STATUSES[authorization.effect],
        refused_by=authorization.layer,
        words=authorization.reason,
        query=authorization.query,
        verdict=authorization.verdict,
        policy_version=authorization.policy_version,
        code=authorization.code,
    )
