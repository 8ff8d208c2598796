"""The process tool: follow background commands of the session, write to them, end them. All through rows, so any worker will do.

What is typed into a command is a command itself where that one is a shell or an interpreter, and nobody can list the programs that
take orders from their input. So text and keys are supervised like a command line: a plan that binds the exact characters to the
one command they go to, asked about every time and allowed once only, unless the rules are security=full and ask=off. Looking,
ending it, closing its input and ctrl-c are free: they can say nothing.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from django.db.models import QuerySet
from pydantic import Field

from clawsite.infra import clock, db
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
from tools_app.core.supervision import Supervision
from tools_app.exec.gate.types import LinePart
from tools_app.exec.gate.verdict import Analysis, GateReason
from tools_app.exec.plan import ExecPlan, PlannedCommand
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
INPUT_REASON = "it is typed into `{name}`, which runs `{line}`: what a program makes of its input cannot be known beforehand"


class ProcessArgs(ToolArgs):
    action: ProcessAction = Field(description="What to do")
    name: str = Field("", description="Which command, as `exec` named it; not for `list`")
    data: str = Field("", description="Text for `write`, or for `submit`, which adds the Enter key")
    keys: list[str] = Field([], description="Keys for `send-keys` on a terminal, such as enter, ctrl-c, up, tab, f1")
    offset: int = Field(-1, description="First line for `log`, from 0; -1: the last lines")
    limit: int = Field(LOG_LINES, ge=1, le=2000, description="How many lines `log` shows")
    timeout: int = Field(0, ge=0, le=MAX_POLL_MS, description="Milliseconds that `poll` waits for something new")


@tool("process", group="runtime", args=ProcessArgs, polls=True, supervised=True)
def make_process(env: ToolEnv) -> "ProcessTool":
    """Follow and steer commands that `exec` left running in the background, from this run or an earlier one of the session.
    Actions: list; poll (what it printed since the last poll, and how it ended); log (lines of its whole output); write, submit and
    send-keys (type into it; a person may have to approve that); close (end of its input); kill; clear (forget an ended one)."""
    if env.workspace is None:
        raise ToolUnavailable("there is no workspace")
    return ProcessTool(env)


class ProcessTool:
    def __init__(self, env: ToolEnv) -> None:
        self._env = env

    async def plan(self, args: ProcessArgs, ref: CallRef) -> PlannedCommand | Supervision:
        if args.action not in TYPING_ACTIONS:
            return Supervision("allow")
        target = await self._find_running(args.name)
        text = _build_input(args, target)
        if _needs_no_approval(args):
            return Supervision("allow")
        of = ExecPlan.from_json(target.plan)
        run = self._env.run_pk or 0
        plan = replace(of, line=text, argv=None, tool=ref.name, run=run, call=ref.id, input_to=str(target.pk))
        plan = replace(plan, analysis_hash="", scripts=())
        why = GateReason("input", INPUT_REASON.format(name=target.name, line=of.line))
        note = f"keys: {' '.join(args.keys)}" if args.keys else ""
        analysis = Analysis(text, doubts=(why,), parts=(LinePart(0, len(text), "text", note),))
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
                # On a terminal the end of input is a key.
                return await self._send_input(
                    target, *((InputKind.WRITE, "\x04") if target.plan["pty"] else (InputKind.CLOSE, "")), call
                )
            case "kill":
                return await self._kill(await self._find_running(args.name), call)
            case "clear" | "remove":
                return await self._clear(await self._find(args.name))

    async def _find(self, name: str) -> Command:
        if not name:
            raise ToolFailed("`name` is missing: which command? `list` shows them")
        found: Command | None = await db.read(self._visible_commands().filter(name=name).first)
        if found is None:
            raise ToolFailed(f"there is no background command `{name}` in this session; `list` shows them")
        return found

    async def _find_running(self, name: str) -> Command:
        found = await self._find(name)
        if found.status != Status.RUNNING:
            raise ToolFailed(f"`{name}` does not run any more: {_describe_status(found)}")
        return found

    def _visible_commands(self) -> QuerySet[Command]:
        return commands.list_visible(self._env.session_id, self._env.run_pk or 0)

    async def _list(self) -> ToolResult:
        rows = await db.read(lambda: list(self._visible_commands().order_by("-started_at")[:MAX_LISTED]))
        lines = [f"{row.name}: {_describe_status(row)}: {_shorten(row.plan['line'])}" for row in rows]
        told = [_command_details(row) | {"command": row.plan["line"], "cwd": row.plan["cwd"]} for row in rows]
        return text_result("\n".join(lines) or "no commands run in the background", details={"commands": told})

    async def _poll(self, command: Command, seconds: float) -> ToolResult:
        begin = command.read_end
        command = await self._wait_until(command, lambda row: row.output_end > begin or row.status != Status.RUNNING, seconds)
        text, dropped = await db.read(commands.read_output_since, command, begin)
        await db.write(commands.mark_read, command.pk, command.output_end)
        lost = f"[… {dropped} characters were dropped …]\n" if dropped else ""
        shown = f"{lost}{text.rstrip()}" if text.strip() else "(nothing new)"
        return text_result(
            f"{shown}\n[{_describe_status(command)}]", details=_command_details(command) | {"truncated": bool(dropped)}
        )

    async def _log(self, command: Command, args: ProcessArgs) -> ToolResult:
        text, dropped = await db.read(commands.read_output_since, command, 0)
        lines = text.splitlines()
        first = args.offset if args.offset >= 0 else max(0, len(lines) - args.limit)
        shown = lines[first : first + args.limit]
        where = f"lines {first} to {first + len(shown) - 1} of {len(lines)}" if shown else f"none of its {len(lines)} lines"
        lost = f"; {dropped} characters were dropped" if dropped else ""
        body = "\n".join(shown) + "\n" if shown else ""
        details = _command_details(command) | {
            "totalLines": len(lines),
            "totalChars": command.output_end,
            "truncated": bool(dropped),
        }
        return text_result(f"{body}[{where}{lost}; {_describe_status(command)}]", details=details)

    async def _send_input(self, command: Command, kind: InputKind, data: str, call: CallContext) -> ToolResult:
        if not call.may_act():
            raise ToolFailed("exec_denied: the run was lost before this could be done. It was not done.")
        told = await db.write(commands.send_input, command, kind, data)
        give_up = asyncio.get_running_loop().time() + INPUT_TIMEOUT_SECONDS
        while told.done_at is None and asyncio.get_running_loop().time() < give_up:
            await asyncio.sleep(POLL_INTERVAL_SECONDS)
            told = await db.read(CommandInput.objects.get, pk=told.pk)
        if told.error:
            raise ToolFailed(f"`{command.name}` did not get it: {told.error}")
        words = f"`{command.name}` got it" if told.done_at else f"`{command.name}` has not read it yet; it waits for its turn"
        return text_result(f"{words}. Use `poll` to see what it answers.", details=_command_details(command))

    async def _kill(self, command: Command, call: CallContext) -> ToolResult:
        if not call.may_act():
            raise ToolFailed("the run was lost before this could be done. It was not done.")
        await db.write(commands.send_input, command, InputKind.KILL, "the agent ended it")
        command = await self._wait_until(command, lambda row: row.status != Status.RUNNING, KILL_TIMEOUT_SECONDS)
        if command.status == Status.RUNNING:
            raise ToolFailed(f"`{command.name}` was asked to end and has not yet")
        return text_result(f"`{command.name}`: {_describe_status(command)}", details=_command_details(command))

    async def _clear(self, command: Command) -> ToolResult:
        if not await db.write(commands.clear_output, command):
            raise ToolFailed(f"`{command.name}` still runs; `kill` it first")
        return text_result(f"`{command.name}` is forgotten")

    async def _wait_until(self, command: Command, condition: Callable[[Command], bool], seconds: float) -> Command:
        """The row as soon as it is so, or when the time is over."""
        give_up = asyncio.get_running_loop().time() + seconds
        while not condition(command) and asyncio.get_running_loop().time() < give_up:
            await asyncio.sleep(POLL_INTERVAL_SECONDS)
            command = await db.read(Command.objects.get, pk=command.pk)
        return command


def _needs_no_approval(args: ProcessArgs) -> bool:
    return args.action == "send-keys" and {key.lower() for key in args.keys} <= KEYS_WITHOUT_APPROVAL


def _build_input(args: ProcessArgs, target: Command) -> str:
    """Exactly what would be sent."""
    if args.action == "send-keys":
        if not target.plan["pty"]:
            raise ToolFailed(f"`{target.name}` has no terminal; start it with `pty`, or use `write`")
        if not args.keys:
            raise ToolFailed("`keys` is missing")
        try:
            text = encode_keys(*args.keys).decode()
        except UnknownKey as unknown:
            raise ToolFailed(f"there is no key {unknown}") from None
    else:
        text = args.data + (("\r" if target.plan["pty"] else "\n") if args.action == "submit" else "")
    if not text or len(text) > MAX_INPUT_LENGTH:
        raise ToolFailed(f"what is sent has 1 to {MAX_INPUT_LENGTH} characters")
    if "\0" in text:
        raise ToolFailed("a NUL character cannot be sent")
    return text


def _approved_input(args: ProcessArgs, target: Command, plan: object) -> str:
    """What is sent is what the plan says, and goes where the plan says."""
    text = _build_input(args, target)
    if _needs_no_approval(args):
        return text
    if not isinstance(plan, ExecPlan) or (plan.input_to, plan.line) != (str(target.pk), text):
        raise ToolFailed("exec_denied: this is not what was allowed. Nothing was sent.")
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
