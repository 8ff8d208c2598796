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
from clawsite.infra.bus import Message
from clawsite.infra.errors import ClawError
from clawsite.infra.process.identity import Identity, identity_of
from tools_app.exec.environment import build_environment
from tools_app.exec.plan import ExecPlan
from tools_app.exec.planning import sandbox_of, what_changed
from tools_app.exec.processes import commands, spawn
from tools_app.exec.processes.commands import Kind, Status
from tools_app.exec.processes.orphans import end_process
from tools_app.exec.processes.output import Collector, Printed
from tools_app.exec.processes.spawn import Running
from tools_app.exec.sandbox.available import available
from tools_app.exec.sandbox.types import Ended, Level, Spawn
from tools_app.models import Command, CommandInput

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.3  # between two writes of what a background command prints; the first is written at once
AGAIN_SECONDS = 1.0  # until an end that could not be written is tried again

GONE = "the worker that had it is gone, and with it the process"
NOT_STARTED = "it was not started"


class NotOurs(Exception):
    """The run was lost before its command got the word. It did not run."""


class Changed(Exception):
    """Something is not what it was when this was allowed; the words say what. It did not run."""


@dataclass(eq=False)
class Kept:
    """A command that runs in this worker. Its foreground reads `collector` and `printed`; in the background rows do."""

    id: UUID
    name: str
    plan: ExecPlan
    running: Running
    collector: Collector = field(default_factory=Collector)
    printed: Printed = field(default_factory=Printed)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    in_background: asyncio.Event = field(default_factory=asyncio.Event)
    why: str = ""  # it was ended by us
    over: "asyncio.Task[Ended]" = field(init=False)  # when its end is in its row
    obeying: "asyncio.Task[None] | None" = None
    heard: int = 0  # the last input that was typed into it

    def kill(self, why: str) -> None:
        self.why = self.why or why
        self.running.kill()


class CommandKeeper:
    """One for each worker. `look` is called now and then, and soon after `changed` is set."""

    def __init__(self, worker: str) -> None:
        self.changed = asyncio.Event()
        self._worker = worker
        self._kept: dict[UUID, Kept] = {}
        self._starting: set[UUID] = set()

    async def begin(self) -> None:
        """Be found by the tools of the runs that are started from here on; and see what this host can shut in."""
        _keeper.set(self)
        await asyncio.to_thread(available)

    def hear(self, message: Message) -> None:
        if message.get("k") == commands.CHANGED["k"]:
            if UUID(message["id"]) in self._kept:
                self.changed.set()
        elif message.get("k") in ("session", "freeze") and self._kept:
            self.changed.set()

    async def start(self, plan: ExecPlan, *, may_act: Callable[[], bool]) -> Kept:
        """Start exactly this plan. Its row is committed before it gets the word, and the lease looked at last of all.

        To make a sandbox takes as long as to swap a program of the workspace, so what the plan names is looked at when it stands.
        """
        command = uuid.uuid4()
        begun: list[Command] = []

        async def last_look(pid: int) -> None:
            begun.append(await db.write(commands.begin, command, plan, worker=self._worker, process=identity_of(pid)))
            if changed := await what_changed(plan):
                raise Changed(changed)
            if not may_act():
                raise NotOurs

        sandbox = sandbox_of(plan)
        wanted = Spawn(
            line=plan.line,
            cwd=Path(plan.cwd),
            env=build_environment(sandbox.home, pty=plan.pty),
            sandbox=sandbox,
            timeout_s=plan.timeout_s,
            pty=plan.pty,
        )
        self._starting.add(command)
        try:
            running = await spawn.start(wanted, last_look=last_look)
            (row,) = begun
            kept = self._kept[command] = Kept(command, row.name, plan, running)
            kept.over = asyncio.create_task(self._follow(kept), name=f"command {command}")
        except BaseException:
            if begun:
                await asyncio.shield(asyncio.ensure_future(self._note_end(command, Status.KILLED, NOT_STARTED)))
            raise
        finally:
            self._starting.discard(command)
        if plan.background:
            kept.in_background.set()
        return kept

    async def put_in_background(self, kept: Kept) -> bool:
        """Let its run go on, which has seen its output so far. False: it has ended meanwhile."""
        if not await db.write(commands.put_in_background, kept.id, kept.printed.end):
            return False
        kept.in_background.set()
        return True

    async def stop(self, kept: Kept, why: str) -> None:
        """End it, and come back when all of it is gone and its row says so, even if we are cancelled once more."""
        kept.kill(why)
        await asyncio.shield(kept.over)

    async def look(self) -> None:
        """Obey what was said to the commands, and end those that nobody may have any more."""
        if not self._kept:
            return
        held = dict(self._kept)
        for command, why in (await db.read(commands.unwanted, list(held))).items():
            held[command].kill(why)
        told: dict[UUID, list[CommandInput]] = {}
        for each in await db.read(commands.to_obey, list(held)):
            if each.kind == Kind.KILL:  # does not wait for its turn behind a text that nobody reads
                held[each.command_id].kill(each.data or "it was asked to end")
            told.setdefault(each.command_id, []).append(each)
        for command, inputs in told.items():
            kept = held[command]
            if kept.obeying is None or kept.obeying.done():
                kept.obeying = asyncio.create_task(self._obey(kept, inputs))

    async def take_over(self, run_pks: Sequence[int]) -> None:
        """These runs were held by somebody who is lost: what they had started must be gone before they go on."""
        for row in await db.read(commands.in_flight, run_pks):
            if kept := self._kept.get(row.pk):  # this very worker was held up for longer than its lease
                await self.stop(kept, "its run was taken over")
            else:
                await self._lose(row)

    async def sweep(self) -> None:
        """End and note what workers left behind that are gone, or frozen for longer than their leases."""
        for row in await db.read(commands.left_behind, self._worker, [*self._kept, *self._starting]):
            if row.pk not in self._kept and row.pk not in self._starting:  # not begun since we looked
                await self._lose(row)

    async def close(self, why: str = "the worker that had it was stopped") -> None:
        """The worker ends: so does everything in it."""
        left = list(self._kept.values())
        for kept in left:
            kept.kill(why)
        await asyncio.gather(*(kept.over for kept in left), return_exceptions=True)

    async def _lose(self, row: Command) -> None:
        gone = await asyncio.to_thread(end_process, Identity(**row.identity), guarded=row.plan["level"] != Level.BWRAP)
        log.warning("command %s of worker %s is lost; its process %s", row.pk, row.worker, "is gone" if gone else "is out of reach")
        await db.write(commands.end, row.pk, Status.LOST, reason=GONE if row.worker != self._worker else NOT_STARTED)

    async def _follow(self, kept: Kept) -> Ended:
        """Read it to its end, and note the end."""
        writing = asyncio.create_task(self._write_down(kept))
        reading = asyncio.create_task(_read(kept))
        ended = await kept.running.wait()
        writing.cancel()
        for fault in await asyncio.gather(reading, writing, return_exceptions=True):
            if isinstance(fault, Exception):
                log.error("what command %s printed was not read to its end", kept.id, exc_info=fault)
        if kept.in_background.is_set():
            await self._flush(kept)
        status, reason = _outcome(ended, kept.why)
        await self._note_end(kept.id, status, reason, ended, kept.printed.end)
        self._kept.pop(kept.id, None)
        if kept.obeying:
            kept.obeying.cancel()
        return ended

    async def _note_end(self, command: UUID, to: Status, reason: str, ended: Ended | None = None, printed: int = 0) -> None:
        """As often as it takes: a row that says running for ever would be a lie."""
        code, signal = (ended.exit_code, ended.signal or "") if ended else (None, "")
        while True:
            try:
                await db.write(commands.end, command, to, exit_code=code, signal=signal, reason=reason, printed=printed)
                return
            except ClawError as error:
                log.warning("the end of command %s could not be written yet: %s", command, error)
                await asyncio.sleep(AGAIN_SECONDS)

    async def _write_down(self, kept: Kept) -> None:
        """Into rows, once it is in the background."""
        await kept.in_background.wait()
        while True:
            await self._flush(kept)
            kept.news.clear()
            await kept.news.wait()
            await self._flush(kept)
            await asyncio.sleep(FLUSH_SECONDS)

    async def _flush(self, kept: Kept) -> None:
        if not (pieces := kept.printed.take()):
            return
        try:
            await db.write(commands.add_output, kept.id, pieces, kept.printed.end)
        except ClawError as error:  # the gap is told to whoever reads it
            log.warning("output of command %s is lost: %s", kept.id, error)

    async def _obey(self, kept: Kept, inputs: Sequence[CommandInput]) -> None:
        """One after the other, in the order in which they were said."""
        for each in inputs:
            # What could not be noted as done, or was read before it was, comes once more: it is noted, and not typed again.
            error = await self._type(kept, each) if each.pk > kept.heard else ""
            await db.write(commands.obeyed, each.pk, error)
        self.changed.set()  # something may have been said meanwhile

    async def _type(self, kept: Kept, told: CommandInput) -> str:
        """-> what went wrong"""
        kept.heard = told.pk
        try:
            match told.kind:
                case Kind.WRITE:
                    await kept.running.write(told.data.encode())
                case Kind.CLOSE:
                    kept.running.close_stdin()
        except BrokenPipeError:
            return "it does not read its input any more"
        except Exception as fault:
            log.exception("input %d of command %s", told.pk, kept.id)
            return type(fault).__name__
        return ""


async def _read(kept: Kept) -> None:
    async for chunk in kept.running.output():
        kept.collector.feed(chunk)
        kept.printed.feed(chunk)
        kept.news.set()
    kept.printed.finish()


def _outcome(ended: Ended, why: str) -> tuple[Status, str]:
    match ended.by:
        case "timeout":
            return Status.TIMED_OUT, "it took longer than it may"
        case "disk":
            return Status.KILLED, "the disk of its workspace was nearly full"
        case "kill":
            return Status.KILLED, why
        case _:
            return Status.EXITED, ""


_keeper: ContextVar[CommandKeeper] = ContextVar("command keeper")


def keeper() -> CommandKeeper:
    """That of the worker in whose run we are. LookupError: this is no worker."""
    return _keeper.get()
