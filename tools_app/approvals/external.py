"""A question from a program about a command that it runs itself. We only ask; nothing is run, and nothing is promised about it."""

import datetime as dt
import uuid

from django.db import transaction

from clawsite.accounts.models import User
from clawsite.infra import clock
from clawsite.infra.audit import actor as acting
from clawsite.infra.errors import InvalidRequest, QueueFull
from tools_app.approvals import announce
from tools_app.approvals.approvers import quorum_from_rules
from tools_app.exec.gate.shell.line import find_rejections
from tools_app.exec.plan import ExecPlan
from tools_app.exec.rules import rules_for
from tools_app.models import Approval

MAX_OPEN = 20  # of one account
EXTERNAL = "outside"


@transaction.atomic
def request_external_approval(*, by: User, name: str, command: str, cwd: str, agent: str, seconds: float) -> Approval:
    """Ask people; the same name again finds the question that is open."""
    mine = Approval.objects.filter(requester=by, run__isnull=True, status=Approval.Status.PENDING)
    plan = _build_plan(command, cwd, agent, name or uuid.uuid4().hex)
    if name and (first := mine.filter(call_id=name).first()):
        if first.plan_hash != plan.hash:
            raise InvalidRequest(f"the id {name!r} is that of an open question about another command, directory or agent")
        return first
    if mine.count() >= MAX_OPEN:
        raise QueueFull(f"{MAX_OPEN} of your questions are open; wait for answers", retryable=True, retry_after_ms=5000)
    if refused := find_rejections(command):
        raise InvalidRequest(f"the command cannot be shown to people. {refused[0].words}")
    quorum = quorum_from_rules(rules_for(agent, ""))
    now = clock.now()
    words = f"{by.get_username()} asks about a command that it runs itself, outside of Clawsite"
    approval = Approval.objects.create(
        call_id=plan.call,
        tool=EXTERNAL,
        agent=agent,
        requester=by,
        plan=plan.to_json(),
        plan_hash=plan.hash,
        shown={
            "parts": [{"begin": 0, "end": len(command), "kind": "text", "note": ""}],
            "reasons": [{"code": EXTERNAL, "words": words}],
            "writes": [],
            "touches": [],
            "may": [Approval.Decision.ONCE, Approval.Decision.DENY],
            "notNarrow": "it runs outside of Clawsite",
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
    """What is known of a command that runs elsewhere: its words."""
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
