"""The worker process: claims runs, works on them, renews their leases, recovers runs of dead workers, drains on request.

Bus hints wake it up and polling backs up every hint: a lost hint costs a second, never a run.
"""

import asyncio
import logging
import os
import signal
import socket
import uuid
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from django.conf import settings

from agents import maintenance
from agents.deltas import DeltaWriter
from agents.llm import catalog
from agents.runner import Runner
from agents.warm_up import warm_up
from clawsite.infra import bus, clock, db
from clawsite.infra.clock import boot_time
from clawsite.infra.errors import ClawError
from clawsite.infra.observability import metrics
from clawsite.infra.process.identity import is_alive, own_identity
from clawsite.infra.version import version
from clawsite.infra.waits import wait_for_hint
from sessions_app.events.announce import FreezesChanged, RunChanged, SessionChanged
from sessions_app.models import Run
from sessions_app.runs import freezes, lanes, queue, workers
from sessions_app.runs.queue import ClaimedRun
from sessions_app.sessions import attachments
from tools_app.approvals import expiry
from tools_app.exec.processes import commands
from tools_app.exec.processes.commands import CommandChanged
from tools_app.exec.processes.keeper import CommandManager
from tools_app.sources.mcp.servers import SourcesChanged
from tools_app.sources.refresh import SourceRefresher

log = logging.getLogger(__name__)

CLEANUP_SECONDS = 3600.0


class Worker:
    def __init__(self, *, concurrency: int | None = None) -> None:
        self.id = f"{socket.gethostname()[:32]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._process = metrics.process_name("worker")
        self._concurrency = concurrency or settings.WORKER_CONCURRENCY
        self._runners: dict[int, Runner] = {}
        self._abandoned: list[ClaimedRun] = []  # released with the next heartbeat: an outage must not count as a dead worker
        self._lane = ""  # last lane served
        self._late_lanes = lanes.LaneDelayMonitor()
        self._deltas = DeltaWriter()
        self._wake = asyncio.Event()
        self._abort_hint = asyncio.Event()
        self._freeze_hint = asyncio.Event()
        self._left_behind = asyncio.Event()
        self._draining = asyncio.Event()
        self._sources = SourceRefresher()
        self._commands = CommandManager(self.id)

    def drain(self) -> None:
        """Claim no more runs, give running ones time to finish, then hand over the rest."""
        self._draining.set()
        self._wake.set()

    async def run(self) -> None:
        await bus.start()
        subscriptions = self._subscribe_all()
        await self._sources.begin()
        await self._commands.begin()
        await db.write(workers.register, self.id, version=version(), identity=own_identity())
        log.info("worker %s is ready for %d runs", self.id, self._concurrency)
        chores = [
            asyncio.create_task(warm_up(), name="warm up"),
            asyncio.create_task(self._every(settings.HEARTBEAT_SECONDS, self._renew), name="heartbeat"),
            asyncio.create_task(self._every(settings.SWEEP_SECONDS, self._sweep, hint=self._left_behind), name="sweep"),
            asyncio.create_task(self._every(settings.POLL_SECONDS, self._check_aborts, hint=self._abort_hint), name="aborts"),
            asyncio.create_task(self._every(settings.POLL_SECONDS, self._check_approvals), name="questions"),
            asyncio.create_task(self._every(settings.POLL_SECONDS, self._check_freezes, hint=self._freeze_hint), name="freezes"),
            asyncio.create_task(self._every(CLEANUP_SECONDS, self._clean_up), name="tidy"),
            asyncio.create_task(
                self._every(settings.SWEEP_SECONDS, self._sources.refresh, hint=self._sources.changed), name="tools"
            ),
            asyncio.create_task(self._every(settings.AUDIT_SEAL_SECONDS, maintenance.seal_audit_log), name="seal"),
            asyncio.create_task(self._every(maintenance.INTERVAL_SECONDS, maintenance.anchor_audit_log), name="anchor"),
            asyncio.create_task(
                self._every(settings.POLL_SECONDS, self._commands.poll, hint=self._commands.changed), name="commands"
            ),
            asyncio.create_task(self._every(maintenance.INTERVAL_SECONDS, maintenance.record_log_position), name="note"),
            asyncio.create_task(self._every(maintenance.INTERVAL_SECONDS, maintenance.delete_old_events), name="forget"),
            asyncio.create_task(self._every(maintenance.INTERVAL_SECONDS, maintenance.delete_stateless_sessions), name="stateless"),
            asyncio.create_task(self._every(metrics.WRITE_INTERVAL_SECONDS, self._save_metrics), name="figures"),
        ]
        try:
            await self._claim_until_drained()
            await self._hand_over()
        finally:
            for unsubscribe in subscriptions:
                unsubscribe()
            for chore in chores:
                chore.cancel()
            await asyncio.gather(*chores, return_exceptions=True)
            metrics.remove_snapshot(settings.HOME, self._process)
            await self._sources.close()
            await catalog.close_providers()
            await bus.stop()
            db.close()
            log.info("worker %s has stopped", self.id)

    async def _claim_until_drained(self) -> None:
        while not self._draining.is_set():
            await self._guarded(self._claim)
            await wait_for_hint(self._wake, settings.POLL_SECONDS)

    async def _claim(self) -> None:
        """Claim runs up to the concurrency limit, lane by lane, starting after the lane served last."""
        others: Sequence[str] = ()
        while (room := self._concurrency - len(self._runners)) > 0:
            turn = await db.write(queue.claim_runs, self.id, room, lanes=others, after=self._lane, alone=True)
            self._start_runs(turn.runs)
            if turn.runs:
                self._lane = turn.lane
            others = turn.others
            if not others:
                return

    def _start_runs(self, runs: Sequence[ClaimedRun]) -> None:
        until = boot_time() + settings.LEASE_SECONDS - settings.HEARTBEAT_SECONDS
        for claimed in runs:
            if lapsed := self._runners.get(claimed.pk):  # it stalled past its lease, and this same worker recovered it
                lapsed.stop(None, "lease lost")
            if claimed.first:
                metrics.queue_seconds.labels(claimed.lane).observe((clock.now() - claimed.accepted_at).total_seconds())
            runner = Runner(claimed, self._deltas)
            runner.extend_lease(until)
            self._runners[claimed.pk] = runner
            runner.start().add_done_callback(partial(self._runner_ended, runner))

    def _runner_ended(self, runner: Runner, _task: "asyncio.Task[None]") -> None:
        if self._runners.get(runner.claimed.pk) is runner:
            del self._runners[runner.claimed.pk]
        if runner.abandoned:
            self._abandoned.append(runner.claimed)
        self._wake.set()

    def _subscribe_all(self) -> list[Callable[[], None]]:
        return [
            bus.subscribe(RunChanged, self._receive_run_change),
            bus.subscribe(FreezesChanged, self._receive_freeze),
            bus.subscribe(SourcesChanged, self._sources.handle_change),
            bus.subscribe(CommandChanged, self._commands.handle_command_change),
            bus.subscribe(FreezesChanged, self._commands.handle_change),
            bus.subscribe(SessionChanged, self._commands.handle_change),
        ]

    def _receive_freeze(self, _message: FreezesChanged) -> None:
        self._freeze_hint.set()
        self._wake.set()

    def _receive_run_change(self, message: RunChanged) -> None:
        match message.status:
            case "abort":
                if message.run in self._runners:
                    self._abort_hint.set()
            case "handed over":
                self._left_behind.set()
            case _:
                self._wake.set()

    async def _renew(self) -> None:
        """Renew the leases of running runs; stop runs whose lease was lost or that should be aborted."""
        if abandoned := self._abandoned[:]:
            await db.write(queue.release_runs, abandoned, alone=True)
            del self._abandoned[: len(abandoned)]
        held = list(self._runners.values())
        asked_at = boot_time()
        abort_reasons = await db.write(_send_heartbeat, self.id, [runner.claimed for runner in held], alone=True)
        for runner in held:
            pk = runner.claimed.pk
            if pk not in abort_reasons:
                runner.stop(None, "lease lost")
            elif (reason := abort_reasons[pk]) is not None:
                runner.stop(Run.Status.ABORTED, reason)
            else:
                runner.extend_lease(asked_at + settings.LEASE_SECONDS)

    async def _check_aborts(self) -> None:
        if not self._runners:
            return
        for pk, (lease, reason) in (await db.read(queue.list_requested_aborts, self.id)).items():
            runner = self._runners.get(pk)
            if runner and runner.claimed.lease == lease:
                runner.stop(Run.Status.ABORTED, reason)

    async def _check_freezes(self) -> None:
        """Park frozen runs; they continue on any worker once they are resumed."""
        if not self._runners:
            return
        for freeze in await db.read(freezes.list_active):
            for runner in list(self._runners.values()):
                if freeze.covers(runner.claimed.agent, runner.claimed.pk):
                    runner.stop(Run.Status.WAITING, freeze.describe)

    async def _save_metrics(self) -> None:
        """Write metrics to a file, because a worker has no port to scrape."""
        await asyncio.to_thread(metrics.write_snapshot, settings.HOME, self._process)

    async def _sweep(self) -> None:
        """Recover runs of dead workers and warn about long waits."""
        for dead in await db.read(workers.find_dead_on_this_host, own_identity(), is_alive):
            count = await db.write(queue.expire_leases, dead, alone=True)
            log.warning("worker %s is gone; recovering %d of its runs", dead, count)
        await self._commands.sweep()
        room = self._concurrency - len(self._runners)
        if room > 0 and not self._draining.is_set():
            recovered = await db.write(queue.recover_runs, self.id, room, alone=True)
            await self._commands.end_commands_of_runs([claimed.pk for claimed in recovered])
            self._start_runs(recovered)
        await db.write(workers.remove_silent)
        await db.write(freezes.close_freezes_of_ended_runs)
        await db.read(self._late_lanes.check)

    async def _check_approvals(self) -> None:
        """Expire overdue approval requests and warn about those that will expire soon."""
        if await db.read(expiry.has_due_approvals):
            await db.write(expiry.expire_and_warn, alone=True)

    async def _clean_up(self) -> None:
        """Delete unsent attachments and the output of old commands. Safe to run on any number of workers."""
        await db.write(attachments.delete_unsent)
        await db.read(attachments.sweep_files)
        await db.write(commands.delete_old_output)

    async def _every(self, seconds: float, chore: Callable[[], Awaitable[None]], hint: asyncio.Event | None = None) -> None:
        """Repeat a chore at this interval, and immediately when hinted."""
        hint = hint or asyncio.Event()
        while True:
            await self._guarded(chore)
            await wait_for_hint(hint, seconds)

    async def _guarded(self, chore: Callable[[], Awaitable[None]]) -> None:
        try:
            await chore()
        except ClawError as error:
            log.warning("worker chore failed: %s: %s", _chore_label(chore), error)
        except Exception:
            log.exception("worker chore failed: %s", _chore_label(chore))

    async def _hand_over(self) -> None:
        """Give runs time to finish; another worker continues the rest."""
        await db.write(workers.mark_draining, self.id)
        tasks = [runner.open.owner for runner in self._runners.values() if runner.open.owner]
        if tasks:
            log.info("stopping: %d runs have up to %g s to finish", len(tasks), settings.DRAIN_SECONDS)
            await asyncio.wait(tasks, timeout=settings.DRAIN_SECONDS)
        left = list(self._runners.values())
        for runner in left:
            runner.stop(None, "drained")
        await asyncio.gather(*(task for task in tasks if not task.done()), return_exceptions=True)
        await self._commands.close()
        await db.write(_unregister, self.id, [*(runner.claimed for runner in left), *self._abandoned], alone=True)
        await self._guarded(maintenance.seal_audit_log)
        await self._guarded(maintenance.record_log_position)


def _chore_label(chore: Callable[[], Awaitable[None]]) -> str:
    """Return a readable name, such as "check aborts" for `_check_aborts`."""
    return getattr(chore, "__name__", "chore").strip("_").replace("_", " ")


def _send_heartbeat(worker: str, held: Sequence[ClaimedRun]) -> dict[int, str | None]:
    workers.record_heartbeat(worker)
    return queue.renew_leases(held) if held else {}


def _unregister(worker: str, held: Sequence[ClaimedRun]) -> None:
    queue.release_runs(held)
    workers.unregister(worker)


async def run_worker(*, concurrency: int | None = None) -> None:
    """Run until SIGTERM or SIGINT."""
    worker = Worker(concurrency=concurrency)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, worker.drain)
    await worker.run()
