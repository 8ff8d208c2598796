"""Questions to people: asked, answered once, expired, extended, void, used. A row each; nobody ever waits in memory.

Every change is a compare-and-set on the row's status in a transaction that holds the session, so that of fifty answers one
wins and the others are told who did. tools_app.approvals.supervise decides when a question is needed.
"""

import datetime as dt
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from clawsite.infra.audit import actor as acting
from clawsite.infra.errors import Conflict, Forbidden, InvalidRequest, NotFound
from clawsite.infra.observability import metrics
from sessions_app import tables
from sessions_app.models import Run
from sessions_app.runs import lifecycle
from sessions_app.runs.types import ClaimedRun
from tools_app.approvals import grants
from tools_app.approvals.announce import notify_approval_changed, notify_session, record_audit
from tools_app.approvals.approvers import find_quorum, quorum_from_rules, why_may_not_approve
from tools_app.approvals.grants import GrantTerms
from tools_app.approvals.quorum import find_agreement, record_stricter_quorum
from tools_app.exec.gate.verdict import GateVerdict, make_grant_entries
from tools_app.exec.plan import PlannedCommand
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
    claimed: ClaimedRun, planned: PlannedCommand, judgement: GateVerdict, rules: ExecRules, *, why: str, version: int
) -> Approval:
    """Ask people about a plan, in the transaction that decides its call."""
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
        shown=_build_card(planned, judgement, rules),
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


def _build_card(planned: PlannedCommand, judgement: GateVerdict, rules: ExecRules) -> dict[str, Any]:
    """What the card says besides the plan: made here, from the analysis, never from the agent's words."""
    analysis = planned.analysis
    narrow = make_grant_entries(analysis)
    every_time = rules.ask == "always" or bool(planned.plan.input_to)
    shown: dict[str, Any] = {
        "parts": [{"begin": part.begin, "end": part.end, "kind": part.kind, "note": part.note} for part in analysis.parts],
        "reasons": [{"code": reason.code, "words": reason.words} for reason in judgement.reasons],
        "writes": list(analysis.writes),
        "touches": list(analysis.touches),
        "may": [Decision.ONCE, Decision.DENY] if every_time else [*ALLOWING_DECISIONS, Decision.DENY],
    }
    if isinstance(narrow, tuple) and not every_time:
        shown["narrow"] = [{"pattern": entry.pattern, "shape": _shape_to_json(entry.shape)} for entry in narrow]
    else:
        shown["notNarrow"] = "it is asked about every time" if isinstance(narrow, tuple) else narrow.words
        shown["may"] = [decision for decision in shown["may"] if decision != Decision.ALWAYS]
    return shown


def _shape_to_json(shape: tuple[str, ...] | None) -> list[str] | None:
    return None if shape is None else list(shape)


def find_approval(user: User, approval_id: str | UUID) -> Approval:
    """A question that this account may see."""
    try:
        wanted = approval_id if isinstance(approval_id, UUID) else UUID(approval_id)
    except ValueError:
        raise NotFound(_("Approval request not found.")) from None
    found = Approval.objects.for_user(user).select_related("session", "run", "requester", "decided_by").filter(pk=wanted).first()
    if found is None:
        raise NotFound(_("Approval request not found."))
    return found


@transaction.atomic
def resolve_approval(
    approval_id: str | UUID,
    *,
    by: User,
    decision: str,
    reason: str = "",
    wish: GrantTerms | None = None,
    seen_hash: str | None = None,
) -> Approval:
    """Answer a question. The first answer counts; a later one gets Conflict and is told whose it was.

    `seen_hash` is the plan's hash as the person saw it: an answer to another plan is refused. Who may answer and how many must is
    decided by the rules of now as well as by those of the moment it was asked.
    """
    approval = find_approval(by, approval_id)
    if refused := why_may_not_approve(by, approval):
        raise Forbidden(refused)
    if decision not in (*ALLOWING_DECISIONS, Decision.DENY):
        raise InvalidRequest(
            _("The decision must be one of: %(words)s.") % {"words": ", ".join([*ALLOWING_DECISIONS, Decision.DENY])}
        )
    if decision not in approval.shown["may"]:
        raise InvalidRequest(_("This request can’t be decided with “%(decision)s”.") % {"decision": decision})
    if seen_hash is not None and seen_hash != approval.plan_hash:
        raise Conflict(_("The command you saw is not the one that would run. Review it again."))
    if decision == Decision.FOR:
        wish = (wish or GrantTerms()).checked()
    lock_session(approval)
    _check_run_active(approval)
    if decision == Decision.DENY:
        return close_approval(approval, Status.DENIED, decision, by=by, reason=reason)
    quorum = find_quorum(approval)  # under the lock: a vote before this one may have been held to more
    record_stricter_quorum(approval, quorum)
    said = find_agreement(approval, by, quorum, decision, wish)
    if said is None:
        notify_approval_changed(approval, "voted")
        return approval
    if said.decision != Decision.ONCE:  # before it is told who decided: what is told says for how long and where
        wish = said.wish if said.decision == Decision.FOR else None
        grants.create_grant(approval, by=by, wish=wish, seconded_by=said.seconded_by)
    return close_approval(approval, Status.APPROVED, said.decision, by=by, reason=reason)


def lock_session(approval: Approval) -> None:
    """Nobody else moves its session until the transaction ends; sessions are locked before everything else."""
    if approval.session_id:
        tables.lock_sessions([sql.uuid_value(approval.session_id)])


def _check_run_active(approval: Approval) -> None:
    """Under the session's lock: a question whose run ended meanwhile is void, whatever its row says."""
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
    words = _("%(who)s has already decided this request: %(status)s.") if who else _("This request is closed: %(status)s.")
    details = {"status": approval.status, "decision": approval.decision, "decidedBy": who}
    return Conflict(words % {"who": who, "status": approval.get_status_display()}, details=details)


def close_approval(approval: Approval, to: str, decision: str, *, by: User | None, reason: str = "") -> Approval:
    """The one function that ends a question, by compare-and-set; then the run may go on."""
    before = Approval.objects.filter(pk=approval.pk, status__in=Approval.ENTERED_FROM[Status(to)])
    stamp = {"decided_at": clock.now(), "decided_by": by, "decision": decision, "reason": reason[:MAX_REASON_LENGTH]}
    if not before.update(status=to, **stamp):
        approval.refresh_from_db()
        raise _already_decided(approval)
    approval.refresh_from_db()
    how = {"decision": approval.decision, "status": approval.status, "reason": approval.reason}
    record_audit(AUDIT_ACTION_BY_STATUS[Status(to)], approval, actor=acting.actor_for_user(by) if by else acting.SYSTEM, **how)
    transaction.on_commit(metrics.approvals_decided.labels(to).inc)
    notify_approval_changed(approval, "resolved")
    notify_session(approval)
    if approval.run_id:
        lifecycle.make_runs_ready([approval.run_id])
    return approval


@transaction.atomic
def skip_approval(approval_id: str | UUID, *, by: User) -> Approval:
    """Who writes in the session gives up the command, and the agent goes on without it. Needs no right to approve."""
    approval = find_approval(by, approval_id)
    if approval.session is None:
        raise Forbidden(_("This request came from an external program. Cancel it there."))
    lifecycle.check_may_write(by, approval.session)
    lock_session(approval)
    _check_run_active(approval)
    return close_approval(approval, Status.DENIED, Decision.DROP, by=by, reason="whoever asked for it does not want it any more")


@transaction.atomic
def extend_approval(approval_id: str | UUID, *, by: User) -> Approval:
    """Leave a question open for as long again, from now on."""
    approval = find_approval(by, approval_id)
    if refused := why_may_not_approve(by, approval):
        raise Forbidden(refused)
    lock_session(approval)
    _check_run_active(approval)
    until = clock.now() + (approval.expires_at - approval.created_at)
    latest = approval.created_at + MAX_OPEN_TIME
    Approval.objects.filter(pk=approval.pk, status=Status.PENDING).update(expires_at=min(until, latest), warned_at=None)
    approval.refresh_from_db()
    record_audit("approval.extended", approval, actor=acting.actor_for_user(by), until=approval.expires_at.isoformat())
    notify_approval_changed(approval, "extended")
    return approval


def void_approvals(approvals: Iterable[Approval], reason: str) -> None:
    """What was asked is not wanted or not true any more. Who had answered it stays in its row."""
    for approval in approvals:
        why = reason[:MAX_REASON_LENGTH]
        stamp: dict[str, Any] = {"void_reason": why} if approval.decided_at else {"decided_at": clock.now(), "reason": why}
        living = Approval.objects.filter(pk=approval.pk, status__in=Approval.ENTERED_FROM[Status.VOID])
        if not living.update(status=Status.VOID, **stamp):
            continue  # used or ended already
        approval.refresh_from_db()
        record_audit("approval.voided", approval, actor=acting.SYSTEM, reason=reason)
        notify_approval_changed(approval, "resolved")
        notify_session(approval)


def void_for_run(run_pk: int, reason: str) -> None:
    """The run has ended: whatever it asked, nothing of it will run. In the transaction that ends it."""
    void_approvals(
        Approval.objects.filter(run_id=run_pk, status__in=[Status.PENDING, Status.APPROVED]).select_related("session", "run"),
        reason,
    )


def void_for_call(run_pk: int, call_id: str, reason: str) -> None:
    void_approvals(
        Approval.objects.filter(run_id=run_pk, call_id=call_id).exclude(status=Status.VOID).select_related("session", "run"), reason
    )


def use_approval(run_pk: int, call_id: str, plan_hash: str) -> Approval | None:
    """Use up an answer, in the transaction that marks its call as started. None: there is none for this plan."""
    answered = Approval.objects.filter(run_id=run_pk, call_id=call_id, plan_hash=plan_hash, status=Status.APPROVED)
    if not answered.update(status=Status.USED, used_at=clock.now()):
        return None
    used = Approval.objects.select_related("decided_by").get(run_id=run_pk, call_id=call_id, status=Status.USED)
    record_audit("approval.used", used, actor=acting.actor_for_agent(used.agent))
    return used


def has_open_approval(run_pk: int) -> bool:
    return Approval.objects.filter(run_id=run_pk, status=Status.PENDING).exists()
