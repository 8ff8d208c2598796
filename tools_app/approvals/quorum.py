"""What people have agreed on about one question: whose yes counts, whether they are enough, and what is common to their wishes."""

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
    """What enough people have said. `seconded_by`: who had said it before, where two must."""

    decision: str
    wish: GrantTerms | None = None
    seconded_by: User | None = None


def find_agreement(approval: Approval, by: User, quorum: Quorum, decision: str, wish: GrantTerms | None) -> Agreement | None:
    """What is allowed once enough people have said so; None while somebody is missing. Of two wishes only what both said counts."""
    if quorum.people == 1:
        return Agreement(decision, wish)
    others = ApprovalVote.objects.filter(approval=approval).exclude(user=by).select_related("user").order_by("pk")
    # A right that was taken back since does not count.
    first = next((vote for vote in others if not why_may_not_approve(vote.user, approval, quorum)), None)
    saying = {"decision": decision, **(wish.to_json() if wish else {})}
    ApprovalVote.objects.update_or_create(approval=approval, user=by, defaults={"at": clock.now(), "wish": saying})
    record_audit("approval.voted", approval, actor=acting.actor_for_user(by), decision=decision)
    if first is None:
        return None
    other = first.wish["decision"]
    if Decision.ONCE in (decision, other):
        return Agreement(Decision.ONCE)
    wishes = [GrantTerms(each["scope"], each["seconds"], each["uses"]) for each in (first.wish, saying) if "scope" in each]
    if not wishes:
        return Agreement(Decision.ALWAYS, None, first.user)
    both = wishes[0] if len(wishes) == 1 else wishes[0].intersect(wishes[1])
    return Agreement(Decision.FOR, both, first.user) if both else Agreement(Decision.ONCE)


def record_stricter_quorum(approval: Approval, quorum: Quorum) -> None:
    """Keep with a question that its answers are held to stricter rules than those of the moment it was asked."""
    if quorum != quorum_when_requested(approval):
        approval.needed, approval.exclude_requester = quorum.people, quorum.exclude_requester
        approval.approver_groups = [list(ids) for ids in quorum.groups]
        approval.save(update_fields=["needed", "exclude_requester", "approver_groups"])
