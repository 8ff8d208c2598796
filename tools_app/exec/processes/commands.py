"""Rows of started commands: start, output, input, end. The worker that holds the process writes them; everyone else reads.

Nothing here starts or kills a process: tools_app.exec.processes.keeper does, in the worker that holds it.
"""

import datetime as dt
import logging
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from clawsite.infra import bus, clock
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.bus import BusMessage
from clawsite.infra.process.identity import ProcessIdentity
from clawsite.infra.reasons import Reason
from sessions_app.models import Run, ToolCall
from sessions_app.runs import freezes, workers
from sessions_app.transcript.notices import add_notice
from sessions_app.verdicts import ADMISSION_KEY
from tools_app.exec.plan import ExecPlan
from tools_app.exec.processes.output import MAX_PENDING_CHARACTERS
from tools_app.models import Approval, Command, CommandInput, CommandOutput

log = logging.getLogger(__name__)

Status = Command.Status
InputKind = CommandInput.Kind
MAX_IN_BACKGROUND = 8  # per session
MAX_STORED_CHARACTERS = 1 << 20  # per command
OUTPUT_LIFETIME = dt.timedelta(hours=24)  # after the command ends


@dataclass(frozen=True)
class CommandChanged(BusMessage, kind="command"):
    """A command has new input or output, or has ended."""

    id: str


class StartCanceled(Exception):
    """The run was stopped, or it, its agent or everything was frozen after the call began: the command must not start."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


def record_start(command: UUID, plan: ExecPlan, *, worker: str, process: ProcessIdentity) -> Command:
    """Create the row of a command that is ready to start. Call in a transaction that commits before the command runs."""
    try:
        freezes.check_not_frozen(plan.agent, plan.run)
    except freezes.RunFrozen as frozen:
        raise StartCanceled(Reason("exec.frozen_by", by=frozen.stop.by_name, reason=frozen.stop.reason)) from None
    # Read after the check above, because it waits for a stop in progress.
    run = Run.objects.only("session_id", "generation", "abort_requested_at").get(pk=plan.run)
    if run.abort_requested_at is not None:
        raise StartCanceled(Reason("exec.run_stopped"))
    answer = Approval.objects.filter(run_id=plan.run, call_id=plan.call, plan_hash=plan.hash, status=Approval.Status.USED)
    row = Command.objects.create(
        id=command,
        name=f"cmd-{Command.objects.filter(session_id=run.session_id).count() + 1}",  # unique: a session has only one run at a time
        session_id=run.session_id,
        run_id=plan.run,
        generation=run.generation,
        call_id=plan.call,
        plan=plan.to_json(),
        plan_hash=plan.hash,
        approval=answer.first(),
        background=plan.background,
        worker=worker,
        identity=asdict(process),
        started_at=clock.now(),
    )
    _record_audit("command.started", row)
    return row


@transaction.atomic
def record_end(
    command: UUID, to: Status, *, exit_code: int | None = None, signal: str = "", reason: str = "", printed: int = 0
) -> bool:
    """Record a command's end; nothing else does. Returns False if it had already ended because its worker was presumed dead."""
    running = Command.objects.filter(pk=command, status=Status.RUNNING)
    stamp = {"exit_code": exit_code, "signal": signal, "reason": reason[:200], "ended_at": clock.now()}
    if not running.update(status=to, **stamp):
        return False
    Command.objects.filter(pk=command, output_end__lt=printed).update(output_end=printed)
    CommandInput.objects.filter(command=command, done_at__isnull=True).update(done_at=clock.now(), error="it had ended")
    ended = Command.objects.select_related("session", "run").get(pk=command)
    _record_audit("command.ended", ended)
    if ended.background:
        _notify_session(ended)
    _notify_worker(command)
    return True


def _notify_session(command: Command) -> None:
    """Post the end of a background command: to people immediately, to the model in its next run."""
    session = command.session
    if session.deleted_at or session.generation != command.generation:
        return
    took = (command.ended_at - command.started_at) // dt.timedelta(milliseconds=1) if command.ended_at else 0
    outcome = f"ended with exit code {command.exit_code}" if command.status == Status.EXITED else f"was ended: {command.reason}"
    facts = {
        "name": command.name,
        "status": command.status,
        "exitCode": command.exit_code,
        "signal": command.signal,
        "durationMs": took,
    }
    text = f"Background command {command.name} {outcome}, after {took / 1000:.1f} s. Use `process` to read its output."
    add_notice(session, "command", text, runId=command.run.run_id, toolCallId=command.call_id, command=facts)


def _record_audit(action: str, command: Command) -> None:
    """Record a start or end in the same transaction: with the command line in the audit log, without it in the log file."""
    agent = command.plan["agent"]
    ended = {"status": command.status, "exit": command.exit_code, "signal": command.signal, "reason": command.reason}
    audit_log.record(
        action,
        actor=acting.actor_for_agent(agent),
        subject=("command", command.pk),
        session=command.session_id,
        run=command.run_id,
        plan=command.plan_hash,
        line=command.plan["line"],
        approval=str(command.approval_id or ""),
        **(ended if action == "command.ended" else {"grants": _read_grants(command)}),
    )
    log.info(
        "%s %s (run %d, worker %s, plan %.12s): %s %s",
        action, command.pk, command.run_id, command.worker, command.plan_hash, command.status, command.reason,
    )  # fmt: skip


def put_in_background(command: UUID, shown: int) -> bool:
    """Move a command to the background; its run continues. `shown`: how much output the agent has seen. False if it has ended."""
    return bool(Command.objects.filter(pk=command, status=Status.RUNNING).update(background=True, read_end=shown))


def add_output(command: UUID, pieces: Sequence[tuple[int, str]], printed: int) -> None:
    """Store output as (offset, text) pieces of at most MAX_PENDING_CHARACTERS. Deletes what exceeds MAX_STORED_CHARACTERS."""
    rows = [CommandOutput(command_id=command, begin=begin, text=text) for begin, text in pieces]
    CommandOutput.objects.bulk_create(rows, ignore_conflicts=True)
    CommandOutput.objects.filter(command=command, begin__lt=printed - MAX_STORED_CHARACTERS - MAX_PENDING_CHARACTERS).delete()
    Command.objects.filter(pk=command).update(output_end=printed)
    _notify_worker(command)


@transaction.atomic
def send_input(command: Command, kind: InputKind, data: str = "") -> CommandInput:
    """Have the command's worker write to it or kill it. For a kill, `data` is the reason."""
    input_row = CommandInput.objects.create(command=command, kind=kind, data=data, created_at=clock.now())
    _notify_worker(command.pk)
    return input_row


def kill_all(commands: QuerySet[Command], reason: str) -> int:
    """Have the workers kill these commands. Returns how many were running."""
    running = list(commands.filter(status=Status.RUNNING))
    for command in running:
        send_input(command, InputKind.KILL, reason)
    return len(running)


def list_inputs(commands: Collection[UUID]) -> list[CommandInput]:
    return list(CommandInput.objects.filter(command__in=commands, done_at__isnull=True).order_by("id"))


def mark_input_done(pk: int, error: str = "") -> None:
    CommandInput.objects.filter(pk=pk, done_at__isnull=True).update(done_at=clock.now(), error=error[:200])


def find_unwanted(commands: Collection[UUID]) -> dict[UUID, str]:
    """Which of these commands must not keep running, and why."""
    reasons: dict[UUID, str] = {}
    stops = freezes.list_active()
    rows = Command.objects.filter(pk__in=commands).select_related("session", "session__owner")
    for row in rows:
        if row.status != Status.RUNNING:
            reasons[row.pk] = "its worker was taken for dead"
        elif row.session.deleted_at:
            reasons[row.pk] = "the session was deleted"
        elif row.generation != row.session.generation:
            reasons[row.pk] = "the session was reset"
        elif not row.session.owner.is_active:
            reasons[row.pk] = "the account was switched off"
        elif stopped := next((stop for stop in stops if stop.covers(row.session.agent, row.run_id)), None):
            reasons[row.pk] = stopped.describe
    gone = set(commands) - {row.pk for row in rows}
    return reasons | dict.fromkeys(gone, "its session is gone")


def list_orphaned(worker: str, held: Collection[UUID]) -> list[Command]:
    """Running commands whose worker is gone or unresponsive for longer than a lease, and this worker's own that it doesn't hold."""
    ours = Q(worker=worker)
    lost = ~ours & ~Q(worker__in=workers.list_recent().values("pk")) | ours & ~Q(pk__in=held)
    return list(Command.objects.filter(lost, status=Status.RUNNING))


def list_in_flight(run_pks: Collection[int]) -> list[Command]:
    """Foreground commands that these runs were waiting for."""
    return list(Command.objects.filter(run__in=run_pks, status=Status.RUNNING, background=False))


def list_visible(session_id: str, run_pk: int) -> QuerySet[Command]:
    """Background commands the agent of a run may see: those of its session since the last reset."""
    generation = Run.objects.filter(pk=run_pk).values("generation")
    return Command.objects.filter(session_id=session_id, generation__in=generation, background=True, cleared_at__isnull=True)


def count_in_background(session_id: str) -> int:
    return Command.objects.filter(session_id=session_id, background=True, status=Status.RUNNING).count()


def read_output_since(command: Command, offset: int) -> tuple[str, int]:
    """Return the stored output from an offset on, and how many characters of it are missing."""
    pieces = command.output.filter(begin__gt=offset - MAX_PENDING_CHARACTERS).order_by("begin").values_list("begin", "text")
    text, dropped = [], 0
    for begin, piece in pieces:
        if begin + len(piece) <= offset:
            continue
        dropped += max(0, begin - offset)
        text.append(piece[max(0, offset - begin) :])
        offset = begin + len(piece)
    return "".join(text), dropped + max(0, command.output_end - offset)


def mark_read(command: UUID, offset: int) -> None:
    Command.objects.filter(pk=command, read_end__lt=offset).update(read_end=offset)


@transaction.atomic
def clear_output(command: Command) -> bool:
    """Delete the output of an ended command. Returns False if it is still running."""
    ended = Command.objects.filter(pk=command.pk).exclude(status=Status.RUNNING)
    if not ended.update(cleared_at=clock.now()):
        return False
    CommandOutput.objects.filter(command=command).delete()
    return True


def delete_old_output() -> int:
    """Delete output and input a day after their command ended; the rows of commands stay. Safe to run concurrently."""
    old = Command.objects.filter(ended_at__lt=clock.now() - OUTPUT_LIFETIME)
    CommandInput.objects.filter(command__in=old).exclude(data="").update(data="")
    return CommandOutput.objects.filter(command__in=old).delete()[0]


def _notify_worker(command: UUID) -> None:
    """Notify the worker that holds it and everyone waiting for its output. Both also poll."""
    bus.publish_on_commit(CommandChanged(str(command)))


def _read_grants(command: Command) -> list[int]:
    """IDs of the grants that allowed it; empty if it was approved or allowed by the rules."""
    verdict = ToolCall.objects.filter(run_id=command.run_id, call_id=command.call_id).values_list("verdict", flat=True).first()
    return [grant["id"] for grant in (verdict or {}).get(ADMISSION_KEY, {}).get("grants", [])]
