"""Who or what allowed a command, as stored with its call and sent to clients: an approver, grants, or the rules.

Describes the state when the command started: a grant that was later revoked or used up was still active then.
"""

from collections.abc import Sequence
from typing import Any

from clawsite.infra import clock
from tools_app.models import Approval, Grant

BY_RULES: dict[str, Any] = {"by": "rules"}


def admission_by_approval(approval: Approval) -> dict[str, Any]:
    """An approver's decision about this command, including any grant they gave."""
    admission = {"by": "answer", "approval": str(approval.pk), "decision": approval.decision, "person": _name(approval.decided_by)}
    return admission | describe_granted(approval)


def admission_by_grants(pks: Sequence[int]) -> dict[str, Any]:
    """Grants as they are after this use; the rules if no grant was needed."""
    rows = Grant.objects.filter(pk__in=pks).select_related("owner").order_by("pk")
    grants = [
        {
            "id": grant.pk,
            "person": _name(grant.owner),
            "scope": grant.scope,
            "expiresAt": clock.to_ms(grant.expires_at) if grant.expires_at else None,
            "usesLeft": grant.uses_left,
        }
        for grant in rows
    ]
    return {"by": "grant", "grants": grants} if grants else BY_RULES


def describe_decision(approval: Approval) -> dict[str, Any]:
    """How a request was closed: {decision, by, reason} and what was granted. Messages, records and events are built from this."""
    by = _name(approval.decided_by) or None
    return {"decision": approval.decision, "by": by, "reason": approval.reason_text, **describe_granted(approval)}


def describe_granted(approval: Approval) -> dict[str, Any]:
    """The grant given with the decision: {"granted": {grant, scope, seconds, uses}}, or empty."""
    if approval.decision not in (Approval.Decision.FOR, Approval.Decision.ALWAYS):
        return {}
    grant = next(iter(approval.grants.all()), None)
    return {"granted": to_wire_grant(grant)} if grant else {}


def to_wire_grant(grant: Grant) -> dict[str, Any]:
    """The grant's original duration and uses, regardless of what is left."""
    lasts = (grant.expires_at - grant.created_at).total_seconds() if grant.expires_at else None
    uses = None if grant.uses_left is None else grant.uses_left + grant.uses
    return {"grant": grant.pk, "scope": grant.scope, "seconds": None if lasts is None else round(lasts), "uses": uses}


def _name(person: Any) -> str:
    return person.get_username() if person else ""
