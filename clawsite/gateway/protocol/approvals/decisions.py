"""Decisions about approval requests, as sent by clients."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clawsite.accounts.models import User
from clawsite.gateway.protocol.approvals.records import ApprovalRecord, find_record, openclaw_errors
from clawsite.gateway.protocol.params import Params
from clawsite.infra.errors import Conflict
from tools_app.approvals import requests as approval_requests
from tools_app.approvals.grants import GrantTerms

ReasonText = Annotated[str, Field(max_length=approval_requests.MAX_REASON_LENGTH)]


class ForHowLong(Params):
    """The terms of a grant: at least one of `seconds` (60 to 28800) and `uses` (1 to 100), and its scope."""

    seconds: int | None = None
    uses: int | None = None
    scope: Literal["session", "agent", "directory"] = "session"


class Answer(Params):
    """A decision. `planHash` identifies the plan you saw: a decision on any other is rejected. `for` is used with allow-for."""

    refused: ClassVar[Mapping[str, str]] = {
        "reviewer": "the signed-in user is always the reviewer",
        "grantExpiresInDays": "use allow-for and `for`; allow-always lasts 90 days",
    }

    decision: Literal["allow-once", "allow-for", "allow-always", "deny"]
    reason: ReasonText = ""
    plan_hash: str | None = Field(None, max_length=64)
    for_: ForHowLong | None = Field(None, alias="for")


def decide_and_read(user: User, approval_id: str, answer: Answer) -> ApprovalRecord:
    """Decide an approval request and return it. Repeating the same decision is accepted."""
    decide(user, approval_id, answer)
    return find_record(user, approval_id)


def decide(user: User, approval_id: str, answer: Answer) -> bool:
    """Decide an approval request. Return False if this user has already made the same decision."""
    terms = GrantTerms(answer.for_.scope, answer.for_.seconds, answer.for_.uses) if answer.for_ else None
    decision, seen = answer.decision, answer.plan_hash
    try:
        with openclaw_errors():
            approval_requests.resolve_approval(
                approval_id, by=user, decision=decision, reason=answer.reason, terms=terms, seen_hash=seen
            )
    except Conflict as error:
        details = error.details or {}
        if (details.get("decision"), details.get("decidedBy")) != (decision, user.get_username()):
            raise
        return False
    return True
