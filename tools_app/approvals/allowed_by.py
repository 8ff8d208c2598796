"""Who or what let a command through, as it is kept with its call and told to clients: a person, grants of people, or the rules.

It is what was true when the command started: a grant that is taken back or used up later was in force then.
"""

from collections.abc import Sequence
from typing import Any

from clawsite.infra import clock
from tools_app.models import Approval, Grant

BY_RULES: dict[str, Any] = {"by": "rules"}


def admission_by_approval(approval: Approval) -> dict[str, Any]:
    """A person who was asked about this very command; with what they granted besides, if they did."""
    told = {"by": "answer", "approval": str(approval.pk), "decision": approval.decision, "person": _name(approval.decided_by)}
    return told | describe_granted(approval)


def admission_by_grants(pks: Sequence[int]) -> dict[str, Any]:
    """Grants, as they stand after this use; the rules where none was needed."""
    found = Grant.objects.filter(pk__in=pks).select_related("owner").order_by("pk")
    told = [
        {
            "id": grant.pk,
            "person": _name(grant.owner),
            "scope": grant.scope,
            "expiresAt": clock.to_ms(grant.expires_at) if grant.expires_at else None,
            "usesLeft": grant.uses_left,
        }
        for grant in found
    ]
    return {"by": "grant", "grants": told} if told else BY_RULES


def describe_granted(approval: Approval) -> dict[str, Any]:
    """What an answer allowed from then on: {"granted": {grant, scope, seconds, uses}}, or nothing."""
    if approval.decision not in (Approval.Decision.FOR, Approval.Decision.ALWAYS):
        return {}
    given = next(iter(approval.grants.all()), None)
    return {"granted": to_wire_grant(given)} if given else {}


def to_wire_grant(grant: Grant) -> dict[str, Any]:
    """Its extent as it was given, whatever is left of it."""
    lasts = (grant.expires_at - grant.created_at).total_seconds() if grant.expires_at else None
    uses = None if grant.uses_left is None else grant.uses_left + grant.uses
    return {"grant": grant.pk, "scope": grant.scope, "seconds": None if lasts is None else round(lasts), "uses": uses}


def _name(person: Any) -> str:
    return person.get_username() if person else ""
