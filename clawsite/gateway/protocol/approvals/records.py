"""Approval requests as records, in the form that people and programs decide on."""

import contextlib
from collections.abc import Iterator
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.infra import clock
from clawsite.infra.errors import NotFound
from clawsite.infra.reasons import Reason
from sessions_app.models import Session
from tools_app.approvals import requests as approval_requests
from tools_app.approvals.allowed_by import describe_decision
from tools_app.approvals.approvers import Quorum, find_quorum, find_quorums, why_may_not_approve
from tools_app.exec.gate.types import public_code, read_reason
from tools_app.models import Approval
from tools_app.models.approval import ApprovalQuerySet

DECISIONS = ("allow-once", "allow-always", "deny")  # decisions known to OpenClaw's clients
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
        record["resolvedAtMs"] = clock.to_ms(approval.decided_at)
        record.update(_to_resolution(approval))  # type: ignore[typeddict-item]
    return record


def _to_resolution(approval: Approval) -> dict[str, Any]:
    closed = describe_decision(approval)
    return {"decision": closed["decision"] or None, "resolvedBy": closed["by"], "reason": closed["reason"]}


def build_event(approval: Approval, change: str) -> tuple[str, dict[str, Any]]:
    """Build the event that tells approvers about a change to a request: its name and its payload."""
    payload: dict[str, Any] = {"id": str(approval.pk), "request": to_request(approval, 0)}
    if change == "resolved":
        return "exec.approval.resolved", {**payload, **_to_resolution(approval), "ts": clock.now_ms(), "status": approval.status}
    payload |= {"createdAtMs": clock.to_ms(approval.created_at), "expiresAtMs": clock.to_ms(approval.expires_at)}
    return (
        ("exec.approval.requested", payload) if change == "requested" else ("exec.approval.changed", {**payload, "change": change})
    )


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
