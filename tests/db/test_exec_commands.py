"""Commands as rows: ended once, bounded output, lost with their worker; a manager only starts commands it holds."""

import datetime as dt
import uuid

import pytest

from agents.context.history import to_message
from agents.context.workspace import ensure_workspace
from agents.models import Agent
from clawsite.infra import clock, db
from clawsite.infra.errors import Unavailable
from clawsite.infra.process.identity import own_identity
from sessions_app.models import Event, Run, Session, Worker
from sessions_app.runs import freezes, lifecycle, workers
from sessions_app.transcript.history import read_history
from sessions_app.transcript.messages import read_model_history
from tests.harness.commands import allow_all_commands, find_processes, unique_sleep
from tools_app.core.definition import CallRef, ToolEnv
from tools_app.exec.planning import CommandRequest, make_plan
from tools_app.exec.processes import commands
from tools_app.exec.processes import keeper as command_keeper
from tools_app.exec.processes.commands import InputKind, Status
from tools_app.exec.processes.keeper import CommandManager, RunLost
from tools_app.exec.processes.output import MAX_PENDING_CHARACTERS
from tools_app.models import Command, CommandOutput

pytestmark = pytest.mark.dialect


@pytest.fixture
def plan_of(user, make_session):
    """Plans of commands of one run, each for a separate call."""
    allow_all_commands()
    session = make_session(user)
    run = lifecycle.accept_run(user=user, session=session, run_id="k1", prompt="x").pk
    workspace = ensure_workspace(Agent.objects.get(slug="main"), user.pk)
    env = ToolEnv(workspace, "main", user.pk, str(session.id), session.key, run_pk=run)

    async def make(line: str = "true", **more):
        wanted = CommandRequest(line, **more)
        return (await make_plan(wanted, CallRef(uuid.uuid4().hex, "exec", {}), env)).plan

    return make


@pytest.fixture
def begun(plan_of):
    async def make(worker: str = "w1", line: str = "true", **more) -> Command:
        plan = await plan_of(line, **more)
        return await db.write(commands.record_start, uuid.uuid4(), plan, worker=worker, process=own_identity())

    return make


async def test_commands_of_session_have_unique_names(begun):
    assert [(await begun()).name, (await begun()).name] == ["cmd-1", "cmd-2"]


async def test_abort_while_start_is_queued_cancels_command(plan_of, monkeypatch):
    plan, hold = await plan_of(), freezes.check_not_frozen

    def somebody_aborts_meanwhile(agent, run_pk):
        Run.objects.filter(pk=run_pk).update(abort_requested_at=clock.now().timestamp())
        hold(agent, run_pk)

    monkeypatch.setattr(freezes, "check_not_frozen", somebody_aborts_meanwhile)
    with pytest.raises(commands.StartCanceled, match="The run is being stopped"):
        await db.write(commands.record_start, uuid.uuid4(), plan, worker="w1", process=own_identity())
    assert not await db.read(Command.objects.exists)


async def test_background_command_end_is_reported_once(begun):
    row = await begun(background=True)
    session = row.session
    commands.record_end(row.pk, Status.EXITED, exit_code=3)
    commands.record_end(row.pk, Status.LOST, reason="gone")
    (event,) = Event.objects.filter(session=session, run=None)
    told = event.data["message"]
    assert (event.data["change"], told["notice"], told["toolCallId"]) == ("command", "command", row.call_id)
    assert {**told["command"], "durationMs": 0} == {
        "name": "cmd-1",
        "status": "exited",
        "exitCode": 3,
        "signal": "",
        "durationMs": 0,
    }
    (stored,) = read_history(session, limit=10, notices=True).messages
    assert {name: stored[name] for name in told} == {**told, "timestamp": stored["timestamp"]}
    assert read_history(session, limit=10).messages == []  # only if notices are requested
    (seen,) = read_model_history(session.pk, session.generation)
    assert to_message(seen).text.startswith("[Background command cmd-1 ended with exit code 3, after ")


async def test_end_of_other_commands_is_not_reported(begun):
    row = await begun()
    commands.record_end(row.pk, Status.EXITED, exit_code=0)  # the run was waiting for this command
    old, deleted = await begun(background=True), await begun(background=True)
    Session.objects.update(generation=2)
    commands.record_end(old.pk, Status.KILLED, reason="the session was reset")
    Session.objects.update(generation=1, deleted_at=clock.now())
    commands.record_end(deleted.pk, Status.KILLED, reason="the session was deleted")
    assert not Event.objects.filter(session=row.session, run=None, data__change="command").exists()


async def test_command_ends_only_once(begun):
    row = await begun()
    assert commands.record_end(row.pk, Status.LOST, reason="gone") is True
    assert commands.record_end(row.pk, Status.EXITED, exit_code=0) is False
    row.refresh_from_db()
    assert (row.status, row.exit_code, row.reason) == ("lost", None, "gone")


async def test_input_pending_at_command_end_is_dropped(begun):
    row = await begun()
    told = commands.send_input(row, InputKind.WRITE, "x")
    commands.record_end(row.pk, Status.EXITED, exit_code=0)
    told.refresh_from_db()
    assert (told.error, told.done_at is None, commands.list_inputs([row.pk])) == ("it had ended", False, [])


async def test_output_is_read_from_any_offset_with_gaps_counted(begun):
    row = await begun()
    commands.add_output(row.pk, [(0, "0123456789")], 10)
    commands.add_output(row.pk, [(15, "fghij")], 20)
    row.refresh_from_db()
    assert commands.read_output_since(row, 0) == ("0123456789fghij", 5)
    assert commands.read_output_since(row, 7) == ("789fghij", 5)
    assert commands.read_output_since(row, 12) == ("fghij", 3)
    assert commands.read_output_since(row, 17) == ("hij", 0)
    assert commands.read_output_since(row, 20) == ("", 0)
    CommandOutput.objects.all().delete()
    assert commands.read_output_since(row, 17) == ("", 3)


async def test_old_output_chunks_are_dropped(begun, monkeypatch):
    monkeypatch.setattr(commands, "MAX_STORED_CHARACTERS", MAX_PENDING_CHARACTERS)
    row = await begun()
    for number in range(5):
        commands.add_output(
            row.pk, [(number * MAX_PENDING_CHARACTERS, "x" * MAX_PENDING_CHARACTERS)], (number + 1) * MAX_PENDING_CHARACTERS
        )
    row.refresh_from_db()
    assert list(row.output.order_by("begin").values_list("begin", flat=True)) == [
        3 * MAX_PENDING_CHARACTERS,
        4 * MAX_PENDING_CHARACTERS,
    ]
    assert commands.read_output_since(row, 0)[1] == 3 * MAX_PENDING_CHARACTERS


async def test_output_is_deleted_one_day_after_command_end(begun):
    old, fresh = await begun(), await begun()
    for row in (old, fresh):
        commands.send_input(row, InputKind.WRITE, "a secret")
        commands.add_output(row.pk, [(0, "words")], 5)
        commands.record_end(row.pk, Status.EXITED, exit_code=0)
    Command.objects.filter(pk=old.pk).update(ended_at=clock.now() - dt.timedelta(hours=25))
    assert commands.delete_old_output() == 1
    assert (old.output.count(), fresh.output.count(), Command.objects.count()) == (0, 1, 2)
    assert (old.input.get().data, fresh.input.get().data) == ("", "a secret")


async def test_only_commands_without_live_worker_are_orphaned(begun, settings):
    me = own_identity()
    for name in ("mine", "alive", "frozen"):
        workers.register(name, version="1", identity=me)
    Worker.objects.filter(pk="frozen").update(heartbeat_at=Worker.objects.get(pk="alive").heartbeat_at - settings.LEASE_SECONDS - 1)
    rows = {name: await begun(name) for name in ("mine", "alive", "frozen", "gone")}
    dropped = await begun("mine")
    ended = await begun("gone")
    commands.record_end(ended.pk, Status.EXITED, exit_code=0)
    found = {row.pk for row in commands.list_orphaned("mine", [rows["mine"].pk])}
    assert found == {rows["frozen"].pk, rows["gone"].pk, dropped.pk}


async def test_running_command_cannot_be_cleared(begun):
    row = await begun()
    assert commands.clear_output(row) is False
    commands.record_end(row.pk, Status.EXITED, exit_code=0)
    assert commands.clear_output(row) is True


async def test_kill_all_reaches_only_running_commands(begun):
    running, over = await begun(), await begun()
    commands.record_end(over.pk, Status.EXITED, exit_code=0)
    assert commands.kill_all(Command.objects.all(), "everything stops") == 1
    assert [(each.command_id, each.kind, each.data) for each in commands.list_inputs([running.pk, over.pk])] == [
        (running.pk, "kill", "everything stops")
    ]


async def test_command_is_not_started_after_lease_may_have_expired(plan_of):
    """The last check comes between the row and `go`: a run that was frozen in between starts nothing."""
    mark = unique_sleep()
    keeper = CommandManager("w1")
    plan = await plan_of(f"sleep {mark}")
    looked = []

    def may_act() -> bool:
        looked.append((Command.objects.get().status, find_processes(mark)))
        return False

    with pytest.raises(RunLost):
        await keeper.start(plan, may_act=may_act)
    assert looked[0][0] == "running"
    row = Command.objects.get()
    assert (row.status, row.reason, find_processes(mark)) == ("killed", "it was not started", [])
    allowed = await keeper.start(await plan_of("true"), may_act=lambda: True)
    assert (await allowed.finished).exit_code == 0


async def test_failed_end_record_is_retried(plan_of, monkeypatch, eventually):
    from clawsite.infra.errors import Unavailable

    monkeypatch.setattr(command_keeper, "RETRY_SECONDS", 0.01)
    end, tries = commands.record_end, []

    def broken_at_first(*args, **more):
        tries.append(1)
        if len(tries) < 3:
            raise Unavailable("The database can’t be reached.")
        return end(*args, **more)

    monkeypatch.setattr(commands, "record_end", broken_at_first)
    keeper = CommandManager("w1")
    kept = await keeper.start(await plan_of("exit 7"), may_act=lambda: True)
    await kept.finished
    assert (len(tries), Command.objects.get().exit_code) == (3, 7)


async def test_running_commands_are_ended_before_run_takeover(plan_of, eventually):
    mark = unique_sleep()
    first, second = CommandManager("w1"), CommandManager("w2")
    workers.register("w1", version="1", identity=own_identity())
    kept = await first.start(await plan_of(f"sleep {mark}"), may_act=lambda: True)
    await eventually(lambda: find_processes(mark))
    await second.sweep()
    assert find_processes(mark)  # the command's worker is alive
    await second.end_commands_of_runs([kept.plan.run])
    assert find_processes(mark) == []
    assert Command.objects.get().status in ("lost", "exited")  # the first process is not suspended here, and also sees the end
    await kept.finished


async def test_worker_presumed_dead_ends_its_remaining_commands(plan_of, eventually):
    mark = unique_sleep()
    keeper = CommandManager("w1")
    kept = await keeper.start(await plan_of(f"sleep {mark}", background=True), may_act=lambda: True)
    await eventually(lambda: find_processes(mark))
    commands.record_end(kept.id, Status.LOST, reason="gone")  # like another host, which can't reach the process
    await keeper.poll()
    await kept.finished
    assert (find_processes(mark), Command.objects.get().status) == ([], "lost")


@pytest.mark.parametrize("stop", ["freeze", "abort"])
async def test_freeze_or_abort_before_start_cancels_command(begun, user, stop):
    if stop == "freeze":
        freezes.freeze("agent", "main", reason="look first", by=None, by_name="olga")
    else:
        Run.objects.filter(run_id="k1").update(abort_requested_at=1.0)
    with pytest.raises(commands.StartCanceled, match="olga: look first" if stop == "freeze" else "The run is being stopped"):
        await begun()
    assert not Command.objects.exists()


async def test_input_is_not_repeated_after_failed_record(begun, monkeypatch):
    row = await begun()
    typed: list[bytes] = []

    class Running:
        async def write(self, data: bytes) -> None:
            typed.append(data)

    kept = command_keeper.RunningCommand(row.pk, row.name, None, Running())
    told = commands.send_input(row, InputKind.WRITE, "yes\n")
    noted = commands.mark_input_done
    monkeypatch.setattr(commands, "mark_input_done", lambda *_: (_ for _ in ()).throw(Unavailable("the disk is full")))
    with pytest.raises(Unavailable):
        await CommandManager("w1")._handle_inputs(kept, [told])
    monkeypatch.setattr(commands, "mark_input_done", noted)
    await CommandManager("w1")._handle_inputs(kept, [told])
    assert typed == [b"yes\n"]
    assert commands.list_inputs([row.pk]) == []
