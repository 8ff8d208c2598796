"""From the words of a call to its plan: where it would run, with which programs, environment and isolation. Runs nothing."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from clawsite.infra import db
from clawsite.infra.protected_paths import code_paths, secret_paths
from tools_app.core.definition import CallRef, ToolEnv, ToolFailed
from tools_app.exec.environment import SEARCH_PATH, build_environment, hash_environment
from tools_app.exec.gate.verdict import ExecContext, analyze, hash_analysis
from tools_app.exec.plan import ExecPlan, PlannedCommand
from tools_app.exec.rules import ExecRules, rules_for
from tools_app.exec.sandbox.available import probe_once
from tools_app.exec.sandbox.types import Sandbox, SandboxLevel
from tools_app.models import Approval, Grant


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """What a call asks for, checked as far as its words go."""

    line: str
    workdir: str = ""
    timeout_s: float = 0  # 0: as long as the rules allow
    background: bool = False
    pty: bool = False


async def make_plan(wanted: CommandRequest, ref: CallRef, env: ToolEnv) -> PlannedCommand:
    """The plan of one command in the agent's workspace; ToolFailed where it could not even be tried."""
    if env.workspace is None:
        raise ToolFailed("commands need a workspace, and this session has none")
    rules = await db.read(rules_for, env.agent, env.session_id, env.through)
    workspace = env.workspace.resolve()
    cwd = _resolve_directory(workspace, wanted.workdir)
    sandbox = choose_sandbox(env, workspace, rules)
    environment = build_environment(sandbox.home, pty=wanted.pty)
    place = ExecContext(cwd=cwd, writable=(workspace,), search=tuple(Path(directory) for directory in SEARCH_PATH))
    analysis = await analyze(wanted.line, place)
    plan = ExecPlan(
        line=wanted.line,
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
        background=wanted.background,
        pty=wanted.pty,
        timeout_s=min(wanted.timeout_s or rules.timeout_seconds, rules.timeout_seconds),
        analysis_hash=hash_analysis(analysis),
        scripts=analysis.scripts,
    )
    return PlannedCommand(plan, analysis)


def choose_sandbox(env: ToolEnv, workspace: Path, rules: ExecRules) -> Sandbox:
    """The best isolation this host has: it is never given up for convenience."""
    return Sandbox(
        level=SandboxLevel(probe_once().level),
        workspace=env.beside.path.resolve() if env.beside else workspace,
        access=env.beside.access if env.beside else "rw",
        network=rules.network,
        hidden=secret_paths(),
        private_home=workspace if env.beside else None,
        unwritable=code_paths(),
    )


def _resolve_directory(workspace: Path, workdir: str) -> Path:
    """A directory of the workspace, by its real path."""
    chosen = (workspace / workdir).resolve()
    if not chosen.is_relative_to(workspace):
        raise ToolFailed(f"`workdir` must lie in the workspace {workspace}; `{workdir}` leads out of it")
    if not chosen.is_dir():
        raise ToolFailed(f"`workdir` is no directory: `{workdir}`")
    return chosen


async def find_changes(plan: ExecPlan) -> str:
    """Look once more, at the moment of starting: what is there now must be what was agreed to. -> what is not."""
    place = ExecContext(Path(plan.cwd), (Path(plan.home or plan.workspace),), tuple(Path(directory) for directory in SEARCH_PATH))
    if await asyncio.to_thread(os.path.realpath, plan.cwd) != plan.cwd:
        return "its directory"
    analysis = await analyze(plan.line, place)
    if analysis.executables != plan.executables:
        return "a program it would start"
    if plan.analysis_hash and hash_analysis(analysis) != plan.analysis_hash:
        return "what the gate found about it"
    # Nobody has agreed to the content of what a list allows, and an earlier call of the same turn may have written it.
    if analysis.scripts != plan.scripts and await db.read(_was_approved, plan):
        return "the content of a script it would run"
    rules_home = sandbox_from_plan(plan).home
    if hash_environment(build_environment(rules_home, pty=plan.pty)) != plan.environment_hash:
        return "its environment"
    if probe_once().level < plan.level:
        return "the isolation of this host"
    return ""


def _was_approved(plan: ExecPlan) -> bool:
    """By an answer to this very call, or by a grant of its line, which is one of these scripts too."""
    asked = Approval.objects.filter(run_id=plan.run, call_id=plan.call, plan_hash=plan.hash)
    return asked.exists() or Grant.objects.filter(line=plan.line, revoked_at__isnull=True).exists()


def sandbox_from_plan(plan: ExecPlan) -> Sandbox:
    """The sandbox exactly as the plan says."""
    return Sandbox(
        level=SandboxLevel(plan.level),
        workspace=Path(plan.workspace),
        access="none" if plan.access == "none" else "ro" if plan.access == "ro" else "rw",
        network=plan.network,
        hidden=secret_paths(),
        private_home=Path(plan.home) if plan.home else None,
        unwritable=code_paths(),
    )
