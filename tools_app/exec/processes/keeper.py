"""Manage the commands that run in a worker: read their output, handle their input, record their end.

A command runs in one worker and dies with it. Its output and input are rows, so a later run, possibly in another worker, can
follow it and write to it. Whether a command may run is decided elsewhere.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from clawsite.infra import db
from clawsite.infra.errors import ClawError
from clawsite.infra.process.identity import ProcessIdentity, identity_of
from clawsite.infra.reasons import Reason
from sessions_app.events.announce import FreezesChanged, SessionChanged
from tools_app.exec.environment import build_environment
from tools_app.exec.plan import ExecPlan
from tools_app.exec.planning import find_changes, sandbox_from_plan
from tools_app.exec.processes import commands, spawn
from tools_app.exec.processes.commands import CommandChanged, InputKind, Status
from tools_app.exec.processes.orphans import end_process
from tools_app.exec.processes.output import OutputBuffer, OutputCollector
from tools_app.exec.processes.spawn import RunningProcess
from tools_app.exec.sandbox.available import probe_once
from tools_app.exec.sandbox.types import ProcessResult, SandboxLevel, SpawnRequest
from tools_app.models import Command, CommandInput

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.3  # between two writes of a background command's output; the first is written immediately
RETRY_SECONDS = 1.0  # before trying again to record an end

WORKER_GONE_REASON = "the worker that had it is gone, and with it the process"
NOT_STARTED_REASON = "it was not started"


class RunLost(Exception):
    """The worker lost the run before the command started. It did not run."""


class PlanChanged(Exception):
    """Something has changed since the command was allowed. It did not run."""

    def __init__(self, what: Reason) -> None:
        super().__init__(what.text)
        self.what = what


@dataclass(eq=False)
class RunningCommand:
    """A command running in this worker. A foreground call reads `collector` and `printed`; background output goes to rows."""

    id: UUID
    name: str
    plan: ExecPlan
    running: RunningProcess
    collector: OutputCollector = field(default_factory=OutputCollector)
    printed: OutputBuffer = field(default_factory=OutputBuffer)
    has_output: asyncio.Event = field(default_factory=asyncio.Event)
    in_background: asyncio.Event = field(default_factory=asyncio.Event)
    kill_reason: str = ""  # why we killed it
    finished: "asyncio.Task[ProcessResult]" = field(init=False)  # done once its end is recorded
    input_task: "asyncio.Task[None] | None" = None
    last_input: int = 0  # primary key of the last input handled

    def kill(self, reason: str) -> None:
        self.kill_reason = self.kill_reason or reason
        self.running.kill()


class CommandManager:
    """One per worker. `poll` is called periodically, and soon after `changed` is set."""

    def __init__(self, worker: str) -> None:
        self.changed = asyncio.Event()
        self._worker = worker
        self._running: dict[UUID, RunningCommand] = {}
        self._starting: set[UUID] = set()

    async def begin(self) -> None:
        """Register this manager for the tools of runs started from here, and probe the host's sandbox level."""
        _current_manager.set(self)
        await asyncio.to_thread(probe_once)

    def handle_command_change(self, message: CommandChanged) -> None:
        if UUID(message.id) in self._running:
            self.changed.set()

    def handle_change(self, _message: SessionChanged | FreezesChanged) -> None:
        """Handle a change after which a command may have to be killed."""
        if self._running:
            self.changed.set()

    async def start(self, plan: ExecPlan, *, may_act: Callable[[], bool]) -> RunningCommand:
        """Start exactly this plan. The row is committed before the command runs; the lease is checked last.

        While the sandbox is built, a program in the workspace could be swapped, so the plan is checked again when it is ready.
        """
        command = uuid.uuid4()
        started: list[Command] = []

        async def final_check(pid: int) -> None:
            started.append(await db.write(commands.record_start, command, plan, worker=self._worker, process=identity_of(pid)))
            if changed := await find_changes(plan):
                raise PlanChanged(changed)
            if not may_act():
                raise RunLost

        sandbox = sandbox_from_plan(plan)
        request = SpawnRequest(
            line=plan.line,
            cwd=Path(plan.cwd),
            env=build_environment(sandbox.home, pty=plan.pty),
            sandbox=sandbox,
            timeout_s=plan.timeout_s,
            pty=plan.pty,
        )
        self._starting.add(command)
        try:
            running = await spawn.start_process(request, final_check=final_check)
            (row,) = started
            cmd = self._running[command] = RunningCommand(command, row.name, plan, running)
            cmd.finished = asyncio.create_task(self._follow(cmd), name=f"command {command}")
        except BaseException:
            if started:
                await asyncio.shield(asyncio.ensure_future(self._record_end(command, Status.KILLED, NOT_STARTED_REASON)))
            raise
        finally:
            self._starting.discard(command)
        if plan.background:
            cmd.in_background.set()
        return cmd

    async def put_in_background(self, cmd: RunningCommand) -> bool:
        """Move a command to the background; its run has seen the output so far and continues. Returns False if it ended."""
        if not await db.write(commands.put_in_background, cmd.id, cmd.printed.end):
            return False
        cmd.in_background.set()
        return True

    async def stop(self, cmd: RunningCommand, reason: str) -> None:
        """Kill it and wait until it is gone and its end is recorded, even if we are canceled again."""
        cmd.kill(reason)
        await asyncio.shield(cmd.finished)

    async def poll(self) -> None:
        """Handle pending inputs, and kill commands that must not keep running."""
        if not self._running:
            return
        held = dict(self._running)
        for command, reason in (await db.read(commands.find_unwanted, list(held))).items():
            held[command].kill(reason)
        pending: dict[UUID, list[CommandInput]] = {}
        for each in await db.read(commands.list_inputs, list(held)):
            if each.kind == InputKind.KILL:  # skips the queue: the command may never read the text before it
                held[each.command_id].kill(each.data or "it was asked to end")
            pending.setdefault(each.command_id, []).append(each)
        for command, inputs in pending.items():
            cmd = held[command]
            if cmd.input_task is None or cmd.input_task.done():
                cmd.input_task = asyncio.create_task(self._handle_inputs(cmd, inputs))

    async def end_commands_of_runs(self, run_pks: Sequence[int]) -> None:
        """End the foreground commands of runs whose worker was lost, before another worker continues the runs."""
        for row in await db.read(commands.list_in_flight, run_pks):
            if cmd := self._running.get(row.pk):  # this worker itself was blocked for longer than its lease
                await self.stop(cmd, "its run was taken over")
            else:
                await self._end_lost(row)

    async def sweep(self) -> None:
        """End commands of workers that are gone or have been unresponsive for longer than their leases."""
        for row in await db.read(commands.list_orphaned, self._worker, [*self._running, *self._starting]):
            if row.pk not in self._running and row.pk not in self._starting:  # not started since the query
                await self._end_lost(row)

    async def close(self, reason: str = "the worker that had it was stopped") -> None:
        """Kill everything that is still running, because the worker is stopping."""
        remaining = list(self._running.values())
        for cmd in remaining:
            cmd.kill(reason)
        await asyncio.gather(*(cmd.finished for cmd in remaining), return_exceptions=True)

    async def _end_lost(self, row: Command) -> None:
        gone = await asyncio.to_thread(
            end_process, ProcessIdentity(**row.identity), guarded=row.plan["level"] != SandboxLevel.BWRAP
        )
        log.warning("command %s of worker %s was lost; its process %s", row.pk, row.worker, "is gone" if gone else "is unreachable")
        await db.write(
            commands.record_end,
            row.pk,
            Status.LOST,
            reason=WORKER_GONE_REASON if row.worker != self._worker else NOT_STARTED_REASON,
        )

    async def _follow(self, cmd: RunningCommand) -> ProcessResult:
        """Read the output until the command ends, then record its end."""
        writing = asyncio.create_task(self._store_output(cmd))
        reading = asyncio.create_task(_read_output(cmd))
        ended = await cmd.running.wait()
        writing.cancel()
        for error in await asyncio.gather(reading, writing, return_exceptions=True):
            if isinstance(error, Exception):
                log.error("could not read all output of command %s", cmd.id, exc_info=error)
        if cmd.in_background.is_set():
            await self._flush(cmd)
        status, reason = _end_status(ended, cmd.kill_reason)
        await self._record_end(cmd.id, status, reason, ended, cmd.printed.end)
        self._running.pop(cmd.id, None)
        if cmd.input_task:
            cmd.input_task.cancel()
        return ended

    async def _record_end(
        self, command: UUID, to: Status, reason: str, ended: ProcessResult | None = None, printed: int = 0
    ) -> None:
        """Record the end, retrying until it succeeds: otherwise the row would stay `running` forever."""
        code, signal = (ended.exit_code, ended.signal or "") if ended else (None, "")
        while True:
            try:
                await db.write(commands.record_end, command, to, exit_code=code, signal=signal, reason=reason, printed=printed)
                return
            except ClawError as error:
                log.warning("could not record the end of command %s, retrying: %s", command, error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _store_output(self, cmd: RunningCommand) -> None:
        """Write output to rows while the command is in the background."""
        await cmd.in_background.wait()
        while True:
            await self._flush(cmd)
            cmd.has_output.clear()
            await cmd.has_output.wait()
            await self._flush(cmd)
            await asyncio.sleep(FLUSH_SECONDS)

    async def _flush(self, cmd: RunningCommand) -> None:
        if not (pieces := cmd.printed.take_pending()):
            return
        try:
            await db.write(commands.add_output, cmd.id, pieces, cmd.printed.end)
        except ClawError as error:  # readers see the gap
            log.warning("lost output of command %s: %s", cmd.id, error)

    async def _handle_inputs(self, cmd: RunningCommand, inputs: Sequence[CommandInput]) -> None:
        """Handle inputs in the order they were sent."""
        for each in inputs:
            # Input may be read again before it is marked as done; then only mark it, don't type it twice.
            error = await self._send_input(cmd, each) if each.pk > cmd.last_input else ""
            await db.write(commands.mark_input_done, each.pk, error)
        self.changed.set()  # more input may have arrived

    async def _send_input(self, cmd: RunningCommand, input_row: CommandInput) -> str:
        """Send one input to the command. Returns the error, or an empty string."""
        cmd.last_input = input_row.pk
        try:
            match input_row.kind:
                case InputKind.WRITE:
                    await cmd.running.write(input_row.data.encode())
                case InputKind.CLOSE:
                    cmd.running.close_stdin()
        except BrokenPipeError:
            return "it does not read its input any more"
        except Exception as error:
            log.exception("could not pass input %d to command %s", input_row.pk, cmd.id)
            return type(error).__name__
        return ""


async def _read_output(cmd: RunningCommand) -> None:
    async for chunk in cmd.running.output():
        cmd.collector.feed(chunk)
        cmd.printed.feed(chunk)
        cmd.has_output.set()
    cmd.printed.finish()


def _end_status(ended: ProcessResult, reason: str) -> tuple[Status, str]:
    match ended.by:
        case "timeout":
            return Status.TIMED_OUT, "it took longer than it may"
        case "disk":
            return Status.KILLED, "the disk of its workspace was nearly full"
        case "kill":
            return Status.KILLED, reason
        case _:
            return Status.EXITED, ""


_current_manager: ContextVar[CommandManager] = ContextVar("command keeper")


def current_manager() -> CommandManager:
    """The manager of the worker that runs us. Raises LookupError outside a worker."""
    return _current_manager.get()
