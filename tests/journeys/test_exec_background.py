"""Commands that continue in the background: followed, written to and ended by later runs, in any worker."""

import pytest

from clawsite.infra import bus
from sessions_app.sessions import service as session_service
from tests.harness.commands import allow_all_commands, exec_prompt, find_processes, get_command, unique_sleep
from tests.harness.worker import WorkerHarness, calls_of, transcript_of
from tools_app.exec.processes import commands
from tools_app.exec.processes.output import MAX_PENDING_CHARACTERS
from tools_app.models import Command


@pytest.fixture(autouse=True)
def everything_runs(database):
    allow_all_commands()


async def told(harness: WorkerHarness, prompt: str, **options) -> str:
    """Return the model's result of the last call of a run."""
    run = await harness.answer(prompt, **options)
    assert run.status == "completed", run.error
    return [text for role, text in transcript_of(run) if role == "toolResult"][-1]


async def begun(harness: WorkerHarness, command: str, **more) -> Command:
    run = await harness.answer(exec_prompt(command=command, background=True, **more))
    assert transcript_of(run)[2][1].startswith("[it runs in the background as `cmd-"), transcript_of(run)[2][1]
    return get_command(run)


async def process(harness: WorkerHarness, action: str, name: str = "", **more) -> str:
    return await told(harness, exec_prompt(tool="process", action=action, name=name, **more))


async def test_background_command_outlives_its_run(harness: WorkerHarness, eventually):
    row = await begun(harness, "echo one; read -r line; echo got $line; exit 4")
    listed = await process(harness, "list")
    assert listed.startswith(f"{row.name}: running for ")
    assert listed.endswith(": echo one; read -r line; echo got $line; exit 4")
    assert (await process(harness, "poll", row.name, timeout=5000)).startswith("one\n[running for ")
    assert (await process(harness, "poll", row.name)).startswith("(no new output)\n[running for ")
    assert "received the input" in await process(harness, "submit", row.name, data="this")
    assert (await process(harness, "poll", row.name, timeout=5000)).startswith("got this\n[")
    await eventually(lambda: Command.objects.get(pk=row.pk).status == "exited")
    assert await process(harness, "poll", row.name) == "(no new output)\n[exit code 4]"
    assert await process(harness, "log", row.name) == "one\ngot this\n[lines 0 to 1 of 2; exit code 4]"
    assert await process(harness, "log", row.name, offset=1, limit=1) == "got this\n[lines 1 to 1 of 2; exit code 4]"
    assert "is no longer running: exit code 4" in await process(harness, "write", row.name, data="x")
    assert "was cleared" in await process(harness, "clear", row.name)
    assert await process(harness, "list") == "no commands are running in the background"


async def test_model_is_notified_once_of_command_exit(harness: WorkerHarness, eventually):
    row = await begun(harness, "exit 4")
    await eventually(lambda: Command.objects.get(pk=row.pk).status == "exited")
    for prompt in ("[[text=first]]", "[[text=second]]"):
        await harness.answer(prompt)
        asked = [message["content"] for message in harness.model.bodies[-1]["messages"] if message["role"] == "user"]
        (notice,) = [text for text in asked if "Background command" in text]
        assert notice.startswith(f"[Background command {row.name} ended with exit code 4, after ")
        assert asked.index(notice) == 1  # after the message that started it, before later ones


async def test_command_exceeding_yield_time_continues_in_background(harness: WorkerHarness, eventually):
    run = await harness.answer(exec_prompt(command="echo one; read -r line; echo two", yield_ms=300))
    assert transcript_of(run)[2][1].startswith("one\n[it runs in the background as `cmd-1`")
    assert calls_of(run)[0].result["details"]["status"] == "running"
    assert "received the input" in await process(harness, "close", "cmd-1")
    await eventually(lambda: get_command(run).status == "exited")
    assert await process(harness, "poll", "cmd-1") == "two\n[exit code 0]"


async def test_another_worker_can_poll_write_and_kill(harness: WorkerHarness):
    row = await begun(harness, "while read -r line; do echo got $line; done")
    (first,) = harness._workers
    first._concurrency = 0  # this worker keeps the command and claims nothing new
    harness.open()
    assert "received the input" in await process(harness, "write", row.name, data="one\ntwo\n")
    assert (await process(harness, "poll", row.name, timeout=5000)).startswith("got one\n")
    assert (await process(harness, "kill", row.name)) == f"`{row.name}`: killed: the agent ended it"
    assert row.worker == first.id


async def test_process_input_works_without_bus_messages(harness: WorkerHarness, monkeypatch):
    row = await begun(harness, "read -r line; echo got $line")
    monkeypatch.setattr(bus, "publish", lambda message: None)
    assert "received the input" in await process(harness, "submit", row.name, data="this")
    assert (await process(harness, "poll", row.name, timeout=5000)).startswith("got this\n")


async def test_terminal_keys_reach_the_command(harness: WorkerHarness):
    row = await begun(
        harness, "stty -echo; echo ready; read -rsn3 key; printf 'key %q\\n' \"$key\"; read -r word; echo word $word", pty=True
    )
    assert (await process(harness, "poll", row.name, timeout=5000)).startswith("ready")
    assert "received the input" in await process(harness, "send-keys", row.name, keys=["up"])
    assert "key $'\\E[A'" in await process(harness, "poll", row.name, timeout=5000)
    assert "received the input" in await process(harness, "submit", row.name, data="hello")
    assert "word hello" in await process(harness, "poll", row.name, timeout=5000)
    assert "unknown key: bogus" in await process(harness, "send-keys", (await begun(harness, "cat", pty=True)).name, keys=["bogus"])


async def test_ctrl_c_interrupts_terminal_command(harness: WorkerHarness, eventually):
    mark = unique_sleep()
    row = await begun(harness, f"sleep {mark}", pty=True)
    await eventually(lambda: find_processes(mark))
    await process(harness, "send-keys", row.name, keys=["ctrl-c"])
    await eventually(lambda: Command.objects.get(pk=row.pk).status == "exited")
    assert find_processes(mark) == []


async def test_send_keys_requires_a_terminal(harness: WorkerHarness):
    row = await begun(harness, "cat")
    assert "has no terminal" in await process(harness, "send-keys", row.name, keys=["enter"])


async def test_unread_input_does_not_prevent_kill(harness: WorkerHarness):
    mark = unique_sleep()
    row = await begun(harness, f"sleep {mark}")
    for _ in range(5):  # a pipe holds 64 KB
        commands.send_input(row, commands.InputKind.WRITE, "x" * 16 * 1024)
    assert await process(harness, "kill", row.name) == f"`{row.name}`: killed: the agent ended it"
    assert find_processes(mark) == []


async def test_large_output_is_bounded_and_truncation_is_reported(harness: WorkerHarness, monkeypatch, eventually):
    monkeypatch.setattr(commands, "MAX_STORED_CHARACTERS", 20_000)
    row = await begun(harness, "seq 1 60000; sleep 0.5; seq 1 60000; echo the end")
    await eventually(lambda: Command.objects.get(pk=row.pk).status == "exited")
    kept = sum(len(piece.text) for piece in row.output.all())
    assert 20_000 <= kept <= 20_000 + 2 * MAX_PENDING_CHARACTERS
    said = await process(harness, "poll", row.name)
    assert said.endswith("the end\n[exit code 0]")
    assert "characters dropped" in said


async def test_number_of_background_commands_is_limited(harness: WorkerHarness, monkeypatch):
    monkeypatch.setattr(commands, "MAX_IN_BACKGROUND", 1)
    row = await begun(harness, "cat")
    said = await told(harness, exec_prompt(command="cat", background=True))
    assert said.startswith("This command was not started: 1 background commands are already running")
    assert Command.objects.count() == 1
    waited = await told(harness, exec_prompt(command="sleep 0.5; echo here", yield_ms=10))
    assert waited.startswith("here\n[exit code 0")
    await process(harness, "kill", row.name)
    await begun(harness, "cat")


async def test_other_session_cannot_see_command(harness: WorkerHarness, make_session):
    row = await begun(harness, "cat")
    elsewhere = make_session(harness.user)
    assert (
        await told(harness, exec_prompt(tool="process", action="list"), session=elsewhere)
        == "no commands are running in the background"
    )
    said = await told(harness, exec_prompt(tool="process", action="kill", name=row.name), session=elsewhere)
    assert "there is no background command" in said


@pytest.mark.parametrize("how", ["reset", "deleted"])
async def test_command_ends_with_its_session(harness: WorkerHarness, make_session, eventually, how):
    mark = unique_sleep()
    row = await begun(harness, f"setsid sleep {mark} & sleep {mark}")
    await eventually(lambda: len(find_processes(mark)) >= 2)
    (session_service.reset_session if how == "reset" else session_service.delete_session)(harness.user, harness.session)
    await eventually(lambda: Command.objects.get(pk=row.pk).status == "killed")
    assert (Command.objects.get(pk=row.pk).reason, find_processes(mark)) == (f"the session was {how}", [])
    if how == "reset":
        assert await process(harness, "list") == "no commands are running in the background"


async def test_command_ends_when_owner_is_deactivated(harness: WorkerHarness, eventually):
    row = await begun(harness, "cat")
    type(harness.user).objects.filter(pk=harness.user.pk).update(is_active=False)
    await eventually(lambda: Command.objects.get(pk=row.pk).reason == "the account was switched off")


async def test_stopped_worker_kills_command_and_reports_it(harness: WorkerHarness, eventually):
    mark = unique_sleep()
    row = await begun(harness, f"echo one; sleep {mark}")
    await eventually(lambda: find_processes(mark))
    await harness.close()
    assert find_processes(mark) == []
    harness.open()
    assert await process(harness, "poll", row.name) == "one\n[killed: the worker that had it was stopped]"


async def test_command_is_killed_at_its_timeout(harness: WorkerHarness, eventually):
    row = await begun(harness, "cat", timeout=1)
    await eventually(lambda: Command.objects.get(pk=row.pk).status == "timed_out")
    assert await process(harness, "poll", row.name) == "(no new output)\n[timed out: it took longer than it may]"
