"""Decide whether a planned command is allowed, denied or needs approval, by the current rules, grants and decisions.

Runs in the transaction that decides a turn's tool calls, and again in the one that starts a call.
"""

from collections import Counter
from dataclasses import replace
from functools import reduce

from clawsite.accounts.models import User
from clawsite.infra import clock
from clawsite.infra.reasons import Reason
from sessions_app.runs import tool_calls
from sessions_app.runs.types import ClaimedRun
from tools_app.approvals import allowed_by, approvers, grants
from tools_app.approvals import requests as approval_requests
from tools_app.approvals.grants import GrantSet
from tools_app.core.supervision import EXEC_DENIED, Supervision
from tools_app.exec.gate.types import public_code
from tools_app.exec.gate.verdict import GateRules, GateVerdict, judge
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
        return Supervision("deny", denied, plan, code=NO_RULE_CODE if is_undecided(rules) else EXEC_DENIED)
    if approval and (lapse := approvers.why_approval_lapsed(approval, rules)):
        approval_requests.void_approvals([approval], lapse)
        verdict = replace(verdict, reasons=(Reason("gate.asked-anew", lapse=lapse), *verdict.reasons))
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
        return replace(rules, ask="always")
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
    """Drop grants with fewer approvers than the rule requires, or whose approvers could no longer approve this command."""
    return GrantSet([row for row in grant_set.rows if approvers.is_grant_still_valid(row, rules, requester)], grant_set.plan)


def _judge(planned: PlannedCommand, rules: ExecRules, grant_set: GrantSet) -> GateVerdict:
    return judge(planned.analysis, GateRules(rules.security, rules.ask, grant_set.entries))


def find_obstacle(claimed: ClaimedRun, plan: ExecPlan, rules: ExecRules, verdict: GateVerdict) -> Reason | None:
    """Why this command must not run regardless of any approval; None if nothing prevents it."""
    if rules.security == "deny":
        scope = rules.set_by.get("security", "")
        return Reason("exec.disabled", scope=scope) if scope else Reason("exec.no_rule")
    if lack := find_missing_isolation(plan, rules):
        return lack
    if plan.network and not rules.network:
        return Reason("exec.no_network")
    if verdict.effect == "deny":
        return reduce(lambda first, second: Reason("exec.several", first=first, second=second), verdict.reasons)
    if not User.objects.filter(pk=claimed.owner_id, is_active=True).exists():
        return Reason("exec.account_disabled")
    return None


def find_missing_isolation(plan: ExecPlan, rules: ExecRules) -> Reason | None:
    """Why the plan's sandbox is weaker than the rules require; None if it is not."""
    if plan.level >= rules.minimum_level:
        return None
    return Reason("exec.isolation", level=ExecRule.Level(rules.minimum_level).name.lower())


def _apply_approval(
    approval: Approval, planned: PlannedCommand, rules: ExecRules, verdict: GateVerdict, used: tuple[int, ...]
) -> Supervision:
    plan = planned.plan
    if approval.plan_hash != plan.hash and not _adopt_earlier_plan(approval, planned, verdict):
        changed = _describe_change(approval, plan)
        approval_requests.void_approvals([approval], changed)
        return Supervision("deny", changed, plan)
    match approval.status:
        case Status.APPROVED:
            return Supervision("allow", plan=plan, approval=str(approval.pk))
        case Status.PENDING:
            return Supervision("ask", plan=plan, approval=str(approval.pk))
        case Status.EXPIRED if rules.ask_fallback == "allowlist" and verdict.effect == "allow":
            return Supervision("allow", plan=plan, grants=used, unanswered=True)
        case Status.EXPIRED:
            return Supervision("deny", Reason("exec.expired"), plan)
        case Status.DENIED if approval.decision == Approval.Decision.DROP:
            return Supervision("deny", Reason("exec.skipped"), plan)
        case Status.DENIED:
            denied = Reason("exec.denied_because", reason=approval.reason) if approval.reason else Reason("exec.denied")
            return Supervision("deny", denied, plan)
        case _:  # used: the call was started under an earlier lease and must already have a result
            return Supervision("deny", Reason("exec.used"), plan)


def _adopt_earlier_plan(approval: Approval, planned: PlannedCommand, verdict: GateVerdict) -> bool:
    """Bind a request from a version that hashed the texts of the gate's findings to the plan with today's hash.

    Everything else in the plan must be the same, what the line does must be what approvers saw, and the gate may not have a kind
    of reason that they have not seen. Findings about files that others can change can't be compared with texts.
    """
    plan, analysis, shown = planned.plan, planned.analysis, approval.shown
    if not _is_from_earlier_version(approval) or _without_findings(ExecPlan.from_json(approval.plan)) != _without_findings(plan):
        return False
    if any(program.standing for program in analysis.programs):
        return False
    parts = [(part.begin, part.end, part.kind) for part in analysis.parts]
    if parts != [(part["begin"], part["end"], part["kind"]) for part in shown["parts"]]:
        return False
    if [*analysis.writes] != shown["writes"] or [*analysis.access_hints] != shown["touches"]:
        return False
    if Counter(map(public_code, verdict.reasons)) - Counter(each["code"] for each in shown["reasons"]):
        return False
    if approval.status in (Status.PENDING, Status.APPROVED):
        approval_requests.rebind_approval(approval, plan)
    return True


def _is_from_earlier_version(approval: Approval) -> bool:
    """Whether the request was stored with texts instead of codes."""
    reasons = approval.shown["reasons"]
    return bool(reasons) and all("words" in each for each in reasons)


def _without_findings(plan: ExecPlan) -> ExecPlan:
    """The plan without texts of the gate. Whether a program is trusted remains."""
    programs = tuple(replace(each, distrust=each.distrust and Reason("changed.findings")) for each in plan.executables)
    return replace(plan, executables=programs, analysis_hash="")


def _describe_change(approval: Approval, plan: ExecPlan) -> Reason:
    """Why the request does not apply to this plan."""
    stored = ExecPlan.from_json(approval.plan)
    if _is_from_earlier_version(approval) and _without_findings(stored) == _without_findings(plan):
        return Reason("exec.not_comparable")
    changes = [Reason(f"changed.{what}") for what in stored.list_changes(plan)]
    return Reason(
        "exec.changed", fields=reduce(lambda first, second: Reason("changed.several", first=first, second=second), changes)
    )


def use_approval_or_grants(claimed: ClaimedRun, planned: PlannedCommand, decided: Supervision) -> Reason | None:
    """Use up the approval or the grants, and record which, in the transaction that starts the call.

    Returns why the command must not start, or None.
    """
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
            return Reason("exec.lapsed", lapse=lapse)
        if used_up := approval_requests.use_approval(claimed.pk, plan.call, plan.hash):
            tool_calls.record_admission(claimed, plan.call, allowed_by.admission_by_approval(used_up))
            return None
        return Reason("exec.approval_invalid")
    if verdict.effect != "allow" or not grants.use_grants(used):
        return Reason("exec.grant_revoked")
    tool_calls.record_admission(claimed, plan.call, allowed_by.admission_by_grants(used))
    return None
