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
from sessions_app.runs.types import Claimed
from tools_app.approvals import grants
from tools_app.approvals.announce import noted, tell, tell_session
from tools_app.approvals.approvers import quorum_of, wanted_by, why_not
from tools_app.approvals.grants import Wish
from tools_app.approvals.quorum import agreed, hold_to
from tools_app.exec.gate.verdict import Judgement, narrow_entry
from tools_app.exec.plan import Planned
from tools_app.exec.rules import ExecRules
from tools_app.models import Approval

Status = Approval.Status
Decision = Approval.Decision
LONGEST_REASON = 1000
LONGEST_WHY = 4000
LONGEST_OPEN = dt.timedelta(days=30)
RECORDED = {
    Status.APPROVED: "approval.decided",
    Status.DENIED: "approval.decided",
    Status.EXPIRED: "approval.expired",
}
ALLOWING = (Decision.ONCE, Decision.FOR, Decision.ALWAYS)


def request(claimed: Claimed, planned: Planned, judgement: Judgement, rules: ExecRules, *, why: str, version: int) -> Approval:
    """Ask people about a plan, in the transaction that decides its call."""
    now, quorum = clock.now(), wanted_by(rules)
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
        shown=_shown(planned, judgement, rules),
        why=why[:LONGEST_WHY],
        policy_version=version,
        needed=quorum.people,
        exclude_requester=quorum.exclude_requester,
        approver_groups=[list(ids) for ids in quorum.groups],
        fallback=rules.ask_fallback,
        created_at=now,
        expires_at=now + dt.timedelta(seconds=rules.expires_seconds),
    )
    noted("approval.requested", approval, actor=acting.agent(claimed.agent))
    tell(approval, "requested")
    return approval


def _shown(planned: Planned, judgement: Judgement, rules: ExecRules) -> dict[str, Any]:
    """What the card says besides the plan: made here, from the analysis, never from the agent's words."""
    analysis = planned.analysis
    narrow = narrow_entry(analysis)
    every_time = rules.ask == "always" or bool(planned.plan.input_to)
    shown: dict[str, Any] = {
        "parts": [{"begin": part.begin, "end": part.end, "kind": part.kind, "note": part.note} for part in analysis.parts],
        "reasons": [{"code": reason.code, "words": reason.words} for reason in judgement.reasons],
        "writes": list(analysis.writes),
        "touches": list(analysis.touches),
        "may": [Decision.ONCE, Decision.DENY] if every_time else [*ALLOWING, Decision.DENY],
    }
    if isinstance(narrow, tuple) and not every_time:
        shown["narrow"] = [{"pattern": entry.pattern, "shape": _shape(entry.shape)} for entry in narrow]
    else:
        shown["notNarrow"] = "it is asked about every time" if isinstance(narrow, tuple) else narrow.words
        shown["may"] = [decision for decision in shown["may"] if decision != Decision.ALWAYS]
    return shown


def _shape(shape: tuple[str, ...] | None) -> list[str] | None:
    return None if shape is None else list(shape)


def find(user: User, approval_id: str | UUID) -> Approval:
    """A question that this account may see."""
    try:
        wanted = approval_id if isinstance(approval_id, UUID) else UUID(approval_id)
    except ValueError:
        raise NotFound(_("there is no such question")) from None
    found = Approval.objects.for_user(user).select_related("session", "run", "requester", "decided_by").filter(pk=wanted).first()
    if found is None:
        raise NotFound(_("there is no such question"))
    return found


@transaction.atomic
def resolve(
    approval_id: str | UUID, *, by: User, decision: str, reason: str = "", wish: Wish | None = None, seen_hash: str | None = None
) -> Approval:
    """Answer a question. The first answer counts; a later one gets Conflict and is told whose it was.

    `seen_hash` is the plan's hash as the person saw it: an answer to another plan is refused. Who may answer and how many must is
    decided by the rules of now as well as by those of the moment it was asked.
    """
    approval = find(by, approval_id)
    if refused := why_not(by, approval):
        raise Forbidden(refused)
    if decision not in (*ALLOWING, Decision.DENY):
        raise InvalidRequest(_("the answer is one of: %(words)s") % {"words": ", ".join([*ALLOWING, Decision.DENY])})
    if decision not in approval.shown["may"]:
        raise InvalidRequest(_("this question cannot be answered with “%(decision)s”") % {"decision": decision})
    if seen_hash is not None and seen_hash != approval.plan_hash:
        raise Conflict(_("what you saw is not what would run; look at it again"))
    if decision == Decision.FOR:
        wish = (wish or Wish()).checked()
    hold(approval)
    _still_wanted(approval)
    if decision == Decision.DENY:
        return settle(approval, Status.DENIED, decision, by=by, reason=reason)
    quorum = quorum_of(approval)  # under the lock: a vote before this one may have been held to more
    hold_to(approval, quorum)
    said = agreed(approval, by, quorum, decision, wish)
    if said is None:
        tell(approval, "voted")
        return approval
    if said.decision != Decision.ONCE:  # before it is told who decided: what is told says for how long and where
        wish = said.wish if said.decision == Decision.FOR else None
        grants.give(approval, by=by, wish=wish, seconded_by=said.seconded_by)
    return settle(approval, Status.APPROVED, said.decision, by=by, reason=reason)


def hold(approval: Approval) -> None:
    """Nobody else moves its session until the transaction ends; sessions are locked before everything else."""
    if approval.session_id:
        tables.lock_sessions([sql.uuid_value(approval.session_id)])


def _still_wanted(approval: Approval) -> None:
    """Under the session's lock: a question whose run ended meanwhile is void, whatever its row says."""
    approval.refresh_from_db()
    if approval.status != Status.PENDING:
        raise _answered(approval)
    run = approval.run
    if run and (run.status in Run.ENDED or run.abort_requested_at is not None):
        raise Conflict(_("the run was stopped, so there is nothing left to decide"), details={"status": Status.VOID})
    if approval.expires_at <= clock.now():
        raise Conflict(_("the question has expired"), details={"status": Status.EXPIRED})


def _answered(approval: Approval) -> Conflict:
    who = approval.decided_by.get_username() if approval.decided_by else ""
    words = _("%(who)s has answered already: %(status)s") if who else _("this question is closed: %(status)s")
    details = {"status": approval.status, "decision": approval.decision, "decidedBy": who}
    return Conflict(words % {"who": who, "status": approval.get_status_display()}, details=details)


def settle(approval: Approval, to: str, decision: str, *, by: User | None, reason: str = "") -> Approval:
    """The one function that ends a question, by compare-and-set; then the run may go on."""
    before = Approval.objects.filter(pk=approval.pk, status__in=Approval.ENTERED_FROM[Status(to)])
    stamp = {"decided_at": clock.now(), "decided_by": by, "decision": decision, "reason": reason[:LONGEST_REASON]}
    if not before.update(status=to, **stamp):
        approval.refresh_from_db()
        raise _answered(approval)
    approval.refresh_from_db()
    how = {"decision": approval.decision, "status": approval.status, "reason": approval.reason}
    noted(RECORDED[Status(to)], approval, actor=acting.account(by) if by else acting.SYSTEM, **how)
    transaction.on_commit(metrics.approvals_decided.labels(to).inc)
    tell(approval, "resolved")
    tell_session(approval)
    if approval.run_id:
        lifecycle.make_ready([approval.run_id])
    return approval


@transaction.atomic
def drop(approval_id: str | UUID, *, by: User) -> Approval:
    """Who writes in the session gives up the command, and the agent goes on without it. Needs no right to approve."""
    approval = find(by, approval_id)
    if approval.session is None:
        raise Forbidden(_("whoever asked from outside takes it back there"))
    lifecycle.may_write(by, approval.session)
    hold(approval)
    _still_wanted(approval)
    return settle(approval, Status.DENIED, Decision.DROP, by=by, reason="whoever asked for it does not want it any more")


@transaction.atomic
def extend(approval_id: str | UUID, *, by: User) -> Approval:
    """Leave a question open for as long again, from now on."""
    approval = find(by, approval_id)
    if refused := why_not(by, approval):
        raise Forbidden(refused)
    hold(approval)
    _still_wanted(approval)
    until = clock.now() + (approval.expires_at - approval.created_at)
    latest = approval.created_at + LONGEST_OPEN
    Approval.objects.filter(pk=approval.pk, status=Status.PENDING).update(expires_at=min(until, latest), warned_at=None)
    approval.refresh_from_db()
    noted("approval.extended", approval, actor=acting.account(by), until=approval.expires_at.isoformat())
    tell(approval, "extended")
    return approval


def void(approvals: Iterable[Approval], reason: str) -> None:
    """What was asked is not wanted or not true any more. Who had answered it stays in its row."""
    for approval in approvals:
        why = reason[:LONGEST_REASON]
        stamp: dict[str, Any] = {"void_reason": why} if approval.decided_at else {"decided_at": clock.now(), "reason": why}
        living = Approval.objects.filter(pk=approval.pk, status__in=Approval.ENTERED_FROM[Status.VOID])
        if not living.update(status=Status.VOID, **stamp):
            continue  # used or ended already
        approval.refresh_from_db()
        noted("approval.voided", approval, actor=acting.SYSTEM, reason=reason)
        tell(approval, "resolved")
        tell_session(approval)


def void_of_run(run_pk: int, reason: str) -> None:
    """The run has ended: whatever it asked, nothing of it will run. In the transaction that ends it."""
    void(
        Approval.objects.filter(run_id=run_pk, status__in=[Status.PENDING, Status.APPROVED]).select_related("session", "run"),
        reason,
    )


def void_of_run_call(run_pk: int, call_id: str, reason: str) -> None:
    void(
        Approval.objects.filter(run_id=run_pk, call_id=call_id).exclude(status=Status.VOID).select_related("session", "run"), reason
    )


def consume(run_pk: int, call_id: str, plan_hash: str) -> Approval | None:
    """Use up an answer, in the transaction that marks its call as started. None: there is none for this plan."""
    answered = Approval.objects.filter(run_id=run_pk, call_id=call_id, plan_hash=plan_hash, status=Status.APPROVED)
    if not answered.update(status=Status.USED, used_at=clock.now()):
        return None
    used = Approval.objects.select_related("decided_by").get(run_id=run_pk, call_id=call_id, status=Status.USED)
    noted("approval.used", used, actor=acting.agent(used.agent))
    return used


def open_of_run(run_pk: int) -> bool:
    return Approval.objects.filter(run_id=run_pk, status=Status.PENDING).exists()
