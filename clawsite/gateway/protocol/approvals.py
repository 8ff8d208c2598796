"""Approval requests in messages and responses: those for a session's tool calls, and denials that a rule could prevent."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.gateway.protocol.events.sessions import ApprovalFacts
from clawsite.gateway.protocol.params import Params
from clawsite.infra import clock
from clawsite.infra.errors import Conflict, NotFound
from clawsite.infra.reasons import Reason
from sessions_app.models import Session
from tools_app.approvals import requests as approval_requests
from tools_app.approvals.allowed_by import describe_granted
from tools_app.approvals.approvers import Quorum, find_quorum, find_quorums, why_may_not_approve
from tools_app.approvals.command_decision import NO_RULE_CODE, is_undecided
from tools_app.approvals.grants import GrantTerms
from tools_app.exec.gate.types import public_code, read_reason
from tools_app.exec.rules import rules_for
from tools_app.models import Approval
from tools_app.models.approval import ApprovalQuerySet


def add_approvals(session: Session, messages: Sequence[dict[str, Any]]) -> None:
    """Add approval requests to the messages that contain their tool calls. Call IDs are unique in a run, not in a session."""
    calls = [(message, block["id"]) for message in messages for block in _list_calls(message)]
    if not calls:
        return
    rows = Approval.objects.filter(session=session, call_id__in={call for _message, call in calls}).select_related(
        "decided_by", "run"
    )
    rows = rows.prefetch_related("grants")
    # The last one counts, because a canceled request may have been repeated.
    by_call = {
        (row.run.run_id if row.run else None, row.call_id): row for row in rows.defer("plan", "shown").order_by("created_at")
    }
    for message, call in calls:
        if row := by_call.get((message.get("runId"), call)):
            message.setdefault("approvals", {})[call] = to_approval_facts(row)


def add_enable_offers(session: Session, messages: Sequence[dict[str, Any]]) -> None:
    """Mark denials due to a missing exec rule while there is still none: an operator could let the agent request commands."""
    denied = [message for message in messages if message.get("details", {}).get("code") == NO_RULE_CODE]
    if denied and is_undecided(rules_for(session.agent, str(session.pk))):
        for message in denied:
            message["letAsk"] = True


def to_approval_facts(row: Approval) -> ApprovalFacts:
    facts = ApprovalFacts(id=str(row.pk), status=row.status, expiresAt=clock.to_ms(row.expires_at), needed=row.needed)  # type: ignore[typeddict-item]
    if row.decided_at:
        facts["decision"] = row.decision
        facts["by"] = row.decided_by.get_username() if row.decided_by else None
        facts["reason"] = row.reason_text
        facts["decidedAt"] = clock.to_ms(row.decided_at)
        facts.update(describe_granted(row))  # type: ignore[typeddict-item]
    return facts


def _list_calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    if message["role"] != "assistant":
        return []
    return [block for block in message["content"] if block.get("type") == "toolCall"]


DECISIONS = ("allow-once", "allow-always", "deny")  # those known to OpenClaw's clients
MAX_OPEN = 50  # pending requests sent with the state of one session


class Asked(TypedDict):
    """What would run, in OpenClaw's form. `command` is always the complete line."""

    command: str
    cwd: str | None
    host: Literal["gateway"]
    security: None
    ask: None
    agentId: str
    resolvedPath: str | None
    sessionKey: str | None
    allowedDecisions: list[str]


class ApprovalRecord(TypedDict):
    """An approval request. `may` lists the possible decisions, `whyNot` says why you can't decide; `why` is the agent's reason."""

    id: str
    commandText: str
    request: Asked
    createdAtMs: int
    expiresAtMs: int
    status: str
    runId: str | None
    toolCallId: str
    requester: str
    planHash: str
    executables: list[dict[str, Any]]
    scripts: list[dict[str, str]]  # files whose content it would run, each with its SHA-256
    parts: list[dict[str, Any]]
    reasons: list[dict[str, str]]
    writes: list[str]
    touches: list[str]
    isolation: int
    network: bool
    why: str
    may: list[str]
    whyNot: str
    needed: int
    agreed: list[str]
    decision: NotRequired[str | None]
    resolvedBy: NotRequired[str | None]
    resolvedAtMs: NotRequired[int]
    reason: NotRequired[str]


def to_record(approval: Approval, user: User, quorum: Quorum | None = None) -> ApprovalRecord:
    """Build the record as this account sees it. Pass `quorum` if it was already read."""
    plan, shown = approval.plan, approval.shown
    quorum = quorum or find_quorum(approval)
    record = ApprovalRecord(
        id=str(approval.pk),
        commandText=plan["line"],
        request=to_request(approval, user.pk),
        createdAtMs=clock.to_ms(approval.created_at),
        expiresAtMs=clock.to_ms(approval.expires_at),
        status=approval.status,
        runId=approval.run.run_id if approval.run else None,
        toolCallId=approval.call_id,
        requester=approval.requester.get_username(),
        planHash=approval.plan_hash,
        executables=[each | {"distrust": Reason.from_json(each.get("distrust", "")).text} for each in plan["executables"]],
        scripts=plan.get("scripts", []),
        parts=shown["parts"],
        reasons=[{"code": public_code(each), "words": each.text} for each in map(read_reason, shown["reasons"])],
        writes=shown["writes"],
        touches=shown["touches"],
        isolation=plan["level"],
        network=plan["network"],
        why=approval.why,
        may=shown["may"],
        whyNot=why_may_not_approve(user, approval, quorum),
        needed=quorum.people,
        agreed=[vote.user.get_username() for vote in approval.votes.all()],
    )
    if approval.decided_at:
        record["decision"] = approval.decision or None
        record["resolvedBy"] = approval.decided_by.get_username() if approval.decided_by else None
        record["resolvedAtMs"] = clock.to_ms(approval.decided_at)
        record["reason"] = approval.reason_text
    return record


def to_request(approval: Approval, user_pk: int) -> Asked:
    plan = approval.plan
    programs = [each["realpath"] for each in plan["executables"]]
    return Asked(
        command=plan["line"],
        cwd=plan["cwd"] or None,
        host="gateway",
        security=None,
        ask=None,
        agentId=approval.agent,
        resolvedPath=programs[0] if programs else None,
        sessionKey=approval.session.key_for(user_pk) if approval.session else None,
        allowedDecisions=[decision for decision in approval.shown["may"] if decision in DECISIONS],
    )


def list_open_records(user: User, *, limit: int, session: Session | None = None) -> list[ApprovalRecord]:
    """Return pending approval requests, oldest first: all, or those of one session."""
    pending = Approval.objects.for_user(user).filter(status=Approval.Status.PENDING)
    if session is not None:
        pending = pending.filter(session=session)
    return list_records(user, pending.order_by("created_at", "id"), limit=limit)


def list_records(user: User, approvals: ApprovalQuerySet, *, limit: int) -> list[ApprovalRecord]:
    related = approvals.select_related("session", "run", "requester", "decided_by").prefetch_related("votes__user")
    rows = list(related[:limit])
    quorums = find_quorums(rows)
    return [to_record(approval, user, quorums[approval.pk]) for approval in rows]


def find_record(user: User, approval_id: str) -> ApprovalRecord:
    with openclaw_errors():
        return to_record(approval_requests.find_approval(user, approval_id), user)


@contextlib.contextmanager
def openclaw_errors() -> Iterator[None]:
    """Raise NotFound with the message by which OpenClaw's clients recognize a closed request and remove it."""
    try:
        yield
    except NotFound as error:
        raise NotFound("unknown or expired approval id", details={"reason": "APPROVAL_NOT_FOUND"}) from error


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
