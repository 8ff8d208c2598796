"""Commands in real runs: output, end, the model's result, and that no processes are left."""

from pathlib import Path

import pytest

from agents.context.workspace import ensure_workspace
from agents.models import Agent
from sessions_app.runs import lifecycle
from tests.harness.commands import allow_all_commands, exec_prompt, find_processes, get_command, unique_sleep
from tests.harness.worker import WorkerHarness, calls_of, events_of, transcript_of
from tools_app.policy_store import policies


@pytest.fixture(autouse=True)
def everything_runs(database):
    allow_all_commands()


@pytest.fixture
def files(harness: WorkerHarness) -> Path:
    return ensure_workspace(Agent.objects.get(slug="main"), harness.user.pk).resolve()


async def ran(harness: WorkerHarness, **arguments):
    """Return the call's row and the model's result, of a run with one command."""
    run = await harness.answer(exec_prompt(**arguments))
    assert (run.status, transcript_of(run)[-1]) == ("completed", ("assistant", "done"))
    (row,) = calls_of(run)
    return row, transcript_of(run)[2][1]


def updates_of(run) -> list[str]:
    return [event.data["partialResult"] for event in events_of(run) if event.data.get("phase") == "update"]


async def test_command_returns_both_streams_and_exit_code(harness: WorkerHarness, files):
    (files / "below").mkdir(exist_ok=True)
    row, told = await ran(harness, command="echo out; echo err >&2; pwd; exit 3", workdir="below")
    assert told.startswith(f"out\n{files}/below\n[stderr]\nerr\n[exit code 3, ")
    details, command = row.result["details"], get_command(row.run)
    assert (row.status, row.is_error, command.status, command.exit_code) == ("failed", True, "exited", 3)
    assert (details["stdout"], details["stderr"], details["exitCode"]) == (f"out\n{files}/below\n", "err\n", 3)
    assert (details["truncated"], details["signal"], details["cwd"]) == (False, None, f"{files}/below")
    assert (details["planHash"], "approvalId" in details) == (command.plan_hash, False)
    assert details["sandbox"] in ("none", "landlock", "bubblewrap")
    assert details["durationMs"] >= 0


async def test_command_without_output_succeeds(harness: WorkerHarness):
    row, told = await ran(harness, command="true")
    assert (row.status, told.startswith("(no output)\n[exit code 0, ")) == ("finished", True)


async def test_command_output_is_streamed_while_running(harness: WorkerHarness, files, eventually):
    run_pk = harness.send(exec_prompt(command="echo first; until [ -e go ]; do sleep 0.05; done; echo last"))
    await eventually(lambda: updates_of(run_pk) == ["first"] or updates_of(run_pk) == ["first\n"])
    (files / "go").touch()
    run = await harness.ended(run_pk)
    assert transcript_of(run)[2][1].startswith("first\nlast\n[exit code 0")


async def test_command_timeout_is_independent_of_tool_timeout(harness: WorkerHarness, settings):
    settings.TOOL_TIMEOUT_SECONDS = 0.1
    _, told = await ran(harness, command="sleep 0.5; echo awake")
    assert told.startswith("awake\n[exit code 0")


async def test_timed_out_command_is_killed_with_its_children(harness: WorkerHarness):
    mark = unique_sleep()
    row, told = await ran(harness, command=f"echo begun; setsid sleep {mark} & sleep {mark}", timeout=1)
    assert told.startswith("begun\n[timed out: it took longer than it may; the command and all its child processes were killed, ")
    assert (row.result["details"]["exitCode"], row.result["details"]["signal"], row.is_error) == (None, "SIGKILL", True)
    assert (get_command(row.run).status, find_processes(mark)) == ("timed_out", [])


async def test_abort_kills_command_with_its_children(harness: WorkerHarness, eventually):
    mark = unique_sleep()
    run_pk = harness.send(exec_prompt(command=f"setsid sleep {mark} & sleep {mark}"))
    await eventually(lambda: len(find_processes(mark)) >= 2)
    lifecycle.request_abort(user=harness.user, session=harness.session)
    run = await harness.ended(run_pk)
    assert (run.status, find_processes(mark)) == ("aborted", [])
    assert transcript_of(run)[-1] == ("toolResult", "stopped: the run ended (rpc) before this call did")
    assert (get_command(run).status, get_command(run).reason) == ("killed", "its run was stopped")


async def test_long_output_keeps_beginning_and_end(harness: WorkerHarness):
    row, told = await ran(harness, command="seq 1 200000")
    assert told.startswith("1\n2\n3\n")
    assert "\n200000\n[exit code 0" in told
    assert "bytes cut" in told
    assert row.result["details"]["truncated"] is True
    assert len(told) < 110_000


async def test_pty_command_detects_terminal(harness: WorkerHarness):
    _, told = await ran(harness, command="[ -t 0 ] && [ -t 1 ] && stty size", pty=True)
    assert told.split()[0].isdigit()
    _, told = await ran(harness, command="[ -t 1 ] || echo no terminal")
    assert told.startswith("no terminal\n")


async def test_server_environment_does_not_reach_command(harness: WorkerHarness, monkeypatch):
    monkeypatch.setenv("LEAKED_SECRET", "do not tell")
    _, told = await ran(harness, command="env")
    assert "PATH=/usr/local/bin" in told
    assert "LEAKED_SECRET" not in told
    assert "OPENAI" not in told


@pytest.mark.parametrize("workdir", ["..", "/etc", "nowhere"])
async def test_directory_outside_workspace_is_rejected(harness: WorkerHarness, workdir):
    row, told = await ran(harness, command="pwd", workdir=workdir)
    assert row.status == "refused"
    assert "workdir" in told


async def test_background_requires_the_process_tool(harness: WorkerHarness):
    policies.save_policy(scope="agent", subject="main", profile="coding", deny=["process"])
    try:
        row, told = await ran(harness, command="sleep 0.3; echo waited", background=True, yield_ms=10)
    finally:
        policies.save_policy(scope="agent", subject="main", profile="coding")
    assert told.startswith("waited\n[exit code 0")
    assert get_command(row.run).background is False


async def test_exec_without_permission_is_denied_and_reported_to_model(harness: WorkerHarness, files):
    from tools_app.models import ExecRule

    ExecRule.objects.all().delete()
    row, told = await ran(harness, command="touch made")
    assert (row.status, row.refused_by) == ("refused", "exec")
    assert told.startswith("exec_denied: No exec rule allows commands here.")
    assert row.result["details"] == {"code": "exec_no_rule", "layer": "exec"}
    assert not (files / "made").exists()
