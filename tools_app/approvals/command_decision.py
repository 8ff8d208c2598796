"""Decide whether a planned command is allowed, denied or needs approval, by the current rules, grants and decisions.

Runs in the transaction that decides a turn's tool calls, and again in the one that starts a call.
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
# Denial code used when no exec rule applies to commands. It is stored with the call's result; clients may offer to
# enable approval requests for the agent while `is_undecided` is true.
NO_RULE_CODE = "exec_no_rule"


def decide_command(claimed: ClaimedRun, planned: PlannedCommand, *, why: str, version: int) -> Supervision:
    """Decide one planned command. Creates an approval request if one is needed and none is open."""
    plan = planned.plan
    rules = tighten_without_isolation(rules_for_run(claimed), plan)
    verdict, used = judge_with_grants(planned, rules, claimed.owner_id)
    approval = Approval.objects.filter(run_id=claimed.pk, call_id=plan.call).exclude(status=Status.VOID).first()
    if denied := find_obstacle(claimed, plan, rules, verdict):
        if approval:
            approval_requests.void_approvals([approval], denied)
        return Supervision("deny", denied, plan, code=NO_RULE_CODE if is_undecided(rules) else "exec_denied")
    if approval and (lapse := approvers.why_approval_lapsed(approval, rules)):
        approval_requests.void_approvals([approval], lapse)
        verdict = replace(verdict, reasons=(GateReason("asked-anew", f"It was approved before, but {lapse}."), *verdict.reasons))
        why, approval = why or approval.why, None
    if approval and approval.status == Status.EXPIRED:
        verdict, used = judge_with_grants(planned, rules_after_expiry(rules, plan), claimed.owner_id)
    if approval:
        return _apply_approval(approval, planned, rules, verdict, used)
    if verdict.effect == "allow":
        return Supervision("allow", plan=plan, grants=used)
    request = approval_requests.request_approval(claimed, planned, verdict, rules, why=why, version=version)
    wire = {"id": str(request.pk), "expiresAt": clock.to_ms(request.expires_at), "needed": request.needed}
    return Supervision("ask", plan=plan, approval=str(request.pk), newly_requested=True, announcement=wire)


def is_undecided(rules: ExecRules) -> bool:
    """Whether commands are denied only because no rule decides: enabling approval requests for the agent would help."""
    return rules.security == "deny" and not rules.set_by.get("security")


def tighten_without_isolation(rules: ExecRules, plan: ExecPlan) -> ExecRules:
    """Without a sandbox, the allowlist alone is not a boundary: every command needs approval unless an operator opted out."""
    if plan.level == ExecRule.Level.NONE and not rules.unsafe_without_isolation and rules.security != "deny":
        return replace(rules, ask="always", set_by={**rules.set_by, "ask": "this host has no sandbox"})
    return rules


def rules_after_expiry(rules: ExecRules, plan: ExecPlan) -> ExecRules:
    """The rules for an expired request: the allowlist applies if the rules say so and the host can sandbox commands."""
    confined = plan.level != ExecRule.Level.NONE or rules.unsafe_without_isolation
    return replace(rules, ask="on-miss") if rules.ask == "always" and rules.ask_fallback == "allowlist" and confined else rules


def judge_with_grants(planned: PlannedCommand, rules: ExecRules, requester: int) -> tuple[GateVerdict, tuple[int, ...]]:
    """Judge a plan by the grants that apply to it for this requester. Returns the verdict and the grants it would use."""
    if planned.plan.input_to:
        return _judge_input(planned, rules), ()
    return judge_with_grant_set(planned, rules, filter_valid_grants(grants.find_grants(planned.plan), rules, requester))


def judge_with_grant_set(planned: PlannedCommand, rules: ExecRules, grant_set: GrantSet) -> tuple[GateVerdict, tuple[int, ...]]:
    """Judge a plan by the given grants."""
    free = grant_set.without_use_limited()
    verdict = _judge(planned, rules, free)
    by_list = free.find_matching(planned.analysis) if rules.security == "allowlist" else ()
    if verdict.effect == "allow":
        return verdict, by_list
    if verdict.effect != "ask" or rules.ask == "always":
        return verdict, ()
    for more, used in grant_set.with_use_limited():
        if (better := _judge(planned, rules, more)).effect == "allow":
            return better, (*used, *by_list)
    if grant_set.find_line_grant:
        return replace(verdict, effect="allow"), grant_set.find_line_grant
    return verdict, ()


def _judge_input(planned: PlannedCommand, rules: ExecRules) -> GateVerdict:
    """Judge text typed into a running command. No allowlist can predict what the program does with it."""
    allowed = rules.security == "full" and rules.ask == "off"
    return GateVerdict("allow" if allowed else "deny" if rules.ask == "off" else "ask", planned.analysis.doubts, planned.analysis)


def filter_valid_grants(grant_set: GrantSet, rules: ExecRules, requester: int) -> GrantSet:
    """Drop grants given by fewer people than the rule requires, or by people who could not approve here today."""
    return GrantSet([row for row in grant_set.rows if approvers.is_grant_still_valid(row, rules, requester)], grant_set.plan)


def _judge(planned: PlannedCommand, rules: ExecRules, grant_set: GrantSet) -> GateVerdict:
    return judge(planned.analysis, GateRules(rules.security, rules.ask, grant_set.entries))


def find_obstacle(claimed: ClaimedRun, plan: ExecPlan, rules: ExecRules, verdict: GateVerdict) -> str:
    """Why this command must not run regardless of any approval; empty if nothing prevents it."""
    if rules.security == "deny":
        scope = rules.set_by.get("security", "")
        detail = (
            f"the exec rule of {scope} says so" if scope else "no exec rule allows commands here; an operator can let the agent ask"
        )
        return f"exec_denied: commands are refused: {detail}. It did not run."
    if lack := find_missing_isolation(plan, rules):
        return f"exec_denied: {lack}. It did not run."
    if plan.network and not rules.network:
        return "exec_denied: the exec rules give commands no network any more. It did not run. Ask again if it is still needed."
    if verdict.effect == "deny":
        return f"exec_denied: {' '.join(reason.text for reason in verdict.reasons)} It did not run."
    if not User.objects.filter(pk=claimed.owner_id, is_active=True).exists():
        return "exec_denied: the account that asked for it is switched off. It did not run."
    return ""


def find_missing_isolation(plan: ExecPlan, rules: ExecRules) -> str:
    """Why the plan's sandbox is weaker than the rules require; empty if it is not."""
    if plan.level >= rules.minimum_level:
        return ""
    return f"the exec rules want isolation by {ExecRule.Level(rules.minimum_level).label}, which this host does not have"


def _apply_approval(
    approval: Approval, planned: PlannedCommand, rules: ExecRules, verdict: GateVerdict, used: tuple[int, ...]
) -> Supervision:
    plan = planned.plan
    if approval.plan_hash != plan.hash:
        changed = ", ".join(ExecPlan.from_json(approval.plan).differences(plan))
        reason = f"what would run is not what was asked about any more ({changed} changed)"
        approval_requests.void_approvals([approval], reason)
        return Supervision("deny", f"exec_denied: {reason}. It did not run. Ask again if it is still needed.", plan)
    match approval.status:
        case Status.APPROVED:
            return Supervision("allow", plan=plan, approval=str(approval.pk))
        case Status.PENDING:
            return Supervision("ask", plan=plan, approval=str(approval.pk))
        case Status.EXPIRED if rules.ask_fallback == "allowlist" and verdict.effect == "allow":
            return Supervision("allow", plan=plan, grants=used, unanswered=True)
        case Status.EXPIRED:
            return Supervision("deny", "exec_denied: the approval request expired. It did not run.", plan)
        case Status.DENIED if approval.decision == Approval.Decision.DROP:
            return Supervision("deny", f"exec_denied: the command was dropped: {approval.reason}. It did not run.", plan)
        case Status.DENIED:
            detail = f": {approval.reason}" if approval.reason else ""
            return Supervision("deny", f"exec_denied: an approver denied the command{detail}. It did not run.", plan)
        case _:  # used: the call was started under an earlier lease and must already have a result
            return Supervision("deny", "exec_denied: this approval was already used. It did not run again.", plan)


def use_approval_or_grants(claimed: ClaimedRun, planned: PlannedCommand, decided: Supervision) -> str:
    """Use up the approval or the grants, and record which, in the transaction that starts the call. Returns the error, or empty."""
    plan = planned.plan
    rules = tighten_without_isolation(rules_for_run(claimed), plan)
    verdict, used = judge_with_grants(planned, rules_after_expiry(rules, plan) if decided.unanswered else rules, claimed.owner_id)
    if denied := find_obstacle(claimed, plan, rules, verdict):
        approval_requests.void_for_call(claimed.pk, plan.call, denied)
        return denied
    if decided.approval:
        approval = Approval.objects.filter(pk=decided.approval).select_related("decided_by", "session", "run").first()
        if approval and (lapse := approvers.why_approval_lapsed(approval, rules)):
            approval_requests.void_approvals([approval], lapse)
            return f"exec_denied: it was approved, but {lapse}. It did not run. Ask again if it is still needed."
        if used_up := approval_requests.use_approval(claimed.pk, plan.call, plan.hash):
            tool_calls.record_admission(claimed, plan.call, allowed_by.admission_by_approval(used_up))
            return ""
        return "exec_denied: its approval is no longer valid. It did not run."
    if verdict.effect != "allow" or not grants.use_grants(used):
        return "exec_denied: the grant that allowed it was just revoked. It did not run. Ask again if it is still needed."
    tool_calls.record_admission(claimed, plan.call, allowed_by.admission_by_grants(used))
    return ""
