"""The process tool: follow, write to and kill the session's background commands. Uses database rows, so it works in any worker.

Text typed into a shell or an interpreter is itself a command, and no list can name all programs that execute their input. So text
and keys are supervised like a command line: the plan binds the exact characters to the one target command, needs approval every
time and allows a single use, unless the rules are security=full and ask=off. Reading output, killing the command, closing its
input and ctrl-c need no approval: they carry no content.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from django.db.models import QuerySet
from pydantic import Field

from clawsite.infra import clock, db
from clawsite.infra.reasons import Reason
from tools_app.approvals.command_supervisor import CommandSupervisor
from tools_app.core.definition import (
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
from tools_app.exec.gate.types import LinePart
from tools_app.exec.gate.verdict import Analysis
from tools_app.exec.plan import ExecPlan, PlannedCommand
from tools_app.exec.planning import command_denied
from tools_app.exec.processes import commands
from tools_app.exec.processes.commands import InputKind, Status
from tools_app.exec.processes.terminal_keys import UnknownKey, encode_keys
from tools_app.models import Command, CommandInput

ProcessAction = Literal["list", "poll", "log", "write", "submit", "send-keys", "close", "eof", "kill", "clear", "remove"]
TYPING_ACTIONS = ("write", "submit", "send-keys")
KEYS_WITHOUT_APPROVAL = {"ctrl-c"}
MAX_INPUT_LENGTH = 16 * 1024
MAX_POLL_MS = 60_000
LOG_LINES = 200
MAX_LISTED = 50
MAX_LINE_SHOWN = 120
INPUT_TIMEOUT_SECONDS = 5.0
KILL_TIMEOUT_SECONDS = 15.0
POLL_INTERVAL_SECONDS = 0.05


class ProcessArgs(ToolArgs):
    action: ProcessAction = Field(description="Action to perform")
    name: str = Field("", description="Name of the command, as given by `exec`; not for `list`")
    data: str = Field("", description="Text for `write` or `submit`; `submit` also presses Enter")
    keys: list[str] = Field([], description="Keys for `send-keys` in a terminal, such as enter, ctrl-c, up, tab, f1")
    offset: int = Field(-1, description="First line for `log`, from 0; -1 for the last lines")
    limit: int = Field(LOG_LINES, ge=1, le=2000, description="Maximum number of lines for `log`")
    timeout: int = Field(0, ge=0, le=MAX_POLL_MS, description="Milliseconds that `poll` waits for new output")


@tool("process", group="runtime", args=ProcessArgs, polls=True, supervised=True)
def make_process(env: ToolEnv) -> "ProcessTool":
    """Follow and control commands that `exec` left running in the background, from this run or an earlier one in the session.
    Actions: list; poll (output since the last poll, and how the command ended); log (lines of its whole output); write, submit and
    send-keys (type into it; a person may have to approve that); close (end its input); kill; clear (discard an ended command)."""
    if env.workspace is None:
        raise ToolUnavailable(Reason("tool.no_workspace"))
    return ProcessTool(env)


class ProcessTool(CommandSupervisor):
    def __init__(self, env: ToolEnv) -> None:
        self._env = env

    async def plan(self, args: ProcessArgs, ref: CallRef) -> PlannedCommand | None:
        if args.action not in TYPING_ACTIONS:
            return None
        target = await self._find_running(args.name)
        text = _build_input(args, target)
        if _needs_no_approval(args):
            return None
        target_plan = ExecPlan.from_json(target.plan)
        run = self._env.run_pk or 0
        plan = replace(target_plan, line=text, argv=None, tool=ref.name, run=run, call=ref.id, input_to=str(target.pk))
        plan = replace(plan, analysis_hash="", scripts=())
        reason = Reason("gate.input", name=target.name, line=target_plan.line)
        note = f"keys: {' '.join(args.keys)}" if args.keys else ""
        analysis = Analysis(text, doubts=(reason,), parts=(LinePart(0, len(text), "text", note),))
        return PlannedCommand(plan, analysis)

    async def __call__(self, args: ProcessArgs, call: CallContext) -> ToolResult:
        match args.action:
            case "list":
                return await self._list()
            case "poll":
                return await self._poll(await self._find(args.name), args.timeout / 1000)
            case "log":
                return await self._log(await self._find(args.name), args)
            case "write" | "submit" | "send-keys":
                target = await self._find_running(args.name)
                return await self._send_input(target, InputKind.WRITE, _approved_input(args, target, call.plan), call)
            case "close" | "eof":
                target = await self._find_running(args.name)
                # On a terminal, end of input is sent as a key (Ctrl-D).
                return await self._send_input(
                    target, *((InputKind.WRITE, "\x04") if target.plan["pty"] else (InputKind.CLOSE, "")), call
                )
            case "kill":
                return await self._kill(await self._find_running(args.name), call)
            case "clear" | "remove":
                return await self._clear(await self._find(args.name))

    async def _find(self, name: str) -> Command:
        if not name:
            raise ToolFailed("`name` is missing; use `list` to see the commands")
        command: Command | None = await db.read(self._visible_commands().filter(name=name).first)
        if command is None:
            raise ToolFailed(f"there is no background command `{name}` in this session; use `list` to see the commands")
        return command

    async def _find_running(self, name: str) -> Command:
        command = await self._find(name)
        if command.status != Status.RUNNING:
            raise ToolFailed(f"`{name}` is no longer running: {_describe_status(command)}")
        return command

    def _visible_commands(self) -> QuerySet[Command]:
        return commands.list_visible(self._env.session_id, self._env.run_pk or 0)

    async def _list(self) -> ToolResult:
        rows = await db.read(lambda: list(self._visible_commands().order_by("-started_at")[:MAX_LISTED]))
        lines = [f"{row.name}: {_describe_status(row)}: {_shorten(row.plan['line'])}" for row in rows]
        details = [_command_details(row) | {"command": row.plan["line"], "cwd": row.plan["cwd"]} for row in rows]
        return text_result("\n".join(lines) or "no commands are running in the background", details={"commands": details})

    async def _poll(self, command: Command, seconds: float) -> ToolResult:
        begin = command.read_end
        command = await self._wait_until(command, lambda row: row.output_end > begin or row.status != Status.RUNNING, seconds)
        text, dropped = await db.read(commands.read_output_since, command, begin)
        await db.write(commands.mark_read, command.pk, command.output_end)
        gap = f"[… {dropped} characters dropped …]\n" if dropped else ""
        shown = f"{gap}{text.rstrip()}" if text.strip() else "(no new output)"
        return text_result(
            f"{shown}\n[{_describe_status(command)}]", details=_command_details(command) | {"truncated": bool(dropped)}
        )

    async def _log(self, command: Command, args: ProcessArgs) -> ToolResult:
        text, dropped = await db.read(commands.read_output_since, command, 0)
        lines = text.splitlines()
        first = args.offset if args.offset >= 0 else max(0, len(lines) - args.limit)
        shown = lines[first : first + args.limit]
        position = f"lines {first} to {first + len(shown) - 1} of {len(lines)}" if shown else f"none of {len(lines)} lines"
        gap = f"; {dropped} characters dropped" if dropped else ""
        body = "\n".join(shown) + "\n" if shown else ""
        details = _command_details(command) | {
            "totalLines": len(lines),
            "totalChars": command.output_end,
            "truncated": bool(dropped),
        }
        return text_result(f"{body}[{position}{gap}; {_describe_status(command)}]", details=details)

    async def _send_input(self, command: Command, kind: InputKind, data: str, call: CallContext) -> ToolResult:
        if not call.may_act():
            raise command_denied(Reason("exec.input_run_lost"))
        pending = await db.write(commands.send_input, command, kind, data)
        deadline = asyncio.get_running_loop().time() + INPUT_TIMEOUT_SECONDS
        while pending.done_at is None and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(POLL_INTERVAL_SECONDS)
            pending = await db.read(CommandInput.objects.get, pk=pending.pk)
        if pending.error:
            raise ToolFailed(f"`{command.name}` did not receive the input: {pending.error}")
        status = "received the input" if pending.done_at else "has not read the input yet; it is queued"
        return text_result(f"`{command.name}` {status}. Use `poll` to see its output.", details=_command_details(command))

    async def _kill(self, command: Command, call: CallContext) -> ToolResult:
        if not call.may_act():
            raise ToolFailed("the worker lost the run before the command was killed. It was not killed.")
        await db.write(commands.send_input, command, InputKind.KILL, "the agent ended it")
        command = await self._wait_until(command, lambda row: row.status != Status.RUNNING, KILL_TIMEOUT_SECONDS)
        if command.status == Status.RUNNING:
            raise ToolFailed(f"`{command.name}` was signaled to stop but is still running")
        return text_result(f"`{command.name}`: {_describe_status(command)}", details=_command_details(command))

    async def _clear(self, command: Command) -> ToolResult:
        if not await db.write(commands.clear_output, command):
            raise ToolFailed(f"`{command.name}` is still running; `kill` it first")
        return text_result(f"`{command.name}` was cleared")

    async def _wait_until(self, command: Command, condition: Callable[[Command], bool], seconds: float) -> Command:
        """Return the row once the condition holds, or when the time is up."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not condition(command) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(POLL_INTERVAL_SECONDS)
            command = await db.read(Command.objects.get, pk=command.pk)
        return command


def _needs_no_approval(args: ProcessArgs) -> bool:
    return args.action == "send-keys" and {key.lower() for key in args.keys} <= KEYS_WITHOUT_APPROVAL


def _build_input(args: ProcessArgs, target: Command) -> str:
    """Return exactly the characters to send."""
    if args.action == "send-keys":
        if not target.plan["pty"]:
            raise ToolFailed(f"`{target.name}` has no terminal; start it with `pty`, or use `write`")
        if not args.keys:
            raise ToolFailed("`keys` is missing")
        try:
            text = encode_keys(*args.keys).decode()
        except UnknownKey as unknown:
            raise ToolFailed(f"unknown key: {unknown}") from None
    else:
        text = args.data + (("\r" if target.plan["pty"] else "\n") if args.action == "submit" else "")
    if not text or len(text) > MAX_INPUT_LENGTH:
        raise ToolFailed(f"the input must have 1 to {MAX_INPUT_LENGTH} characters")
    if "\0" in text:
        raise ToolFailed("NUL characters can't be sent")
    return text


def _approved_input(args: ProcessArgs, target: Command, plan: object) -> str:
    """Return the input if it matches the plan's text and target."""
    text = _build_input(args, target)
    if _needs_no_approval(args):
        return text
    if not isinstance(plan, ExecPlan) or (plan.input_to, plan.line) != (str(target.pk), text):
        raise command_denied(Reason("exec.input_changed"))
    return plan.line


def _describe_status(command: Command) -> str:
    match command.status:
        case Status.RUNNING:
            return f"running for {(clock.now() - command.started_at).total_seconds():.0f} s"
        case Status.EXITED:
            return f"exit code {command.exit_code}" + (f", by {command.signal}" if command.signal else "")
        case _:
            return f"{command.status.replace('_', ' ')}: {command.reason}"


def _command_details(command: Command) -> dict[str, object]:
    return {
        "name": command.name,
        "status": command.status,
        "exitCode": command.exit_code,
        "signal": command.signal or None,
        "startedAt": clock.to_ms(command.started_at),
        "endedAt": clock.to_ms(command.ended_at) if command.ended_at else None,
    }


def _shorten(line: str) -> str:
    first = line.strip().split("\n")[0]
    return first if first == line and len(first) <= MAX_LINE_SHOWN else first[:MAX_LINE_SHOWN] + " …"
