"""Who may approve a command, and how many approvers are needed, under the current rules.

For a pending request, the rules at the time of the request apply as well; the stricter of the two wins. Approvals and grants are
checked again when used: a vote by someone who has lost the permission no longer counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from django.contrib.auth.models import Group
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra.reasons import Reason
from sessions_app.models import Run
from sessions_app.run_request import ORDINARY_REQUEST
from tools_app.exec.rules import ExecRules, rules_for_many
from tools_app.models import Approval, Grant


@dataclass(frozen=True, slots=True)
class Quorum:
    """How many approvers are needed, and what each must satisfy besides the approve permission."""

    people: int = 1
    exclude_requester: bool = False
    groups: tuple[tuple[int, ...], ...] = ()  # group IDs: the approver must be in one group of each; an empty one matches no one

    def combine(self, other: "Quorum") -> "Quorum":
        """Combine two quorums: the stricter requirement wins."""
        groups = tuple(dict.fromkeys((*self.groups, *other.groups)))
        return Quorum(max(self.people, other.people), self.exclude_requester or other.exclude_requester, groups)


def quorum_from_rules(rules: ExecRules) -> Quorum:
    return Quorum(2 if rules.two_people else 1, rules.exclude_requester, rules.approver_groups)


def quorum_when_requested(approval: Approval) -> Quorum:
    """The quorum stored with the request: as of its creation, or stricter if a later vote required it."""
    return Quorum(approval.needed, approval.exclude_requester, tuple(tuple(ids) for ids in approval.approver_groups))


def find_quorums(rows: Sequence[Approval]) -> dict[UUID, Quorum]:
    """The current quorum of open requests; the stored one of closed requests. The number of queries is constant."""
    quorums = {row.pk: quorum_when_requested(row) for row in rows}
    waiting = [row for row in rows if row.is_open]
    if not waiting:
        return quorums
    runs = {row.run_id for row in waiting if row.run_id}
    requests = Run.objects.filter(pk__in=runs).requests() if runs else {}
    scopes = [
        [(row.agent, str(row.session_id or "")), *requests.get(row.run_id or 0, ORDINARY_REQUEST).origin.through] for row in waiting
    ]
    for row, rules in zip(waiting, rules_for_many(scopes), strict=True):
        quorums[row.pk] = quorums[row.pk].combine(quorum_from_rules(rules))
    return quorums


def find_quorum(approval: Approval) -> Quorum:
    return find_quorums([approval])[approval.pk]


class ApproverCandidate:
    """A user who would approve, or has approved. Groups are read once, for any number of requests."""

    def __init__(self, user: User) -> None:
        self.user = user

    @cached_property
    def _groups(self) -> set[int]:
        return set(self.user.groups.values_list("pk", flat=True))

    @cached_property
    def _names(self) -> dict[int, str]:
        return dict(Group.objects.values_list("pk", "name"))

    def why_not(self, requester: int, quorum: Quorum) -> str:
        """Why this user may not approve a command of that requester; empty if they may."""
        if self.user.is_service or not self.user.is_active:
            return _("Only people can decide these requests.")
        if not self.user.has_perm("accounts.approve_commands"):
            return _("You don’t have permission to approve commands; it requires the Approver group.")
        if quorum.exclude_requester and requester == self.user.pk:
            return _("Requesters can’t approve their own commands under this rule.")
        for ids in quorum.groups:
            if not self._groups & set(ids):
                names = sorted(self._names[pk] for pk in ids if pk in self._names)
                return _("This rule requires an approver from: %(groups)s.") % {"groups": ", ".join(names) or "–"}
        return ""


def why_may_not_approve(user: User, approval: Approval, quorum: Quorum | None = None) -> str:
    """Why this user may not decide this request; empty if they may. Pass `quorum` if it is already known."""
    return ApproverCandidate(user).why_not(approval.requester_id, quorum or find_quorum(approval))


def why_approval_lapsed(approval: Approval, rules: ExecRules) -> Reason | None:
    """Why an approval no longer counts under these rules; None if it does, or if the request was not approved."""
    if approval.status != Approval.Status.APPROVED:
        return None
    quorum = quorum_when_requested(approval).combine(quorum_from_rules(rules))
    voters = {vote.user for vote in approval.votes.select_related("user")}
    people = voters | ({approval.decided_by} if approval.decided_by else set())
    if sum(not ApproverCandidate(each).why_not(approval.requester_id, quorum) for each in people) >= quorum.people:
        return None
    return Reason("approval.two_approvers" if len(people) < quorum.people else "approval.lost_permission")


def is_grant_still_valid(grant: Grant, rules: ExecRules, requester: int) -> bool:
    """Whether enough people gave the grant and all could still give it to this requester. Operators' entries are always valid."""
    if not grant.from_answer:
        return True
    quorum = quorum_from_rules(rules)
    people = [each for each in (grant.owner, grant.seconded_by) if each]
    return len(people) >= quorum.people and not any(ApproverCandidate(each).why_not(requester, quorum) for each in people)
