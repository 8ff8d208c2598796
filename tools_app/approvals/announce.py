"""Record and publish changes to approval requests: audit log, live updates, session events. Does not change them itself."""

from dataclasses import dataclass
from typing import Any

from django.db import transaction

from clawsite.infra import bus
from clawsite.infra.audit import log as audit_log
from clawsite.infra.audit.actor import Actor
from clawsite.infra.bus import BusMessage
from sessions_app.events.announce import announce
from sessions_app.events.journal import NewEvent
from sessions_app.runs import hot_sql
from sessions_app.runs.hot_sql import LeaseLost, RunStep
from tools_app.approvals.allowed_by import describe_decision
from tools_app.models import Approval


@dataclass(frozen=True)
class ApprovalChanged(BusMessage, kind="approval"):
    """An approval request was created or changed. Receivers read the row."""

    id: str
    change: str
    session: str


def record_audit(action: str, approval: Approval, *, actor: Actor, **details: Any) -> None:
    """Write an audit log entry with the plan's hash, so that requested, approved and executed commands can be compared."""
    audit_log.record(
        action,
        actor=actor,
        subject=("approval", approval.pk),
        session=approval.session_id or "",
        run=approval.run_id or "",
        plan=approval.plan_hash,
        line=approval.plan["line"],
        agent=approval.agent,
        **details,
    )


def notify_approval_changed(approval: Approval, change: str) -> None:
    bus.publish_on_commit(ApprovalChanged(str(approval.pk), change, str(approval.session_id or "")))


def notify_session(approval: Approval) -> None:
    """Post the decision to the session's followers, unless a worker holds the run: then its next step posts it."""
    session, run = approval.session, approval.run
    if session is None or run is None:
        return
    data = {
        "phase": "decided",
        "name": approval.tool,
        "toolCallId": approval.call_id,
        "approval": {"id": str(approval.pk), "status": approval.status, **describe_decision(approval)},
    }
    try:
        with transaction.atomic():
            events = hot_sql.commit_step(RunStep(run.pk, session.id, None, events=[NewEvent("tool", data)]))
    except LeaseLost:
        return
    announce(
        session_id=session.id,
        session_key=session.key,
        owner_id=session.owner_id,
        batch=events,
        run_pk=run.pk,
        run_id=run.run_id,
    )
