"""Approval requests in the form of OpenClaw's clients: what would run, and the decision."""

from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.gateway.protocol.approvals.records import DECISIONS, MAX_OPEN
from clawsite.infra import clock
from sessions_app.models import Session
from tools_app.models import Approval

Status = Approval.Status
Decision = Literal["allow-once", "allow-always", "deny"]


class Presentation(TypedDict):
    kind: Literal["exec"]
    commandText: str
    host: Literal["gateway"]
    agentId: str | None
    allowedDecisions: list[Decision]


class Resolver(TypedDict):
    """Who closed the request: a person is a `device` with their username; a timeout or the end of the run is the `system`."""

    kind: Literal["device", "system"]
    id: NotRequired[str]


class Source(TypedDict):
    agentId: NotRequired[str]
    sessionKey: NotRequired[str]


class ApprovalSnapshot(TypedDict):
    """An approval request. Only closed ones have `resolvedAtMs` and the properties after it. A limited grant is reported as
    allow-once."""

    id: str
    urlPath: str
    createdAtMs: int
    expiresAtMs: int
    presentation: Presentation
    status: Literal["pending", "allowed", "denied", "expired", "cancelled"]
    resolvedAtMs: NotRequired[int]
    source: NotRequired[Source]
    resolver: NotRequired[Resolver]
    decision: NotRequired[Decision]
    reason: NotRequired[Literal["user", "timeout", "run-aborted"]]


def to_snapshot(approval: Approval, session_key: str | None) -> ApprovalSnapshot:
    """Build a snapshot. `session_key` is the recipient's key for the session; None if there is no session."""
    snapshot = ApprovalSnapshot(
        id=str(approval.pk),
        urlPath=f"/approvals/{approval.pk}/",
        createdAtMs=clock.to_ms(approval.created_at),
        expiresAtMs=clock.to_ms(approval.expires_at),
        presentation=Presentation(
            kind="exec",
            commandText=approval.plan["line"],
            host="gateway",
            agentId=approval.agent or None,
            allowedDecisions=[cast("Decision", each) for each in approval.shown["may"] if each in DECISIONS],
        ),
        status="pending",
    )
    if approval.status == Status.PENDING or approval.decided_at is None:
        return snapshot
    snapshot["resolvedAtMs"] = clock.to_ms(approval.decided_at)
    snapshot["source"] = Source()
    if approval.agent:
        snapshot["source"]["agentId"] = approval.agent
    if session_key:
        snapshot["source"]["sessionKey"] = session_key
    snapshot["resolver"] = Resolver(kind="system")
    match approval.status:
        case Status.EXPIRED:
            snapshot["status"], snapshot["reason"] = "expired", "timeout"
        case Status.VOID:
            snapshot["status"], snapshot["reason"] = "cancelled", "run-aborted"
        case Status.DENIED:
            snapshot["status"], snapshot["reason"], snapshot["decision"] = "denied", "user", "deny"
        case _:
            always = approval.decision == Approval.Decision.ALWAYS
            snapshot["status"], snapshot["reason"], snapshot["decision"] = (
                "allowed",
                "user",
                "allow-always" if always else "allow-once",
            )
    if approval.decided_by and snapshot["reason"] == "user":
        snapshot["resolver"] = Resolver(kind="device", id=approval.decided_by.get_username())
    return snapshot


def snapshot_for(user: User, approval: Approval) -> ApprovalSnapshot:
    return to_snapshot(approval, approval.session.key_for(user.pk) if approval.session else None)


class ApprovalReplay(TypedDict):
    """The pending approval requests of one session, oldest first. `truncated` is true if there are more."""

    sessionKey: str
    updatedAtMs: int
    approvals: list[ApprovalSnapshot]
    truncated: bool


def build_replay(user: User, session: Session) -> ApprovalReplay:
    key = session.key_for(user.pk)
    pending = Approval.objects.for_user(user).filter(session=session, status=Status.PENDING).order_by("created_at", "id")
    approvals = list(pending[: MAX_OPEN + 1])
    return ApprovalReplay(
        sessionKey=key,
        updatedAtMs=clock.now_ms(),
        approvals=[to_snapshot(approval, key) for approval in approvals[:MAX_OPEN]],
        truncated=len(approvals) > MAX_OPEN,
    )


def build_session_event(approval: Approval, session_key: str) -> dict[str, Any]:
    """Build the event `session.approval` with the current state of an approval request."""
    snapshot = to_snapshot(approval, session_key)
    phase = "pending" if snapshot["status"] == "pending" else "terminal"
    return {"sessionKey": session_key, "updatedAtMs": clock.now_ms(), "phase": phase, "approval": snapshot}
