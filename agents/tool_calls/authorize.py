"""Authorize all tool calls of one answer with the current rules and tools, and store the decisions.

These functions run on the writer thread in a transaction and may be retried, so they change only the database.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from agents.prepare.model_plan import ModelPlan
from agents.tool_calls.propose import ProposedCall, unreadable_arguments
from clawsite.infra.reasons import Reason
from sessions_app.models import ToolCall
from sessions_app.runs import queue, tool_calls
from sessions_app.runs.queue import ClaimedRun
from sessions_app.runs.tool_calls import CallDecision
from tools_app.authorize import Authorization, authorize_tool_call
from tools_app.core.supervision import SupervisedCall, Supervision
from tools_app.loop_guard import build_denied_result
from tools_app.policy.evaluation import NOT_OFFERED
from tools_app.policy_store.policies import current_rules
from tools_app.sources.offered import read_current_offer

STATUS_BY_EFFECT = {
    "allow": ToolCall.Status.ALLOWED,
    "ask": ToolCall.Status.WAITING,
    "deny": ToolCall.Status.REFUSED,
    "hand_over": ToolCall.Status.HANDED_OVER,
}
MAX_TOOL_NAME_LENGTH = 128  # characters of a tool name that are stored; the model may have made it up


@dataclass(frozen=True, slots=True)
class DecidedCall:
    """A proposed call and the decision about it."""

    proposed: ProposedCall
    authorization: Authorization

    @property
    def waits_for_approval(self) -> bool:
        return self.authorization.effect == "ask"

    @property
    def depends_on_files(self) -> bool:
        supervision = self.authorization.supervision
        return bool(supervision and supervision.plan and supervision.plan.depends_on_files)


Decisions = Mapping[str, DecidedCall]  # by call ID


def authorize_calls_again(claimed: ClaimedRun, calls: Sequence[ProposedCall], plan: ModelPlan) -> Decisions:
    """Authorize calls left by an earlier worker: policies or approvals may have changed since."""
    queue.write_step(claimed)  # checks the fence: a decision alone would not, and could undo what the next owner has done
    return authorize_calls(claimed, calls, plan)


def authorize_calls(claimed: ClaimedRun, calls: Sequence[ProposedCall], plan: ModelPlan, *, why: str = "") -> Decisions:
    """Authorize all calls of a turn with the current rules and tools, and publish denials and approval requests."""
    toolset, rules = plan.toolset, current_rules()
    now = read_current_offer(toolset.query.tools)
    decided: dict[str, DecidedCall] = {}
    for proposed in calls:
        call = proposed.call
        authorization = authorize_tool_call(
            proposed.ref,
            toolset=toolset,
            rules=rules,
            now=now,
            supervise=partial(_supervise, claimed, proposed.supervised, why, rules.version),
        )
        if authorization.effect == "hand_over" and call.error:
            rule, code = unreadable_arguments(call), "invalid_arguments"
            message = f"{code}: {rule.text}"
            authorization = replace(authorization, effect="deny", layer=NOT_OFFERED, rule=rule, message=message, code=code)
        if authorization.effect == "deny":
            message = build_denied_result(call.name[:MAX_TOOL_NAME_LENGTH], authorization.denial, proposed.verdict).text
            authorization = replace(authorization, message=message)
        decided[call.id] = DecidedCall(proposed, authorization)
    decisions = [_to_decision(each.proposed, each.authorization) for each in decided.values()]
    tool_calls.record_decisions(claimed, decisions)
    for decision in decisions:
        supervision = decided[decision.call_id].authorization.supervision
        if decision.status == ToolCall.Status.REFUSED:
            tool_calls.record_denial(claimed, decision)
        elif supervision and supervision.newly_requested:
            tool_calls.record_waiting(claimed, decision, supervision.announcement)
    return decided


def _supervise(claimed: ClaimedRun, call: SupervisedCall | None, why: str, version: int) -> Supervision:
    if call is None:
        return Supervision("deny", Reason("exec.not_planned"))
    return call.decide(claimed, why=why, version=version)


def _to_decision(proposed: ProposedCall, authorization: Authorization) -> CallDecision:
    return CallDecision(
        call_id=proposed.call.id,
        name=proposed.call.name[:MAX_TOOL_NAME_LENGTH],
        arguments=proposed.call.arguments,
        status=STATUS_BY_EFFECT[authorization.effect],
        refused_by=authorization.layer,
        message=authorization.message,
        query=authorization.query,
        verdict=authorization.verdict,
        policy_version=authorization.policy_version,
        code=authorization.code,
    )
