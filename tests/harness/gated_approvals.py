"""Commands that are planned and asked about, without a worker: a run in a claim's hands, and plans made by the real gate."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.db import transaction

from sessions_app.models import ToolCall
from sessions_app.runs import lifecycle, queue, tool_calls
from sessions_app.runs.tool_calls import CallDecision
from sessions_app.runs.types import ClaimedRun
from tools_app.approvals.supervise import decide_command
from tools_app.core.definition import CallRef, ToolEnv
from tools_app.core.supervision import Supervision
from tools_app.exec.plan import PlannedCommand
from tools_app.exec.planning import CommandRequest, make_plan
from tools_app.models import Approval, ExecRule

KEPT: dict[str, Any] = {"kept": ["exec"], "trace": {"exec": []}}


def allow_asking(scope: str = "agent", subject: str = "main", **fields: Any) -> ExecRule:
    """The rule that lets agent main ask, or another one."""
    fields = {"security": "allowlist", "ask": "on-miss", **fields}
    rule, _ = ExecRule.objects.update_or_create(scope=scope, subject=subject, defaults=fields)
    return rule


def claimed_run(user: Any, session: Any, run_id: str = "k1") -> ClaimedRun:
    lifecycle.accept_run(user=user, session=session, run_id=run_id, prompt="do it")
    with transaction.atomic():
        (claimed,) = queue.claim_runs("w1", 1).runs
    return claimed


async def plan_of(claimed: ClaimedRun, workspace: Path, line: str, call: str = "c1", **wanted: Any) -> PlannedCommand:
    env = ToolEnv(
        workspace=workspace,
        agent=claimed.agent,
        owner_id=claimed.session_owner_id,
        session_id=str(claimed.session_id),
        session_key=claimed.session_key,
        run_pk=claimed.pk,
    )
    return await make_plan(CommandRequest(line, **wanted), CallRef(call, "exec", {"command": line}), env)


def planned(claimed: ClaimedRun, workspace: Path, line: str, **more: Any) -> PlannedCommand:
    return asyncio.run(plan_of(claimed, workspace, line, **more))


def decide(claimed: ClaimedRun, plan: PlannedCommand, why: str = "because") -> Supervision:
    with transaction.atomic():
        return decide_command(claimed, plan, why=why, version=1)


def asked(claimed: ClaimedRun, workspace: Path, line: str = "touch made", **more: Any) -> Approval:
    """An open question about a command that no list names."""
    decided = decide(claimed, planned(claimed, workspace, line, **more))
    assert decided.effect == "ask", decided
    call = more.get("call", "c1")
    with transaction.atomic():
        tool_calls.record_decisions(claimed, [CallDecision(call, "exec", {"command": line}, ToolCall.Status.WAITING, verdict=KEPT)])
    return Approval.objects.get(pk=decided.approval)


def another_executable(plan: PlannedCommand) -> PlannedCommand:
    """The same plan after somebody replaced its first program."""
    first, *others = plan.plan.executables
    changed = (replace(first, identity="another file"), *others)
    return PlannedCommand(replace(plan.plan, executables=changed), plan.analysis)
