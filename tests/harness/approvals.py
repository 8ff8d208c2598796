"""Approval requests for tests.

`create_approval` stores an open request with invented details, enough to show or decide it. `request_approval` and
`park_for_approval` go through the real gate with a claimed run.
"""

import asyncio
import datetime as dt
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.db import transaction

from clawsite.accounts.models import User
from clawsite.infra import clock
from clawsite.infra.reasons import Reason
from sessions_app.models import Run, Session, ToolCall
from sessions_app.runs import lifecycle, queue, tool_calls, waiting
from sessions_app.runs.tool_calls import CallDecision
from sessions_app.runs.types import ClaimedRun
from tools_app.approvals import requests as approval_requests
from tools_app.approvals.command_decision import decide_command
from tools_app.core.definition import CallRef, ToolEnv
from tools_app.core.supervision import Supervision
from tools_app.exec.gate.types import Executable
from tools_app.exec.plan import ExecPlan, PlannedCommand
from tools_app.exec.planning import CommandRequest, make_plan
from tools_app.models import Approval, ApprovalVote, Command, ExecRule, Grant

_numbers = itertools.count(1)
ALLOWED_VERDICT: dict[str, Any] = {"kept": ["exec"], "trace": {"exec": []}}
LINE = "git status --short && ls -la | head -5 > out.txt"
EXPLANATION = "I want to see what has changed before I go on."


def build_parts(line: str) -> list[dict[str, Any]]:
    """Split a line roughly as the gate does: programs after operators, then arguments. Good enough to be highlighted."""
    parts, begin, first = [], 0, True
    for word in line.split(" "):
        kind = "program" if first else "argument"
        if word in ("&&", "||", "|", ";"):
            kind = "operator"
        elif word.startswith(">"):
            kind = "redirect"
        first = kind == "operator"
        if word:
            parts.append({"begin": begin, "end": begin + len(word), "kind": kind, "note": ""})
        begin += len(word) + 1
    return parts


def build_plan(session: Session | None, line: str, *, call: str, run: int = 0, **more: Any) -> ExecPlan:
    programs = [line[part["begin"] : part["end"]] for part in build_parts(line) if part["kind"] == "program"]
    facts: dict[str, Any] = {
        "line": line,
        "argv": None,
        "cwd": "/home/ada/work",
        "environment_hash": "0" * 64,
        "executables": tuple(Executable(name, f"/usr/bin/{name}", f"/usr/bin/{name}", "1:2:3:4") for name in programs),
        "tool": "exec",
        "agent": session.agent if session else "main",
        "session": str(session.pk) if session else "",
        "run": run,
        "call": call,
        "level": 2,
        "workspace": "/home/ada/work",
        "access": "rw",
        "home": "",
        "network": False,
        "background": False,
        "pty": False,
        "timeout_s": 1800,
    }
    return ExecPlan(**(facts | more))


def create_approval(user: User, session: Session, line: str = LINE, *, plan: dict[str, Any] | None = None, **more: Any) -> Approval:
    """Create an open approval request of a waiting run. `plan` replaces facts of the plan, `more` fields of the request."""
    number = next(_numbers)
    call = f"call-{number}"
    accepted = lifecycle.accept_run(user=user, session=session, run_id=f"asking-{number}", prompt="the secret prompt")
    now = clock.now()
    ToolCall.objects.create(
        run_id=accepted.pk,
        session=session,
        call_id=call,
        position=0,
        name="exec",
        arguments={"command": line},
        status=ToolCall.Status.WAITING,
        query={},
        verdict={},
        policy_version=1,
        lease_token=1,
        created_at=now,
    )
    busy = Run.objects.filter(session=session, status__in=["running", "waiting"]).exists()
    if not busy:
        Run.objects.filter(pk=accepted.pk).update(status=Run.Status.WAITING, started_at=now)
    exec_plan = build_plan(session, line, call=call, run=accepted.pk, **(plan or {}))
    facts: dict[str, Any] = {
        "session": session,
        "run_id": accepted.pk,
        "generation": session.generation,
        "call_id": call,
        "tool": "exec",
        "agent": exec_plan.agent,
        "requester": user,
        "plan": exec_plan.to_json(),
        "plan_hash": exec_plan.hash,
        "shown": build_card(exec_plan),
        "why": EXPLANATION,
        "created_at": now - dt.timedelta(minutes=3),
        "expires_at": now + dt.timedelta(hours=23),
    }
    approval = Approval.objects.create(**(facts | more))
    waiting.add_waits(accepted.pk, approval_requests.list_waits(accepted.pk))
    return approval


def build_card(plan: ExecPlan, **more: Any) -> dict[str, Any]:
    names = [each.name for each in plan.executables]
    return {
        "parts": build_parts(plan.line),
        "reasons": [Reason("gate.not-allowlisted", program=name, path=f"/usr/bin/{name}").to_json() for name in names],
        "writes": ["/home/ada/work/out.txt"],
        "touches": [],
        "may": ["allow-once", "allow-for", "allow-always", "deny"],
        "narrow": [{"pattern": f"/usr/bin/{name}", "shape": ["status", "--short"]} for name in names],
        **more,
    }


def create_approvals(user: User, session: Session, count: int) -> None:
    """Create this many open requests of one run."""
    first = create_approval(user, session)
    copies = []
    for number in range(count - 1):
        copy = Approval.objects.get(pk=first.pk)
        copy.pk = None
        copy.id = Approval._meta.get_field("id").get_default()
        copy.call_id = f"{first.call_id}-{number}"
        copies.append(copy)
    Approval.objects.bulk_create(copies, batch_size=200)


def create_decided_approval(user: User, by: User, session: Session, run: Run, n: int) -> None:
    """Create a decided request with its vote, grant and command, and an exec rule."""
    now = clock.now()
    plan = build_plan(session, "ls", call=f"asked-{n}", run=run.pk)
    common = {"session": session, "run": run, "generation": 1, "call_id": plan.call, "plan": plan.to_json(), "plan_hash": plan.hash}
    approval = Approval.objects.create(
        **common,
        tool="exec",
        agent="main",
        requester=user,
        shown=build_card(plan),
        created_at=now,
        expires_at=now,
        status=Approval.Status.USED,
        decided_by=by,
        decided_at=now,
    )
    ApprovalVote.objects.create(approval=approval, user=by, at=now)
    Grant.objects.create(
        scope="agent", subject="nobody", entries=[{"pattern": "ls"}], owner=user, approval=approval, created_at=now
    )
    Command.objects.create(**common, name=f"otter-{n}", worker="w1", status=Command.Status.EXITED, started_at=now, ended_at=now)
    ExecRule.objects.create(scope="agent", subject=f"nobody-{n}", security="allowlist", updated_by=user)


def allow_approval_requests(scope: str = "agent", subject: str = "main", **fields: Any) -> ExecRule:
    """Store an exec rule; by default, agent main may request approval."""
    fields = {"security": "allowlist", "ask": "on-miss", **fields}
    rule, _ = ExecRule.objects.update_or_create(scope=scope, subject=subject, defaults=fields)
    return rule


def claim_run(user: Any, session: Any, run_id: str = "k1") -> ClaimedRun:
    lifecycle.accept_run(user=user, session=session, run_id=run_id, prompt="do it")
    with transaction.atomic():
        (claimed,) = queue.claim_runs("w1", 1).runs
    return claimed


def plan_command(claimed: ClaimedRun, workspace: Path, line: str, call: str = "c1", **request: Any) -> PlannedCommand:
    """Plan a command with the real gate."""
    env = ToolEnv(
        workspace=workspace,
        agent=claimed.agent,
        owner_id=claimed.session_owner_id,
        session_id=str(claimed.session_id),
        session_key=claimed.session_key,
        run_pk=claimed.pk,
    )
    return asyncio.run(make_plan(CommandRequest(line, **request), CallRef(call, "exec", {"command": line}), env))


def decide_plan(claimed: ClaimedRun, plan: PlannedCommand, why: str = "because") -> Supervision:
    with transaction.atomic():
        return decide_command(claimed, plan, why=why, version=1)


def request_approval(
    claimed: ClaimedRun, workspace: Path, line: str = "touch made", *, call: str = "c1", why: str = "because", **request: Any
) -> Approval:
    """Request approval for a command that is not on an allowlist."""
    decided = decide_plan(claimed, plan_command(claimed, workspace, line, call=call, **request), why)
    assert decided.effect == "ask", decided
    waiting = CallDecision(call, "exec", {"command": line}, ToolCall.Status.WAITING, verdict=ALLOWED_VERDICT)
    with transaction.atomic():
        tool_calls.record_decisions(claimed, [waiting])
    return Approval.objects.get(pk=decided.approval)


def park_for_approval(
    user: Any, session: Any, workspace: Path, line: str = "touch made", *, run_id: str = "k1", why: str = "because", **rule: Any
) -> Approval:
    """Start a run that requests approval and waits for it, as a worker does. `rule` are fields of the exec rule."""
    allow_approval_requests(**rule)
    claimed = claim_run(user, session, run_id)
    approval = request_approval(claimed, workspace, line, why=why)
    waiting.park(claimed, "approval", approval_requests.list_waits(claimed.pk))
    return approval


def with_other_executable(plan: PlannedCommand) -> PlannedCommand:
    """Return the plan as it is after its first program was replaced on disk."""
    first, *others = plan.plan.executables
    changed = (replace(first, identity="another file"), *others)
    return PlannedCommand(replace(plan.plan, executables=changed), plan.analysis)
