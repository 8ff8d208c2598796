"""From the words of a call to its plan: where it would run, with which programs, environment and isolation. Runs nothing."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from clawsite.infra import db
from clawsite.infra.protected_paths import code_places, secret_places
from tools_app.core.definition import CallRef, ToolEnv, ToolFailed
from tools_app.exec.environment import SEARCH, build_environment, environment_hash
from tools_app.exec.gate.verdict import Place, analyse, fingerprint
from tools_app.exec.plan import ExecPlan, Planned
from tools_app.exec.rules import ExecRules, rules_for
from tools_app.exec.sandbox.available import available
from tools_app.exec.sandbox.types import Level, Sandbox
from tools_app.models import Approval, Grant


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a call asks for, checked as far as its words go."""

    line: str
    workdir: str = ""
    timeout_s: float = 0  # 0: as long as the rules allow
    background: bool = False
    pty: bool = False


async def make_plan(wanted: Wanted, ref: CallRef, env: ToolEnv) -> Planned:
    """The plan of one command in the agent's workspace; ToolFailed where it could not even be tried."""
    if env.workspace is None:
        raise ToolFailed("commands need a workspace, and this session has none")
    rules = await db.read(rules_for, env.agent, env.session_id, env.through)
    workspace = env.workspace.resolve()
    cwd = _directory(workspace, wanted.workdir)
    sandbox = sandbox_for(env, workspace, rules)
    environment = build_environment(sandbox.home, pty=wanted.pty)
    place = Place(cwd=cwd, writable=(workspace,), search=tuple(Path(directory) for directory in SEARCH))
    analysis = await analyse(wanted.line, place)
    plan = ExecPlan(
        line=wanted.line,
        argv=analysis.argv,
        cwd=str(cwd),
        environment_hash=environment_hash(environment),
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
        analysis_hash=fingerprint(analysis),
        scripts=analysis.scripts,
    )
    return Planned(plan, analysis)


def sandbox_for(env: ToolEnv, workspace: Path, rules: ExecRules) -> Sandbox:
    """The best isolation this host has: it is never given up for convenience."""
    return Sandbox(
        level=Level(available().level),
        workspace=env.beside.path.resolve() if env.beside else workspace,
        access=env.beside.access if env.beside else "rw",
        network=rules.network,
        hidden=secret_places(),
        private_home=workspace if env.beside else None,
        unwritable=code_places(),
    )


def _directory(workspace: Path, workdir: str) -> Path:
    """A directory of the workspace, by its real path."""
    chosen = (workspace / workdir).resolve()
    if not chosen.is_relative_to(workspace):
        raise ToolFailed(f"`workdir` must lie in the workspace {workspace}; `{workdir}` leads out of it")
    if not chosen.is_dir():
        raise ToolFailed(f"`workdir` is no directory: `{workdir}`")
    return chosen


async def what_changed(plan: ExecPlan) -> str:
    """Look once more, at the moment of starting: what is there now must be what was agreed to. -> what is not."""
    place = Place(Path(plan.cwd), (Path(plan.home or plan.workspace),), tuple(Path(directory) for directory in SEARCH))
    if await asyncio.to_thread(os.path.realpath, plan.cwd) != plan.cwd:
        return "its directory"
    analysis = await analyse(plan.line, place)
    if analysis.executables != plan.executables:
        return "a program it would start"
    if plan.analysis_hash and fingerprint(analysis) != plan.analysis_hash:
        return "what the gate found about it"
    # Nobody has agreed to the content of what a list allows, and an earlier call of the same turn may have written it.
    if analysis.scripts != plan.scripts and await db.read(_was_agreed_to, plan):
        return "the content of a script it would run"
    rules_home = sandbox_of(plan).home
    if environment_hash(build_environment(rules_home, pty=plan.pty)) != plan.environment_hash:
        return "its environment"
    if available().level < plan.level:
        return "the isolation of this host"
    return ""


def _was_agreed_to(plan: ExecPlan) -> bool:
    """By an answer to this very call, or by a grant of its line, which is one of these scripts too."""
    asked = Approval.objects.filter(run_id=plan.run, call_id=plan.call, plan_hash=plan.hash)
    return asked.exists() or Grant.objects.filter(line=plan.line, revoked_at__isnull=True).exists()


def sandbox_of(plan: ExecPlan) -> Sandbox:
    """The sandbox exactly as the plan says."""
    return Sandbox(
        level=Level(plan.level),
        workspace=Path(plan.workspace),
        access="none" if plan.access == "none" else "ro" if plan.access == "ro" else "rw",
        network=plan.network,
        hidden=secret_places(),
        private_home=Path(plan.home) if plan.home else None,
        unwritable=code_places(),
    )
