"""Questions about commands as OpenClaw's clients draw them: what would run, and how it ended. The same facts, another shape."""

from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.gateway.protocol.approvals import DECISIONS, MAX_OPEN
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
    """A person is a `device` with their name, the clock and whatever ended the run are the `system`."""

    kind: Literal["device", "system"]
    id: NotRequired[str]


class Source(TypedDict):
    agentId: NotRequired[str]
    sessionKey: NotRequired[str]


class ApprovalSnapshot(TypedDict):
    """A question. A closed one has the properties from `resolvedAtMs` on; what was allowed for a while is told as allow-once."""

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
    """`session_key` is how whoever is told knows its session; None where it has none."""
    told = ApprovalSnapshot(
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
        return told
    told["resolvedAtMs"] = clock.to_ms(approval.decided_at)
    told["source"] = Source()
    if approval.agent:
        told["source"]["agentId"] = approval.agent
    if session_key:
        told["source"]["sessionKey"] = session_key
    told["resolver"] = Resolver(kind="system")
    match approval.status:
        case Status.EXPIRED:
            told["status"], told["reason"] = "expired", "timeout"
        case Status.VOID:
            told["status"], told["reason"] = "cancelled", "run-aborted"
        case Status.DENIED:
            told["status"], told["reason"], told["decision"] = "denied", "user", "deny"
        case _:
            always = approval.decision == Approval.Decision.ALWAYS
            told["status"], told["reason"], told["decision"] = "allowed", "user", "allow-always" if always else "allow-once"
    if approval.decided_by and told["reason"] == "user":
        told["resolver"] = Resolver(kind="device", id=approval.decided_by.get_username())
    return told


def snapshot_for(user: User, approval: Approval) -> ApprovalSnapshot:
    return to_snapshot(approval, approval.session.key_for(user.pk) if approval.session else None)


class ApprovalReplay(TypedDict):
    """The open questions of one session, oldest first; `truncated`: there are more."""

    sessionKey: str
    updatedAtMs: int
    approvals: list[ApprovalSnapshot]
    truncated: bool


def build_replay(user: User, session: Session) -> ApprovalReplay:
    key = session.key_for(user.pk)
    waiting = Approval.objects.for_user(user).filter(session=session, status=Status.PENDING).order_by("created_at", "id")
    found = list(waiting[: MAX_OPEN + 1])
    return ApprovalReplay(
        sessionKey=key,
        updatedAtMs=clock.now_ms(),
        approvals=[to_snapshot(approval, key) for approval in found[:MAX_OPEN]],
        truncated=len(found) > MAX_OPEN,
    )


def build_session_event(approval: Approval, session_key: str) -> dict[str, Any]:
    """The event `session.approval` about a question as it is now."""
    told = to_snapshot(approval, session_key)
    phase = "pending" if told["status"] == "pending" else "terminal"
    return {"sessionKey": session_key, "updatedAtMs": clock.now_ms(), "phase": phase, "approval": told}
