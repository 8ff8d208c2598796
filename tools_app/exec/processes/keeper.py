"""What a worker does for the commands that run in it: reads them, obeys what they are told by rows, notes their end.

A command lives in one worker and dies with it. Its output and everything that is said to it are rows, so that a later run, in
another worker perhaps, can follow it and speak to it. Whether a command may run at all is decided before it comes here.
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
from clawsite.infra.bus import BusMessage
from clawsite.infra.errors import ClawError
from clawsite.infra.process.identity import ProcessIdentity, identity_of
from tools_app.exec.environment import build_environment
from tools_app.exec.plan import ExecPlan
from tools_app.exec.planning import find_changes, sandbox_from_plan
from tools_app.exec.processes import commands, spawn
from tools_app.exec.processes.commands import InputKind, Status
from tools_app.exec.processes.orphans import end_process
from tools_app.exec.processes.output import OutputBuffer, OutputCollector
from tools_app.exec.processes.spawn import RunningProcess
from tools_app.exec.sandbox.available import probe_once
from tools_app.exec.sandbox.types import ProcessResult, SandboxLevel, SpawnRequest
from tools_app.models import Command, CommandInput

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.3  # between two writes of what a background command prints; the first is written at once
RETRY_SECONDS = 1.0  # until an end that could not be written is tried again

WORKER_GONE_REASON = "the worker that had it is gone, and with it the process"
NOT_STARTED_REASON = "it was not started"


class RunLost(Exception):
    """The run was lost before its command got the word. It did not run."""


class PlanChanged(Exception):
    """Something is not what it was when this was allowed; the words say what. It did not run."""


@dataclass(eq=False)
class RunningCommand:
    """A command that runs in this worker. Its foreground reads `collector` and `printed`; in the background rows do."""

    id: UUID
    name: str
    plan: ExecPlan
    running: RunningProcess
    collector: OutputCollector = field(default_factory=OutputCollector)
    printed: OutputBuffer = field(default_factory=OutputBuffer)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    in_background: asyncio.Event = field(default_factory=asyncio.Event)
    why: str = ""  # it was ended by us
    over: "asyncio.Task[ProcessResult]" = field(init=False)  # when its end is in its row
    input_task: "asyncio.Task[None] | None" = None
    heard: int = 0  # the last input that was typed into it

    def kill(self, why: str) -> None:
        self.why = self.why or why
        self.running.kill()


class CommandManager:
    """One for each worker. `look` is called now and then, and soon after `changed` is set."""

    def __init__(self, worker: str) -> None:
        self.changed = asyncio.Event()
        self._worker = worker
        self._running: dict[UUID, RunningCommand] = {}
        self._starting: set[UUID] = set()

    async def begin(self) -> None:
        """Be found by the tools of the runs that are started from here on; and see what this host can shut in."""
        _current_manager.set(self)
        await asyncio.to_thread(probe_once)

    def hear(self, message: BusMessage) -> None:
        if message.get("k") == commands.CHANGED_MESSAGE["k"]:
            if UUID(message["id"]) in self._running:
                self.changed.set()
        elif message.get("k") in ("session", "freeze") and self._running:
            self.changed.set()

    async def start(self, plan: ExecPlan, *, may_act: Callable[[], bool]) -> RunningCommand:
        """Start exactly this plan. Its row is committed before it gets the word, and the lease looked at last of all.

        To make a sandbox takes as long as to swap a program of the workspace, so what the plan names is looked at when it stands.
        """
        command = uuid.uuid4()
        begun: list[Command] = []

        async def last_look(pid: int) -> None:
            begun.append(await db.write(commands.record_start, command, plan, worker=self._worker, process=identity_of(pid)))
            if changed := await find_changes(plan):
                raise PlanChanged(changed)
            if not may_act():
                raise RunLost

        sandbox = sandbox_from_plan(plan)
        wanted = SpawnRequest(
            line=plan.line,
            cwd=Path(plan.cwd),
            env=build_environment(sandbox.home, pty=plan.pty),
            sandbox=sandbox,
            timeout_s=plan.timeout_s,
            pty=plan.pty,
        )
        self._starting.add(command)
        try:
            running = await spawn.start_process(wanted, last_look=last_look)
            (row,) = begun
            kept = self._running[command] = RunningCommand(command, row.name, plan, running)
            kept.over = asyncio.create_task(self._follow(kept), name=f"command {command}")
        except BaseException:
            if begun:
                await asyncio.shield(asyncio.ensure_future(self._record_end(command, Status.KILLED, NOT_STARTED_REASON)))
            raise
        finally:
            self._starting.discard(command)
        if plan.background:
            kept.in_background.set()
        return kept

    async def put_in_background(self, kept: RunningCommand) -> bool:
        """Let its run go on, which has seen its output so far. False: it has ended meanwhile."""
        if not await db.write(commands.put_in_background, kept.id, kept.printed.end):
            return False
        kept.in_background.set()
        return True

    async def stop(self, kept: RunningCommand, why: str) -> None:
        """End it, and come back when all of it is gone and its row says so, even if we are cancelled once more."""
        kept.kill(why)
        await asyncio.shield(kept.over)

    async def look(self) -> None:
        """Obey what was said to the commands, and end those that nobody may have any more."""
        if not self._running:
            return
        held = dict(self._running)
        for command, why in (await db.read(commands.find_unwanted, list(held))).items():
            held[command].kill(why)
        told: dict[UUID, list[CommandInput]] = {}
        for each in await db.read(commands.list_inputs, list(held)):
            if each.kind == InputKind.KILL:  # does not wait for its turn behind a text that nobody reads
                held[each.command_id].kill(each.data or "it was asked to end")
            told.setdefault(each.command_id, []).append(each)
        for command, inputs in told.items():
            kept = held[command]
            if kept.input_task is None or kept.input_task.done():
                kept.input_task = asyncio.create_task(self._handle_inputs(kept, inputs))

    async def end_commands_of_runs(self, run_pks: Sequence[int]) -> None:
        """These runs were held by somebody who is lost: what they had started must be gone before they go on."""
        for row in await db.read(commands.list_in_flight, run_pks):
            if kept := self._running.get(row.pk):  # this very worker was held up for longer than its lease
                await self.stop(kept, "its run was taken over")
            else:
                await self._end_lost(row)

    async def sweep(self) -> None:
        """End and note what workers left behind that are gone, or frozen for longer than their leases."""
        for row in await db.read(commands.list_orphaned, self._worker, [*self._running, *self._starting]):
            if row.pk not in self._running and row.pk not in self._starting:  # not begun since we looked
                await self._end_lost(row)

    async def close(self, why: str = "the worker that had it was stopped") -> None:
        """The worker ends: so does everything in it."""
        left = list(self._running.values())
        for kept in left:
            kept.kill(why)
        await asyncio.gather(*(kept.over for kept in left), return_exceptions=True)

    async def _end_lost(self, row: Command) -> None:
        gone = await asyncio.to_thread(
            end_process, ProcessIdentity(**row.identity), guarded=row.plan["level"] != SandboxLevel.BWRAP
        )
        log.warning("command %s of worker %s is lost; its process %s", row.pk, row.worker, "is gone" if gone else "is out of reach")
        await db.write(
            commands.record_end,
            row.pk,
            Status.LOST,
            reason=WORKER_GONE_REASON if row.worker != self._worker else NOT_STARTED_REASON,
        )

    async def _follow(self, kept: RunningCommand) -> ProcessResult:
        """Read it to its end, and note the end."""
        writing = asyncio.create_task(self._store_output(kept))
        reading = asyncio.create_task(_read_output(kept))
        ended = await kept.running.wait()
        writing.cancel()
        for fault in await asyncio.gather(reading, writing, return_exceptions=True):
            if isinstance(fault, Exception):
                log.error("what command %s printed was not read to its end", kept.id, exc_info=fault)
        if kept.in_background.is_set():
            await self._flush(kept)
        status, reason = _end_status(ended, kept.why)
        await self._record_end(kept.id, status, reason, ended, kept.printed.end)
        self._running.pop(kept.id, None)
        if kept.input_task:
            kept.input_task.cancel()
        return ended

    async def _record_end(
        self, command: UUID, to: Status, reason: str, ended: ProcessResult | None = None, printed: int = 0
    ) -> None:
        """As often as it takes: a row that says running for ever would be a lie."""
        code, signal = (ended.exit_code, ended.signal or "") if ended else (None, "")
        while True:
            try:
                await db.write(commands.record_end, command, to, exit_code=code, signal=signal, reason=reason, printed=printed)
                return
            except ClawError as error:
                log.warning("the end of command %s could not be written yet: %s", command, error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _store_output(self, kept: RunningCommand) -> None:
        """Into rows, once it is in the background."""
        await kept.in_background.wait()
        while True:
            await self._flush(kept)
            kept.news.clear()
            await kept.news.wait()
            await self._flush(kept)
            await asyncio.sleep(FLUSH_SECONDS)

    async def _flush(self, kept: RunningCommand) -> None:
        if not (pieces := kept.printed.take()):
            return
        try:
            await db.write(commands.add_output, kept.id, pieces, kept.printed.end)
        except ClawError as error:  # the gap is told to whoever reads it
            log.warning("output of command %s is lost: %s", kept.id, error)

    async def _handle_inputs(self, kept: RunningCommand, inputs: Sequence[CommandInput]) -> None:
        """One after the other, in the order in which they were said."""
        for each in inputs:
            # What could not be noted as done, or was read before it was, comes once more: it is noted, and not typed again.
            error = await self._send_input(kept, each) if each.pk > kept.heard else ""
            await db.write(commands.mark_input_done, each.pk, error)
        self.changed.set()  # something may have been said meanwhile

    async def _send_input(self, kept: RunningCommand, told: CommandInput) -> str:
        """-> what went wrong"""
        kept.heard = told.pk
        try:
            match told.kind:
                case InputKind.WRITE:
                    await kept.running.write(told.data.encode())
                case InputKind.CLOSE:
                    kept.running.close_stdin()
        except BrokenPipeError:
            return "it does not read its input any more"
        except Exception as fault:
            log.exception("input %d of command %s", told.pk, kept.id)
            return type(fault).__name__
        return ""


async def _read_output(kept: RunningCommand) -> None:
    async for chunk in kept.running.output():
        kept.collector.feed(chunk)
        kept.printed.feed(chunk)
        kept.news.set()
    kept.printed.finish()


def _end_status(ended: ProcessResult, why: str) -> tuple[Status, str]:
    match ended.by:
        case "timeout":
            return Status.TIMED_OUT, "it took longer than it may"
        case "disk":
            return Status.KILLED, "the disk of its workspace was nearly full"
        case "kill":
            return Status.KILLED, why
        case _:
            return Status.EXITED, ""


_current_manager: ContextVar[CommandManager] = ContextVar("command keeper")


def current_manager() -> CommandManager:
    """That of the worker in whose run we are. LookupError: this is no worker."""
    return _current_manager.get()
