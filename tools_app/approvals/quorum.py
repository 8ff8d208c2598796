"""Votes on one request: which count, whether they are enough, and which grant they have in common."""

from dataclasses import dataclass

from clawsite.accounts.models import User
from clawsite.infra import clock
from clawsite.infra.audit import actor as acting
from tools_app.approvals.announce import record_audit
from tools_app.approvals.approvers import Quorum, quorum_when_requested, why_may_not_approve
from tools_app.approvals.grants import GrantTerms
from tools_app.models import Approval, ApprovalVote

Decision = Approval.Decision


@dataclass(frozen=True, slots=True)
class Agreement:
    """What enough approvers agreed on. `seconded_by` is the earlier voter, where two are required."""

    decision: str
    terms: GrantTerms | None = None
    seconded_by: User | None = None


def find_agreement(approval: Approval, by: User, quorum: Quorum, decision: str, terms: GrantTerms | None) -> Agreement | None:
    """Return what is allowed once enough approvers have voted, else None. Of two requested grants only the common part counts."""
    if quorum.people == 1:
        return Agreement(decision, terms)
    others = ApprovalVote.objects.filter(approval=approval).exclude(user=by).select_related("user").order_by("pk")
    # Votes of people who have lost the permission don't count.
    first = next((vote for vote in others if not why_may_not_approve(vote.user, approval, quorum)), None)
    vote_terms = {"decision": decision, **(terms.to_json() if terms else {})}
    ApprovalVote.objects.update_or_create(approval=approval, user=by, defaults={"at": clock.now(), "wish": vote_terms})
    record_audit("approval.voted", approval, actor=acting.actor_for_user(by), decision=decision)
    if first is None:
        return None
    other = first.wish["decision"]
    if Decision.ONCE in (decision, other):
        return Agreement(Decision.ONCE)
    requested = [GrantTerms(each["scope"], each["seconds"], each["uses"]) for each in (first.wish, vote_terms) if "scope" in each]
    if not requested:
        return Agreement(Decision.ALWAYS, None, first.user)
    common = requested[0] if len(requested) == 1 else requested[0].intersect(requested[1])
    return Agreement(Decision.FOR, common, first.user) if common else Agreement(Decision.ONCE)


def record_stricter_quorum(approval: Approval, quorum: Quorum) -> None:
    """Store the stricter quorum with the request if the rules have become stricter since it was created."""
    if quorum != quorum_when_requested(approval):
        approval.needed, approval.exclude_requester = quorum.people, quorum.exclude_requester
        approval.approver_groups = [list(ids) for ids in quorum.groups]
        approval.save(update_fields=["needed", "exclude_requester", "approver_groups"])
