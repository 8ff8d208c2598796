"""What becomes of a planned command: allowed, asked about, or denied, by the rules, grants and answers of this moment.

Called in the transaction that decides a turn's calls, and once more in the one that starts a call.
"""

from dataclasses import replace

from clawsite.accounts.models import User
from clawsite.infra import clock
from sessions_app.runs import tool_calls
from sessions_app.runs.types import ClaimedRun
from tools_app.approvals import allowed_by, approvers, grants
from tools_app.approvals import requests as approval_requests
from tools_app.approvals.grants import GrantSet
from tools_app.core.supervision import Supervision
from tools_app.exec.gate.verdict import GateReason, GateRules, GateVerdict, judge
from tools_app.exec.plan import ExecPlan, PlannedCommand
from tools_app.exec.rules import ExecRules, rules_for_run
from tools_app.models import Approval
from tools_app.models.exec_rule import ExecRule

Status = Approval.Status
# The code of a refusal where nobody has said anything about commands. It is stored with the call's result: whoever reads that
# may offer to let the agent ask, as long as `nobody_has_said`.
NO_RULE_CODE = "exec_no_rule"


def decide_command(claimed: ClaimedRun, planned: PlannedCommand, *, why: str, version: int) -> Supervision:
    """Decide about one planned command; a question is asked here if one is needed and none is open."""
    plan = planned.plan
    rules = tighten_without_isolation(rules_for_run(claimed), plan)
    judgement, used = judge_with_grants(planned, rules, claimed.owner_id)
    answer = Approval.objects.filter(run_id=claimed.pk, call_id=plan.call).exclude(status=Status.VOID).first()
    if denied := find_obstacle(claimed, plan, rules, judgement):
        if answer:
            approval_requests.void_approvals([answer], denied)
        return Supervision("deny", denied, plan, code=NO_RULE_CODE if is_undecided(rules) else "exec_denied")
    if answer and (lapse := approvers.why_approval_lapsed(answer, rules)):
        approval_requests.void_approvals([answer], lapse)
        judgement = replace(
            judgement, reasons=(GateReason("asked-anew", f"It was approved before, but {lapse}."), *judgement.reasons)
        )
        why, answer = why or answer.why, None
    if answer and answer.status == Status.EXPIRED:
        judgement, used = judge_with_grants(planned, rules_after_expiry(rules, plan), claimed.owner_id)
    if answer:
        return _apply_approval(answer, planned, rules, judgement, used)
    if judgement.effect == "allow":
        return Supervision("allow", plan=plan, grants=used)
    asked = approval_requests.request_approval(claimed, planned, judgement, rules, why=why, version=version)
    told = {"id": str(asked.pk), "expiresAt": clock.to_ms(asked.expires_at), "needed": asked.needed}
    return Supervision("ask", plan=plan, approval=str(asked.pk), newly_requested=True, told=told)


def is_undecided(rules: ExecRules) -> bool:
    """Commands are refused because there is no rule, not because of one: letting the agent ask would help."""
    return rules.security == "deny" and not rules.said_by.get("security")


def tighten_without_isolation(rules: ExecRules, plan: ExecPlan) -> ExecRules:
    """Without isolation the list alone is no boundary: every command is asked about, unless an operator wants it otherwise."""
    if plan.level == ExecRule.Level.NONE and not rules.unsafe_without_isolation and rules.security != "deny":
        return replace(rules, ask="always", said_by={**rules.said_by, "ask": "this host has no sandbox"})
    return rules


def rules_after_expiry(rules: ExecRules, plan: ExecPlan) -> ExecRules:
    """The rules for what was asked about and nobody answered: the list counts then, where the host can shut commands in."""
    shut_in = plan.level != ExecRule.Level.NONE or rules.unsafe_without_isolation
    return replace(rules, ask="on-miss") if rules.ask == "always" and rules.ask_fallback == "allowlist" and shut_in else rules


def judge_with_grants(planned: PlannedCommand, rules: ExecRules, requester: int) -> tuple[GateVerdict, tuple[int, ...]]:
    """The gate's judgement by the grants that reach this plan of this account, and which of them it would use."""
    if planned.plan.input_to:
        return _judge_input(planned, rules), ()
    return judge_with_grant_set(planned, rules, filter_valid_grants(grants.find_grants(planned.plan), rules, requester))


def judge_with_grant_set(planned: PlannedCommand, rules: ExecRules, standing: GrantSet) -> tuple[GateVerdict, tuple[int, ...]]:
    """The same by these grants."""
    free = standing.without_use_limited()
    judgement = _judge(planned, rules, free)
    by_list = free.find_matching(planned.analysis) if rules.security == "allowlist" else ()
    if judgement.effect == "allow":
        return judgement, by_list
    if judgement.effect != "ask" or rules.ask == "always":
        return judgement, ()
    for more, used in standing.with_use_limited():
        if (better := _judge(planned, rules, more)).effect == "allow":
            return better, (*used, *by_list)
    if standing.find_line_grant:
        return replace(judgement, effect="allow"), standing.find_line_grant
    return judgement, ()


def _judge_input(planned: PlannedCommand, rules: ExecRules) -> GateVerdict:
    """Text that is typed into a running command: no list can say what comes of it."""
    allowed = rules.security == "full" and rules.ask == "off"
    return GateVerdict("allow" if allowed else "deny" if rules.ask == "off" else "ask", planned.analysis.doubts, planned.analysis)


def filter_valid_grants(standing: GrantSet, rules: ExecRules, requester: int) -> GrantSet:
    """Without what was granted by fewer people than this rule wants, or by somebody who could not answer here today."""
    return GrantSet([row for row in standing.rows if approvers.is_grant_still_valid(row, rules, requester)], standing.plan)


def _judge(planned: PlannedCommand, rules: ExecRules, standing: GrantSet) -> GateVerdict:
    return judge(planned.analysis, GateRules(rules.security, rules.ask, standing.entries))


def find_obstacle(claimed: ClaimedRun, plan: ExecPlan, rules: ExecRules, judgement: GateVerdict) -> str:
    """Why this command must not run whatever anybody answered; empty when nothing does."""
    if rules.security == "deny":
        place = rules.said_by.get("security", "")
        said = (
            f"the exec rule of {place} says so" if place else "no exec rule allows commands here; an operator can let the agent ask"
        )
        return f"exec_denied: commands are refused: {said}. It did not run."
    if lack := find_missing_isolation(plan, rules):
        return f"exec_denied: {lack}. It did not run."
    if plan.network and not rules.network:
        return "exec_denied: the exec rules give commands no network any more. It did not run. Ask again if it is still needed."
    if judgement.effect == "deny":
        return f"exec_denied: {' '.join(reason.words for reason in judgement.reasons)} It did not run."
    if not User.objects.filter(pk=claimed.owner_id, is_active=True).exists():
        return "exec_denied: the account that asked for it is switched off. It did not run."
    return ""


def find_missing_isolation(plan: ExecPlan, rules: ExecRules) -> str:
    """That the rules want more than the plan has, in words; empty when they do not."""
    if plan.level >= rules.minimum_level:
        return ""
    return f"the exec rules want isolation by {ExecRule.Level(rules.minimum_level).label}, which this host does not have"


def _apply_approval(
    answer: Approval, planned: PlannedCommand, rules: ExecRules, judgement: GateVerdict, used: tuple[int, ...]
) -> Supervision:
    plan = planned.plan
    if answer.plan_hash != plan.hash:
        changed = ", ".join(ExecPlan.from_json(answer.plan).differences(plan))
        words = f"what would run is not what was asked about any more ({changed} changed)"
        approval_requests.void_approvals([answer], words)
        return Supervision("deny", f"exec_denied: {words}. It did not run. Ask again if it is still needed.", plan)
    match answer.status:
        case Status.APPROVED:
            return Supervision("allow", plan=plan, approval=str(answer.pk))
        case Status.PENDING:
            return Supervision("ask", plan=plan, approval=str(answer.pk))
        case Status.EXPIRED if rules.ask_fallback == "allowlist" and judgement.effect == "allow":
            return Supervision("allow", plan=plan, grants=used, unanswered=True)
        case Status.EXPIRED:
            return Supervision("deny", "exec_denied: nobody approved the command in time. It did not run.", plan)
        case Status.DENIED if answer.decision == Approval.Decision.DROP:
            return Supervision("deny", f"exec_denied: the command was dropped: {answer.reason}. It did not run.", plan)
        case Status.DENIED:
            said = f": {answer.reason}" if answer.reason else ""
            return Supervision("deny", f"exec_denied: a person refused the command{said}. It did not run.", plan)
        case _:  # used: the call was started under an earlier lease and must have a result by now
            return Supervision("deny", "exec_denied: this approval was used already. It did not run again.", plan)


def use_approval_or_grants(claimed: ClaimedRun, planned: PlannedCommand, decided: Supervision) -> str:
    """In the transaction that starts the call: use up the answer or the grants, and write down which. -> why not; or empty."""
    plan = planned.plan
    rules = tighten_without_isolation(rules_for_run(claimed), plan)
    judgement, used = judge_with_grants(planned, rules_after_expiry(rules, plan) if decided.unanswered else rules, claimed.owner_id)
    if denied := find_obstacle(claimed, plan, rules, judgement):
        approval_requests.void_for_call(claimed.pk, plan.call, denied)
        return denied
    if decided.approval:
        answer = Approval.objects.filter(pk=decided.approval).select_related("decided_by", "session", "run").first()
        if answer and (lapse := approvers.why_approval_lapsed(answer, rules)):
            approval_requests.void_approvals([answer], lapse)
            return f"exec_denied: it was approved, but {lapse}. It did not run. Ask again if it is still needed."
        if used_up := approval_requests.use_approval(claimed.pk, plan.call, plan.hash):
            tool_calls.record_admission(claimed, plan.call, allowed_by.admission_by_approval(used_up))
            return ""
        return "exec_denied: its approval is not valid any more. It did not run."
    if judgement.effect != "allow" or not grants.use_grants(used):
        return "exec_denied: what allowed it was taken back a moment ago. It did not run. Ask again if it is still needed."
    tool_calls.record_admission(claimed, plan.call, allowed_by.admission_by_grants(used))
    return ""
