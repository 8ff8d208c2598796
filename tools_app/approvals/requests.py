"""Approval requests: create, decide, expire, extend, cancel, use. Each is a row; nothing waits in memory.

Every change is a compare-and-set on the row's status in a transaction that locks the session, so of fifty concurrent
decisions one wins and the others get a Conflict naming the winner. The module command_decision decides when approval is needed.
"""

import datetime as dt
from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from clawsite.infra.audit import actor as acting
from clawsite.infra.errors import Conflict, Forbidden, InvalidRequest, NotFound
from clawsite.infra.observability import metrics
from clawsite.infra.reasons import Reason
from sessions_app import tables
from sessions_app.models import Run, RunWait
from sessions_app.runs import lifecycle, waiting
from sessions_app.runs.end_reasons import end_reason
from sessions_app.runs.types import ClaimedRun
from sessions_app.runs.waiting import Wait
from tools_app.approvals import grants
from tools_app.approvals.announce import notify_approval_changed, notify_session, record_audit
from tools_app.approvals.approvers import find_quorum, quorum_from_rules, why_may_not_approve
from tools_app.approvals.grants import GrantTerms
from tools_app.approvals.quorum import find_agreement, record_stricter_quorum
from tools_app.exec.gate.verdict import GateVerdict, make_grant_entries
from tools_app.exec.plan import ExecPlan, PlannedCommand
from tools_app.exec.rules import ExecRules
from tools_app.models import Approval

Status = Approval.Status
Decision = Approval.Decision
MAX_REASON_LENGTH = 1000
MAX_EXPLANATION_LENGTH = 4000
MAX_OPEN_TIME = dt.timedelta(days=30)

AUDIT_ACTION_BY_STATUS = {
    Status.APPROVED: "approval.decided",
    Status.DENIED: "approval.decided",
    Status.EXPIRED: "approval.expired",
}
ALLOWING_DECISIONS = (Decision.ONCE, Decision.FOR, Decision.ALWAYS)


def request_approval(
    claimed: ClaimedRun, planned: PlannedCommand, verdict: GateVerdict, rules: ExecRules, *, why: str, version: int
) -> Approval:
    """Create an approval request for a plan, in the transaction that decides the call."""
    now, quorum = clock.now(), quorum_from_rules(rules)
    approval = Approval.objects.create(
        session_id=claimed.session_id,
        run_id=claimed.pk,
        generation=claimed.generation,
        call_id=planned.plan.call,
        tool=planned.plan.tool,
        agent=claimed.agent,
        requester_id=claimed.owner_id,
        plan=planned.plan.to_json(),
        plan_hash=planned.plan.hash,
        shown=_build_card(planned, verdict, rules),
        why=why[:MAX_EXPLANATION_LENGTH],
        policy_version=version,
        needed=quorum.people,
        exclude_requester=quorum.exclude_requester,
        approver_groups=[list(ids) for ids in quorum.groups],
        fallback=rules.ask_fallback,
        created_at=now,
        expires_at=now + dt.timedelta(seconds=rules.expires_seconds),
    )
    record_audit("approval.requested", approval, actor=acting.actor_for_agent(claimed.agent))
    notify_approval_changed(approval, "requested")
    return approval


def _build_card(planned: PlannedCommand, verdict: GateVerdict, rules: ExecRules) -> dict[str, Any]:
    """Build the card's details besides the plan: from the analysis, never from text the agent wrote."""
    analysis = planned.analysis
    narrow = make_grant_entries(analysis)
    every_time = rules.ask == "always" or bool(planned.plan.input_to)
    shown: dict[str, Any] = {
        "parts": [{"begin": part.begin, "end": part.end, "kind": part.kind, "note": part.note} for part in analysis.parts],
        "reasons": [reason.to_json() for reason in verdict.reasons],
        "writes": list(analysis.writes),
        "touches": list(analysis.access_hints),
        "may": [Decision.ONCE, Decision.DENY] if every_time else [*ALLOWING_DECISIONS, Decision.DENY],
    }
    if isinstance(narrow, tuple) and not every_time:
        shown["narrow"] = [{"pattern": entry.pattern, "shape": _shape_to_json(entry.shape)} for entry in narrow]
    else:
        shown["notNarrow"] = (Reason("gate.every-time") if isinstance(narrow, tuple) else narrow).to_json()
        shown["may"] = [decision for decision in shown["may"] if decision != Decision.ALWAYS]
    return shown


def _shape_to_json(shape: tuple[str, ...] | None) -> list[str] | None:
    return None if shape is None else list(shape)


def find_approval(user: User, approval_id: str | UUID) -> Approval:
    """Return an approval request that this user may see, or raise NotFound."""
    try:
        pk = approval_id if isinstance(approval_id, UUID) else UUID(approval_id)
    except ValueError:
        raise NotFound(_("Approval request not found.")) from None
    approval = Approval.objects.for_user(user).select_related("session", "run", "requester", "decided_by").filter(pk=pk).first()
    if approval is None:
        raise NotFound(_("Approval request not found."))
    return approval


@transaction.atomic
def resolve_approval(
    approval_id: str | UUID,
    *,
    by: User,
    decision: str,
    reason: str = "",
    terms: GrantTerms | None = None,
    seen_hash: str | None = None,
) -> Approval:
    """Decide an approval request. The first decision wins; later ones get a Conflict naming who decided.

    `seen_hash` is the plan hash the person saw: a decision about another plan is rejected. Who may decide, and how many approvers
    are needed, follows both the current rules and those in effect when the request was created.
    """
    approval = find_approval(by, approval_id)
    if why_not := why_may_not_approve(by, approval):
        raise Forbidden(why_not)
    if decision not in (*ALLOWING_DECISIONS, Decision.DENY):
        raise InvalidRequest(
            _("The decision must be one of: %(words)s.") % {"words": ", ".join([*ALLOWING_DECISIONS, Decision.DENY])}
        )
    if decision not in approval.shown["may"]:
        raise InvalidRequest(_("This request can’t be decided with “%(decision)s”.") % {"decision": decision})
    if seen_hash is not None and seen_hash != approval.plan_hash:
        raise Conflict(_("The command you saw is not the one that would run. Review it again."))
    if decision == Decision.FOR:
        terms = (terms or GrantTerms()).checked()
    lock_session(approval)
    _check_run_active(approval)
    if decision == Decision.DENY:
        return close_approval(approval, Status.DENIED, decision, by=by, reason=reason)
    quorum = find_quorum(approval)  # under the lock: an earlier vote may have been cast under stricter rules
    record_stricter_quorum(approval, quorum)
    agreement = find_agreement(approval, by, quorum, decision, terms)
    if agreement is None:
        notify_approval_changed(approval, "voted")
        return approval
    if agreement.decision != Decision.ONCE:  # before notifying, because the notification includes the grant's duration and scope
        terms = agreement.terms if agreement.decision == Decision.FOR else None
        grants.create_grant(approval, by=by, terms=terms, seconded_by=agreement.seconded_by)
    return close_approval(approval, Status.APPROVED, agreement.decision, by=by, reason=reason)


def lock_session(approval: Approval) -> None:
    """Lock the request's session until the transaction ends. Sessions are locked before everything else."""
    if approval.session_id:
        tables.lock_sessions([sql.uuid_value(approval.session_id)])


def _check_run_active(approval: Approval) -> None:
    """Check, under the session lock, that the request is pending, has not expired, and its run is active."""
    approval.refresh_from_db()
    if approval.status != Status.PENDING:
        raise _already_decided(approval)
    run = approval.run
    if run and (run.status in Run.ENDED or run.abort_requested_at is not None):
        raise Conflict(_("The run was stopped, so there is nothing left to decide."), details={"status": Status.VOID})
    if approval.expires_at <= clock.now():
        raise Conflict(_("The approval request has expired."), details={"status": Status.EXPIRED})


def _already_decided(approval: Approval) -> Conflict:
    who = approval.decided_by.get_username() if approval.decided_by else ""
    message = _("%(who)s has already decided this request: %(status)s.") if who else _("This request is closed: %(status)s.")
    details = {"status": approval.status, "decision": approval.decision, "decidedBy": who}
    return Conflict(message % {"who": who, "status": approval.get_status_display()}, details=details)


def close_approval(
    approval: Approval, to: str, decision: str, *, by: User | None, reason: str = "", system_reason: Reason | None = None
) -> Approval:
    """Close a request by compare-and-set, then make its run ready to continue. The only function that closes requests.

    `reason` is what the person wrote.
    """
    before = Approval.objects.filter(pk=approval.pk, status__in=Approval.ENTERED_FROM[Status(to)])
    stamp = {
        "decided_at": clock.now(),
        "decided_by": by,
        "decision": decision,
        "reason": reason[:MAX_REASON_LENGTH],
        "system_reason": system_reason.to_json() if system_reason else None,
    }
    if not before.update(status=to, **stamp):
        approval.refresh_from_db()
        raise _already_decided(approval)
    approval.refresh_from_db()
    outcome = {"decision": approval.decision, "status": approval.status, "reason": approval.reason_text}
    record_audit(AUDIT_ACTION_BY_STATUS[Status(to)], approval, actor=acting.actor_for_user(by) if by else acting.SYSTEM, **outcome)
    transaction.on_commit(metrics.approvals_decided.labels(to).inc)
    notify_approval_changed(approval, "resolved")
    notify_session(approval)
    waiting.settle(RunWait.Kind.APPROVAL, str(approval.pk))
    return approval


@transaction.atomic
def skip_approval(approval_id: str | UUID, *, by: User) -> Approval:
    """Skip the command for someone who can write in the session; the agent continues without it. Needs no approve permission."""
    approval = find_approval(by, approval_id)
    if approval.session is None:
        raise Forbidden(_("This request came from an external program. Cancel it there."))
    lifecycle.check_may_write(by, approval.session)
    lock_session(approval)
    _check_run_active(approval)
    return close_approval(approval, Status.DENIED, Decision.DROP, by=by, system_reason=Reason("approval.skipped"))


@transaction.atomic
def extend_approval(approval_id: str | UUID, *, by: User) -> Approval:
    """Extend a request by its original duration, counted from now."""
    approval = find_approval(by, approval_id)
    if why_not := why_may_not_approve(by, approval):
        raise Forbidden(why_not)
    lock_session(approval)
    _check_run_active(approval)
    until = clock.now() + (approval.expires_at - approval.created_at)
    latest = approval.created_at + MAX_OPEN_TIME
    Approval.objects.filter(pk=approval.pk, status=Status.PENDING).update(expires_at=min(until, latest), warned_at=None)
    approval.refresh_from_db()
    record_audit("approval.extended", approval, actor=acting.actor_for_user(by), until=approval.expires_at.isoformat())
    notify_approval_changed(approval, "extended")
    return approval


def void_approvals(approvals: Iterable[Approval], reason: Reason) -> None:
    """Cancel requests whose command is no longer wanted or has changed. The original decision stays in the row."""
    for approval in approvals:
        stamp = {"decided_at": approval.decided_at or clock.now(), "system_reason": reason.to_json()}
        living = Approval.objects.filter(pk=approval.pk, status__in=Approval.ENTERED_FROM[Status.VOID])
        if not living.update(status=Status.VOID, **stamp):
            continue  # already used or closed
        approval.refresh_from_db()
        record_audit("approval.voided", approval, actor=acting.SYSTEM, reason=reason.text)
        notify_approval_changed(approval, "resolved")
        notify_session(approval)
        waiting.settle(RunWait.Kind.APPROVAL, str(approval.pk))


def void_for_run(run_pk: int, reason: str) -> None:
    """Cancel a run's requests because the run has ended, for this reason. Call in the transaction that ends it."""
    void_approvals(
        Approval.objects.filter(run_id=run_pk, status__in=[Status.PENDING, Status.APPROVED]).select_related("session", "run"),
        Reason("approval.run_ended", reason=end_reason(reason)),
    )


def void_for_call(run_pk: int, call_id: str, reason: Reason) -> None:
    void_approvals(
        Approval.objects.filter(run_id=run_pk, call_id=call_id).exclude(status=Status.VOID).select_related("session", "run"), reason
    )


def rebind_approval(approval: Approval, plan: ExecPlan) -> None:
    """Bind a request to an equal plan that is hashed differently. The audit log keeps the hash that the approver saw."""
    record_audit("approval.rebound", approval, actor=acting.SYSTEM, rebound_to=plan.hash)
    approval.plan, approval.plan_hash = plan.to_json(), plan.hash
    approval.save(update_fields=["plan", "plan_hash"])


def use_approval(run_pk: int, call_id: str, plan_hash: str) -> Approval | None:
    """Mark the approval for this plan as used, in the transaction that starts the call. Return None if no approval matches."""
    approved = Approval.objects.filter(run_id=run_pk, call_id=call_id, plan_hash=plan_hash, status=Status.APPROVED)
    if not approved.update(status=Status.USED, used_at=clock.now()):
        return None
    used = Approval.objects.select_related("decided_by").get(run_id=run_pk, call_id=call_id, status=Status.USED)
    record_audit("approval.used", used, actor=acting.actor_for_agent(used.agent))
    return used


def list_waits(run_pk: int) -> list[Wait]:
    """Return the pending requests of a run as waits: it continues after each decision."""
    pending = Approval.objects.filter(run_id=run_pk, status=Status.PENDING).order_by("created_at", "pk")
    return [
        Wait(RunWait.Kind.APPROVAL, str(pk), alternative=position)
        for position, pk in enumerate(pending.values_list("pk", flat=True))
    ]


def find_closed(approval_ids: Collection[str]) -> Collection[str]:
    """Of these requests, return those that are no longer pending."""
    closed = Approval.objects.filter(pk__in=approval_ids).exclude(status=Status.PENDING)
    return {str(pk) for pk in closed.values_list("pk", flat=True)}
