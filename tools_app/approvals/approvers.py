"""Who may agree to a command, and how many must: by the rules of this moment.

For a question the rules of the moment it was asked count as well, whichever are stricter. Answers and grants are looked at again
when they are to be used: whoever has lost the right since then does not count as having agreed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from django.contrib.auth.models import Group
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from sessions_app.models import Run
from tools_app.exec.rules import ExecRules, forwarded_through, rules_for_many
from tools_app.models import Approval, Grant

# Why an answer does not count any more, as it is stored, shown and told to the model.
LOST_THE_RIGHT = "who approved it may not approve it any more"
TWO_PEOPLE_REQUIRED = "by now the rules want two people to agree"


@dataclass(frozen=True, slots=True)
class Quorum:
    """How many must agree, and what each of them has to be besides an approver."""

    people: int = 1
    exclude_requester: bool = False
    groups: tuple[tuple[int, ...], ...] = ()  # ids; in one group of each. Of an empty one nobody is

    def combine(self, other: "Quorum") -> "Quorum":
        """The stricter of both."""
        groups = tuple(dict.fromkeys((*self.groups, *other.groups)))
        return Quorum(max(self.people, other.people), self.exclude_requester or other.exclude_requester, groups)


def quorum_from_rules(rules: ExecRules) -> Quorum:
    return Quorum(2 if rules.two_people else 1, rules.exclude_requester, rules.approver_groups)


def quorum_when_requested(approval: Approval) -> Quorum:
    """Or since then, if it was answered by stricter rules."""
    return Quorum(approval.needed, approval.exclude_requester, tuple(tuple(ids) for ids in approval.approver_groups))


def find_quorums(rows: Sequence[Approval]) -> dict[UUID, Quorum]:
    """What open questions want now; of closed ones, what they wanted. The queries are the same for one row and for fifty."""
    found = {row.pk: quorum_when_requested(row) for row in rows}
    waiting = [row for row in rows if row.is_open]
    if not waiting:
        return found
    runs = {row.run_id for row in waiting if row.run_id}
    options = dict(Run.objects.filter(pk__in=runs).values_list("pk", "options")) if runs else {}
    places = [[(row.agent, str(row.session_id or "")), *forwarded_through(options.get(row.run_id or 0, {}))] for row in waiting]
    for row, rules in zip(waiting, rules_for_many(places), strict=True):
        found[row.pk] = found[row.pk].combine(quorum_from_rules(rules))
    return found


def find_quorum(approval: Approval) -> Quorum:
    return find_quorums([approval])[approval.pk]


class ApproverCandidate:
    """An account that would agree, or has. What is read of it is read once, for however many questions."""

    def __init__(self, user: User) -> None:
        self.user = user

    @cached_property
    def _groups(self) -> set[int]:
        return set(self.user.groups.values_list("pk", flat=True))

    @cached_property
    def _names(self) -> dict[int, str]:
        return dict(Group.objects.values_list("pk", "name"))

    def why_not(self, requester: int, quorum: Quorum) -> str:
        """Why this account may not agree to what that one asked for; empty when it may."""
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
    """Why this account may not answer this question; empty when it may. `quorum`: what it wants, where that is known already."""
    return ApproverCandidate(user).why_not(approval.requester_id, quorum or find_quorum(approval))


def why_approval_lapsed(answer: Approval, rules: ExecRules) -> str:
    """Why a yes that was given does not count by these rules; empty when it does, or when it is no yes."""
    if answer.status != Approval.Status.APPROVED:
        return ""
    quorum = quorum_when_requested(answer).combine(quorum_from_rules(rules))
    people = {vote.user for vote in answer.votes.select_related("user")} | ({answer.decided_by} if answer.decided_by else set())
    if sum(not ApproverCandidate(each).why_not(answer.requester_id, quorum) for each in people) >= quorum.people:
        return ""
    return TWO_PEOPLE_REQUIRED if len(people) < quorum.people else LOST_THE_RIGHT


def is_grant_still_valid(grant: Grant, rules: ExecRules, requester: int) -> bool:
    """Whether all who gave it could give it to this account today, and are enough. An operator's own list needs nobody's answer."""
    if not grant.from_answer:
        return True
    quorum = quorum_from_rules(rules)
    people = [each for each in (grant.owner, grant.seconded_by) if each]
    return len(people) >= quorum.people and not any(ApproverCandidate(each).why_not(requester, quorum) for each in people)
