"""The exec tool: says what a command would do, then carries out exactly that plan, shows what it prints, tells how it ended.

It decides nothing: tools_app.approvals.supervise does, between `plan` and the call. The process is started and kept by the
worker's CommandKeeper, so that one which goes on in the background outlives its run.
"""

import asyncio
from typing import Any

from pydantic import Field

from clawsite.infra import clock, db
from clawsite.infra.errors import ClawError
from tools_app.core.definition import (
    NO_TIMEOUT,
    CallContext,
    CallRef,
    ToolArgs,
    ToolEnv,
    ToolFailed,
    ToolResult,
    ToolUnavailable,
    text_result,
    tool,
)
from tools_app.exec.plan import ExecPlan, PlannedCommand
from tools_app.exec.planning import CommandRequest, find_changes, make_plan
from tools_app.exec.processes import commands
from tools_app.exec.processes.keeper import CommandManager, PlanChanged, RunLost, RunningCommand, current_manager
from tools_app.exec.processes.output import CollectedOutput
from tools_app.exec.sandbox.types import ProcessResult, SandboxLevel
from tools_app.models import Command

UPDATE_SECONDS = 0.25
MAX_TIMEOUT_SECONDS = 24 * 3600
MIN_YIELD_MS, DEFAULT_YIELD_MS, MAX_YIELD_MS = 10, 10_000, 120_000
MAX_STREAM_SHOWN = 24 * 1024  # characters of stdout and of stderr in the details, which are left out as a whole beyond 100 KB

CHANGED_MESSAGE = "exec_denied: {} is not what it was when this was allowed. It did not run."


class ExecArgs(ToolArgs):
    command: str = Field(description="Command line, read by bash")
    workdir: str = Field("", description="Directory of the workspace to run it in; empty: the workspace itself")
    timeout: float = Field(
        0, ge=0, le=MAX_TIMEOUT_SECONDS, description="Seconds after which it is killed; 0: as long as the rules allow"
    )
    background: bool = Field(False, description="Go on at once and leave it running; follow it with the tool `process`")
    yield_ms: int = Field(
        DEFAULT_YIELD_MS,
        description="Milliseconds after which a command that still runs is left running in the background (10 to 120000)",
    )
    pty: bool = Field(False, description="Run it on a terminal, for programs that want one")


@tool("exec", group="runtime", args=ExecArgs, supervised=True, timeout_s=NO_TIMEOUT)
def make_exec(env: ToolEnv) -> "ExecTool":
    """Run a command line with bash in the workspace. Answers with what it printed and its exit code.
    It runs in a sandbox without network, unless the operators say otherwise. A person may have to approve it first.
    Commands that take long go on in the background; follow them with `process`."""
    if env.workspace is None:
        raise ToolUnavailable("there is no workspace")
    return ExecTool(env)


class ExecTool:
    def __init__(self, env: ToolEnv) -> None:
        self._env = env
        self._may_go_on = "process" in env.tools  # otherwise nobody could ever look at it again

    async def plan(self, args: ExecArgs, ref: CallRef) -> PlannedCommand:
        background = args.background and self._may_go_on
        if background:
            await self._check_background_limit()
        wanted = CommandRequest(args.command, args.workdir, args.timeout, background, args.pty)
        return await make_plan(wanted, ref, self._env)

    async def __call__(self, args: ExecArgs, call: CallContext) -> ToolResult:
        plan = call.plan
        if not isinstance(plan, ExecPlan) or plan.input_to:
            raise TypeError("a command is run by its plan only")
        if plan.background:
            await self._check_background_limit()
        if changed := await find_changes(plan):
            raise ToolFailed(CHANGED_MESSAGE.format(changed))
        kept = await _start_command(current_manager(), plan, call)
        try:
            ended = None if plan.background else await self._follow(kept, args, call)
        except asyncio.CancelledError:
            await current_manager().stop(kept, "its run was stopped")
            raise
        row = await db.read(Command.objects.select_related("approval").get, pk=kept.id)
        facts = {
            "cwd": plan.cwd,
            "sandbox": SandboxLevel(plan.level).word,
            "planHash": plan.hash,
            **({"approvalId": str(row.approval_id)} if row.approval_id else {}),
        }
        if ended is None:
            return self._background_result(kept, row, facts, wished=plan.background)
        return _build_result(ended, kept.collector.collected(), row, facts)

    async def _check_background_limit(self) -> None:
        running = await db.read(commands.count_in_background, self._env.session_id)
        if running >= commands.MAX_IN_BACKGROUND:
            raise ToolFailed(
                f"{running} commands of this session run in the background already, which is the most there may be. "
                "It did not run. End one with `process` first."
            )

    async def _follow(self, kept: RunningCommand, args: ExecArgs, call: CallContext) -> ProcessResult | None:
        """Show what it prints until it ends; None when it goes on in the background."""
        loop = asyncio.get_running_loop()
        patience = min(max(args.yield_ms, MIN_YIELD_MS), MAX_YIELD_MS) / 1000
        until = loop.time() + patience if self._may_go_on else None
        aborted = asyncio.ensure_future(call.abort.wait())
        shown = 0
        try:
            while not kept.over.done():
                pause = UPDATE_SECONDS if until is None else max(0.0, min(UPDATE_SECONDS, until - loop.time()))
                await asyncio.wait((kept.over, aborted), timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if aborted.done():
                    await current_manager().stop(kept, "it was asked to stop")
                if kept.over.done():
                    break
                if kept.printed.end > shown:
                    shown = kept.printed.end
                    call.update(text_result(kept.printed.tail))
                if until is not None and loop.time() >= until:
                    if await self._leave_running(kept):
                        return None
                    until = None
            return kept.over.result()
        finally:
            aborted.cancel()

    async def _leave_running(self, kept: RunningCommand) -> bool:
        if await db.read(commands.count_in_background, self._env.session_id) >= commands.MAX_IN_BACKGROUND:
            return False
        return await current_manager().put_in_background(kept)

    def _background_result(self, kept: RunningCommand, row: Command, facts: dict[str, Any], *, wished: bool) -> ToolResult:
        so_far = "" if wished else _join_streams(kept.collector.collected()) + "\n"
        words = f"{so_far}[it runs in the background as `{kept.name}`: use `process` to poll, write to or kill it]"
        details = {"status": "running", "name": kept.name, "startedAt": clock.to_ms(row.started_at), "pid": kept.running.pid}
        return text_result(words, details=details | facts)


async def _start_command(keeping: CommandManager, plan: ExecPlan, call: CallContext) -> RunningCommand:
    try:
        return await keeping.start(plan, may_act=call.may_act)
    except PlanChanged as changed:
        raise ToolFailed(CHANGED_MESSAGE.format(changed)) from None
    except RunLost:
        raise ToolFailed("exec_denied: the run was lost before the command could begin. It did not run.") from None
    except commands.StartCanceled as stop:
        raise ToolFailed(f"exec_denied: {stop}. It did not run.") from None
    except ClawError as error:
        raise ToolFailed(f"{error.message}. It did not run.") from error


def _join_streams(collected: CollectedOutput) -> str:
    """One text of both streams. Their order among each other is seen in the updates only."""
    parts = [collected.stdout.rstrip("\n")] if collected.stdout.strip() else []
    if collected.stderr.strip():
        parts.append(f"[stderr]\n{collected.stderr.rstrip()}")
    return "\n".join(parts) or "(no output)"


def _build_result(ended: ProcessResult, collected: CollectedOutput, row: Command, facts: dict[str, Any]) -> ToolResult:
    seconds = ended.duration_ms / 1000
    if row.status == Command.Status.EXITED:
        how = f"exit code {ended.exit_code}" + (f", by {ended.signal}" if ended.signal else "")
    else:
        how = f"{row.status.replace('_', ' ')}: {row.reason}; it and all it had started were killed"
    details = {
        "status": row.status,
        "stdout": collected.stdout[-MAX_STREAM_SHOWN:],
        "stderr": collected.stderr[-MAX_STREAM_SHOWN:],
        "exitCode": ended.exit_code,
        "signal": ended.signal,
        "truncated": collected.truncated or max(len(collected.stdout), len(collected.stderr)) > MAX_STREAM_SHOWN,
        "durationMs": ended.duration_ms,
        **facts,
    }
    return text_result(f"{_join_streams(collected)}\n[{how}, {seconds:.1f} s]", details=details, is_error=ended.exit_code != 0)
