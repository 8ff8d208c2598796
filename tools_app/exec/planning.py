"""Build the plan of an exec call: directory, programs, environment and sandbox. Runs nothing."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from clawsite.infra import db
from clawsite.infra.protected_paths import code_paths, secret_paths
from clawsite.infra.reasons import Reason
from tools_app.core.definition import CallRef, ToolEnv, ToolFailed
from tools_app.core.supervision import EXEC_DENIED, denial_text
from tools_app.exec.environment import SEARCH_PATH, build_environment, hash_environment
from tools_app.exec.gate.verdict import ExecContext, analyze, hash_analysis
from tools_app.exec.plan import ExecPlan, PlannedCommand
from tools_app.exec.rules import ExecRules, rules_for
from tools_app.exec.sandbox.available import probe_once
from tools_app.exec.sandbox.types import Sandbox, SandboxLevel
from tools_app.models import Approval, Grant


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """The validated arguments of a call."""

    line: str
    workdir: str = ""
    timeout_s: float = 0  # 0 for the longest time the rules allow
    background: bool = False
    pty: bool = False


async def make_plan(request: CommandRequest, ref: CallRef, env: ToolEnv) -> PlannedCommand:
    """Plan a command in the agent's workspace. Raises ToolFailed if it can't be attempted at all."""
    if env.workspace is None:
        raise ToolFailed("commands need a workspace, but this session has none")
    rules = await db.read(rules_for, env.agent, env.session_id, env.through)
    workspace = env.workspace.resolve()
    cwd = _resolve_directory(workspace, request.workdir)
    sandbox = choose_sandbox(env, workspace, rules)
    environment = build_environment(sandbox.home, pty=request.pty)
    context = ExecContext(cwd=cwd, writable=(workspace,), search=tuple(Path(directory) for directory in SEARCH_PATH))
    analysis = await analyze(request.line, context)
    plan = ExecPlan(
        line=request.line,
        argv=analysis.argv,
        cwd=str(cwd),
        environment_hash=hash_environment(environment),
        executables=analysis.executables,
        tool=ref.name,
        agent=env.agent,
        session=env.session_id,
        run=env.run_pk or 0,
        call=ref.id,
        level=sandbox.level,
        workspace=str(sandbox.workspace),
        access=sandbox.access,
        home=str(sandbox.private_home or ""),
        network=sandbox.network,
        background=request.background,
        pty=request.pty,
        timeout_s=min(request.timeout_s or rules.timeout_seconds, rules.timeout_seconds),
        analysis_hash=hash_analysis(analysis),
        scripts=analysis.scripts,
    )
    return PlannedCommand(plan, analysis)


def choose_sandbox(env: ToolEnv, workspace: Path, rules: ExecRules) -> Sandbox:
    """Choose the strongest sandbox this host supports; it is never weakened for convenience."""
    return Sandbox(
        level=SandboxLevel(probe_once().level),
        workspace=env.agent_workspace.path.resolve() if env.agent_workspace else workspace,
        access=env.agent_workspace.access if env.agent_workspace else "rw",
        network=rules.network,
        hidden=secret_paths(),
        private_home=workspace if env.agent_workspace else None,
        unwritable=code_paths(),
    )


def _resolve_directory(workspace: Path, workdir: str) -> Path:
    """Resolve a directory in the workspace to its real path."""
    directory = (workspace / workdir).resolve()
    if not directory.is_relative_to(workspace):
        raise ToolFailed(f"`workdir` must be in the workspace {workspace}; `{workdir}` is outside")
    if not directory.is_dir():
        raise ToolFailed(f"`workdir` is not a directory: `{workdir}`")
    return directory


async def find_changes(plan: ExecPlan) -> Reason | None:
    """Check again, right before starting, that everything still matches the plan. Returns what changed, or None."""
    context = ExecContext(Path(plan.cwd), (Path(plan.home or plan.workspace),), tuple(Path(directory) for directory in SEARCH_PATH))
    if await asyncio.to_thread(os.path.realpath, plan.cwd) != plan.cwd:
        return Reason("changed.directory")
    analysis = await analyze(plan.line, context)
    if analysis.executables != plan.executables:
        return Reason("changed.program")
    if plan.analysis_hash and hash_analysis(analysis) != plan.analysis_hash:
        return Reason("changed.findings")
    # If the allowlist admits a script, no one approved its content; an earlier call of the same turn may have written it.
    if analysis.scripts != plan.scripts and await db.read(_was_approved, plan):
        return Reason("changed.script")
    home = sandbox_from_plan(plan).home
    if hash_environment(build_environment(home, pty=plan.pty)) != plan.environment_hash:
        return Reason("changed.environment")
    if probe_once().level < plan.level:
        return Reason("changed.sandbox")
    return None


def _was_approved(plan: ExecPlan) -> bool:
    """Whether this call was approved, or a grant covers its line, which includes these scripts."""
    approvals = Approval.objects.filter(run_id=plan.run, call_id=plan.call, plan_hash=plan.hash)
    return approvals.exists() or Grant.objects.filter(line=plan.line, revoked_at__isnull=True).exists()


def command_denied(reason: Reason) -> ToolFailed:
    """Return the exception for a command that is denied after its call has started."""
    return ToolFailed(denial_text(reason), code=EXEC_DENIED)


def sandbox_from_plan(plan: ExecPlan) -> Sandbox:
    """The sandbox exactly as planned."""
    return Sandbox(
        level=SandboxLevel(plan.level),
        workspace=Path(plan.workspace),
        access="none" if plan.access == "none" else "ro" if plan.access == "ro" else "rw",
        network=plan.network,
        hidden=secret_paths(),
        private_home=Path(plan.home) if plan.home else None,
        unwritable=code_paths(),
    )
