"""`claw panic` with and without a running server."""

import pytest

from sessions_app.models import Run
from sessions_app.runs import freezes, lifecycle
from tests.harness.plugins import sleep_plugin
from tests.harness.stack import database_url
from tests.harness.waits import waiting_for
from tests.harness.worker import transcript_of
from tests.journeys.claw_command import clean_environment, run_claw


@pytest.fixture
def env(database, tmp_path):
    from django.conf import settings

    return clean_environment(CLAWSITE_HOME=str(tmp_path / "home"), DATABASE_URL=database_url(settings.DATABASES["default"]))


def test_panic_freezes_lists_and_resumes_without_a_server(env):
    assert run_claw("panic", "--list", env=env).out == "Nothing is frozen.\n"
    stopped = run_claw("panic", "--reason", "it deletes files", env=env)
    assert (stopped.code, stopped.out) == (0, "Frozen: everything.\n")
    (stop,) = freezes.list_active()
    assert (stop.by, stop.reason) == (None, "it deletes files")
    assert stop.by_name.endswith("(command line)")
    again = run_claw("panic", "--reason", "again", env=env)
    assert again.out.startswith("Already frozen: everything, since ")
    assert run_claw("panic", "--agent", "main", "--reason", "this one too", env=env).out == "Frozen: agent main.\n"
    listed = run_claw("panic", "--list", env=env).out.splitlines()
    assert [line.split(",")[0] for line in listed] == ["everything", "agent main"]
    assert listed[0].endswith("(command line): it deletes files")
    resumed = run_claw("panic", "--resume", "--reason", "all is well", env=env)
    assert resumed.out.startswith("Resumed: everything.\nagent main, since ")
    assert run_claw("panic", "--resume", "--agent", "main", "--reason", "all is well", env=env).code == 0
    assert freezes.list_active() == []


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "--reason is required"),
        (["--resume"], 2, "--reason is required"),
        (["--resume", "--reason", "x"], 1, "This is not frozen."),
        (["--agent", "mian", "--reason", "x"], 1, "Agent not found: mian"),
        (["--run", "0", "--reason", "x"], 1, "Run not found."),
        (["--run", "1", "--agent", "main", "--reason", "x"], 2, "not allowed with"),
    ],
)
def test_invalid_requests_are_reported(env, arguments, code, message):
    outcome = run_claw("panic", *arguments, env=env)
    assert outcome.code == code
    assert message in outcome.err
    assert freezes.list_active() == []


def test_unmigrated_database_is_reported(tmp_path):
    outcome = run_claw("panic", "--list", env=clean_environment(CLAWSITE_HOME=str(tmp_path)))
    assert outcome.code == 1
    assert "claw prepare" in outcome.err


async def test_panic_returns_when_the_running_command_has_ended(stack, env, user, make_session, eventually, tmp_path):
    with sleep_plugin(tmp_path) as sleeps:
        stack(env={"CLAWSITE_LEASE_SECONDS": "10", "PYTHONPATH": str(tmp_path)})
        run_pk = lifecycle.accept_run(
            user=user, session=make_session(user), run_id="k1", prompt=f"{sleeps.prompt} [[text=done]]"
        ).pk
        await eventually(lambda: sleeps.alive, seconds=40)
        outcome = run_claw("panic", "--run", str(run_pk), "--reason", "it deletes files", env=env)
        assert (outcome.code, outcome.out) == (0, f"Frozen: run {run_pk}.\n")
        run = Run.objects.get(pk=run_pk)
        assert (run.status, waiting_for(run_pk), sleeps.alive) == ("waiting", "frozen", [])
        assert run_claw("panic", "--resume", "--run", str(run_pk), "--reason", "all is well", env=env).code == 0
        run = await eventually(lambda: Run.objects.filter(pk=run_pk, status__in=Run.ENDED).first(), seconds=40)
        assert (run.status, transcript_of(run)[-1], len(sleeps.started)) == ("completed", ("assistant", "done"), 1)
