"""The exec tool: plans a command, runs exactly that plan, shows its output and reports how it ended.

Its CommandSupervisor decides between `plan` and the call whether the command may run. The worker's
CommandManager starts and owns the process, so a background command outlives its run.
"""

import asyncio
from typing import Any

from pydantic import Field

from clawsite.infra import clock, db
from clawsite.infra.errors import ClawError
from clawsite.infra.reasons import Reason
from tools_app.approvals.command_supervisor import CommandSupervisor
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
from tools_app.exec.planning import CommandRequest, command_denied, find_changes, make_plan
from tools_app.exec.processes import commands
from tools_app.exec.processes.keeper import CommandManager, PlanChanged, RunLost, RunningCommand, current_manager
from tools_app.exec.processes.output import CollectedOutput
from tools_app.exec.sandbox.types import ProcessResult, SandboxLevel
from tools_app.models import Command

UPDATE_SECONDS = 0.25
MAX_TIMEOUT_SECONDS = 24 * 3600
MIN_YIELD_MS, DEFAULT_YIELD_MS, MAX_YIELD_MS = 10, 10_000, 120_000
MAX_STREAM_SHOWN = 24 * 1024  # characters of stdout and of stderr in the details; details over 100 KB are dropped entirely


class ExecArgs(ToolArgs):
    command: str = Field(description="Command line for bash")
    workdir: str = Field("", description="Directory in the workspace to run it in; empty for the workspace itself")
    timeout: float = Field(
        0, ge=0, le=MAX_TIMEOUT_SECONDS, description="Seconds after which it is killed; 0 for the longest time the rules allow"
    )
    background: bool = Field(False, description="Return immediately and leave it running; follow it with the tool `process`")
    yield_ms: int = Field(
        DEFAULT_YIELD_MS,
        description="Milliseconds after which a command that is still running moves to the background (10 to 120000)",
    )
    pty: bool = Field(False, description="Run it in a terminal, for programs that need one")


@tool("exec", group="runtime", args=ExecArgs, supervised=True, timeout_s=NO_TIMEOUT)
def make_exec(env: ToolEnv) -> "ExecTool":
    """Run a command line with bash in the workspace. Returns its output and exit code.
    It runs in a sandbox without network unless the operators configured it otherwise. A person may have to approve it first.
    Long-running commands continue in the background; follow them with `process`."""
    if env.workspace is None:
        raise ToolUnavailable(Reason("tool.no_workspace"))
    return ExecTool(env)


class ExecTool(CommandSupervisor):
    def __init__(self, env: ToolEnv) -> None:
        self._env = env
        self._can_use_background = "process" in env.tools  # otherwise the agent could never check on the command

    async def plan(self, args: ExecArgs, ref: CallRef) -> PlannedCommand:
        background = args.background and self._can_use_background
        if background:
            await self._check_background_limit()
        request = CommandRequest(args.command, args.workdir, args.timeout, background, args.pty)
        return await make_plan(request, ref, self._env)

    async def __call__(self, args: ExecArgs, call: CallContext) -> ToolResult:
        plan = call.plan
        if not isinstance(plan, ExecPlan) or plan.input_to:
            raise TypeError("a command can only run from its plan")
        if plan.background:
            await self._check_background_limit()
        if changed := await find_changes(plan):
            raise command_denied(Reason("exec.changed_since", what=changed))
        command = await _start_command(current_manager(), plan, call)
        try:
            result = None if plan.background else await self._follow(command, args, call)
        except asyncio.CancelledError:
            await current_manager().stop(command, "its run was stopped")
            raise
        row = await db.read(Command.objects.select_related("approval").get, pk=command.id)
        facts = {
            "cwd": plan.cwd,
            "sandbox": SandboxLevel(plan.level).label,
            "planHash": plan.hash,
            **({"approvalId": str(row.approval_id)} if row.approval_id else {}),
        }
        if result is None:
            return self._background_result(command, row, facts, requested=plan.background)
        return _build_result(result, command.collector.collected(), row, facts)

    async def _check_background_limit(self) -> None:
        running = await db.read(commands.count_in_background, self._env.session_id)
        if running >= commands.MAX_IN_BACKGROUND:
            raise ToolFailed(
                f"This command was not started: {running} background commands are already running in this session, "
                "which is the limit. Stop one with `process` first."
            )

    async def _follow(self, command: RunningCommand, args: ExecArgs, call: CallContext) -> ProcessResult | None:
        """Show output until the command ends. Return None if it moves to the background."""
        loop = asyncio.get_running_loop()
        patience = min(max(args.yield_ms, MIN_YIELD_MS), MAX_YIELD_MS) / 1000
        until = loop.time() + patience if self._can_use_background else None
        aborted = asyncio.ensure_future(call.abort.wait())
        shown = 0
        try:
            while not command.finished.done():
                pause = UPDATE_SECONDS if until is None else max(0.0, min(UPDATE_SECONDS, until - loop.time()))
                await asyncio.wait((command.finished, aborted), timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if aborted.done():
                    await current_manager().stop(command, "it was asked to stop")
                if command.finished.done():
                    break
                if command.printed.end > shown:
                    shown = command.printed.end
                    call.update(text_result(command.printed.tail))
                if until is not None and loop.time() >= until:
                    if await self._leave_running(command):
                        return None
                    until = None
            return command.finished.result()
        finally:
            aborted.cancel()

    async def _leave_running(self, command: RunningCommand) -> bool:
        if await db.read(commands.count_in_background, self._env.session_id) >= commands.MAX_IN_BACKGROUND:
            return False
        return await current_manager().put_in_background(command)

    def _background_result(self, command: RunningCommand, row: Command, facts: dict[str, Any], *, requested: bool) -> ToolResult:
        so_far = "" if requested else _join_streams(command.collector.collected()) + "\n"
        # The demo model recognizes the beginning of this text.
        text = f"{so_far}[it runs in the background as `{command.name}`: use `process` to poll, write to or kill it]"
        details = {"status": "running", "name": command.name, "startedAt": clock.to_ms(row.started_at), "pid": command.running.pid}
        return text_result(text, details=details | facts)


async def _start_command(manager: CommandManager, plan: ExecPlan, call: CallContext) -> RunningCommand:
    try:
        return await manager.start(plan, may_act=call.may_act)
    except PlanChanged as changed:
        raise command_denied(Reason("exec.changed_since", what=changed.what)) from None
    except RunLost:
        raise command_denied(Reason("exec.run_lost")) from None
    except commands.StartCanceled as canceled:
        raise command_denied(canceled.reason) from None
    except ClawError as error:
        raise ToolFailed(f"{error.message}. It did not run.") from error


def _join_streams(collected: CollectedOutput) -> str:
    """Join both streams into one text. How they were interleaved can only be seen in the updates."""
    parts = [collected.stdout.rstrip("\n")] if collected.stdout.strip() else []
    if collected.stderr.strip():
        parts.append(f"[stderr]\n{collected.stderr.rstrip()}")
    return "\n".join(parts) or "(no output)"


def _build_result(result: ProcessResult, collected: CollectedOutput, row: Command, facts: dict[str, Any]) -> ToolResult:
    seconds = result.duration_ms / 1000
    if row.status == Command.Status.EXITED:
        outcome = f"exit code {result.exit_code}" + (f", by {result.signal}" if result.signal else "")
    else:
        outcome = f"{row.status.replace('_', ' ')}: {row.reason}; the command and all its child processes were killed"
    details = {
        "status": row.status,
        "stdout": collected.stdout[-MAX_STREAM_SHOWN:],
        "stderr": collected.stderr[-MAX_STREAM_SHOWN:],
        "exitCode": result.exit_code,
        "signal": result.signal,
        "truncated": collected.truncated or max(len(collected.stdout), len(collected.stderr)) > MAX_STREAM_SHOWN,
        "durationMs": result.duration_ms,
        **facts,
    }
    return text_result(f"{_join_streams(collected)}\n[{outcome}, {seconds:.1f} s]", details=details, is_error=result.exit_code != 0)
