"""Approval requests from programs for commands they run themselves. Only the request is handled here; nothing runs."""

import datetime as dt
import uuid

from django.db import transaction

from clawsite.accounts.models import User
from clawsite.infra import clock
from clawsite.infra.audit import actor as acting
from clawsite.infra.errors import InvalidRequest, QueueFull
from clawsite.infra.reasons import Reason
from tools_app.approvals import announce
from tools_app.approvals.approvers import quorum_from_rules
from tools_app.exec.gate.shell.line import find_rejections
from tools_app.exec.plan import ExecPlan
from tools_app.exec.rules import rules_for
from tools_app.models import Approval

MAX_OPEN = 20  # per account
EXTERNAL = "outside"


@transaction.atomic
def request_external_approval(*, by: User, name: str, command: str, cwd: str, agent: str, seconds: float) -> Approval:
    """Create an approval request. Sending the same name again returns the open request."""
    mine = Approval.objects.filter(requester=by, run__isnull=True, status=Approval.Status.PENDING)
    plan = _build_plan(command, cwd, agent, name or uuid.uuid4().hex)
    if name and (first := mine.filter(call_id=name).first()):
        if first.plan_hash != plan.hash:
            raise InvalidRequest(f"the ID {name!r} belongs to an open request for another command, directory or agent")
        return first
    if mine.count() >= MAX_OPEN:
        raise QueueFull(f"you already have {MAX_OPEN} open requests; wait for decisions", retryable=True, retry_after_ms=5000)
    if rejections := find_rejections(command):
        raise InvalidRequest(f"the command can't be shown to approvers. {rejections[0].text}")
    quorum = quorum_from_rules(rules_for(agent, ""))
    now = clock.now()
    reason = Reason("gate.outside", requester=by.get_username())
    approval = Approval.objects.create(
        call_id=plan.call,
        tool=EXTERNAL,
        agent=agent,
        requester=by,
        plan=plan.to_json(),
        plan_hash=plan.hash,
        shown={
            "parts": [{"begin": 0, "end": len(command), "kind": "text", "note": ""}],
            "reasons": [reason.to_json()],
            "writes": [],
            "touches": [],
            "may": [Approval.Decision.ONCE, Approval.Decision.DENY],
            "notNarrow": Reason("gate.runs-elsewhere").to_json(),
        },
        needed=quorum.people,
        approver_groups=[list(ids) for ids in quorum.groups],
        exclude_requester=True,
        created_at=now,
        expires_at=now + dt.timedelta(seconds=seconds),
    )
    announce.record_audit("approval.requested", approval, actor=acting.actor_for_user(by))
    announce.notify_approval_changed(approval, "requested")
    return approval


def _build_plan(command: str, cwd: str, agent: str, call: str) -> ExecPlan:
    """The plan of a command that runs elsewhere: only its text is known."""
    return ExecPlan(
        line=command,
        argv=None,
        cwd=cwd,
        environment_hash="",
        executables=(),
        tool=EXTERNAL,
        agent=agent,
        session="",
        run=0,
        call=call,
        level=0,
        workspace="",
        access="none",
        home="",
        network=True,
        background=False,
        pty=False,
        timeout_s=0,
    )
