"""Commands whose workers are killed, suspended and restarted: run at most once, nothing left, and decisions stay valid."""

from pathlib import Path

import pytest

from sessions_app.models import Run, Worker
from sessions_app.runs import lifecycle
from tests.harness.commands import allow_all_commands, exec_prompt, find_processes, get_command, require_approval, unique_sleep
from tests.harness.worker import calls_of, events_of, transcript_of
from tools_app.approvals import requests as approval_requests
from tools_app.models import Approval, Command

pytestmark = pytest.mark.dialect

# A worker delayed for half a second on a busy machine must not be considered dead.
PATIENT = {"CLAWSITE_LEASE_SECONDS": "5"}
INTERRUPTED = "interrupted: the worker died while this call was running, so its outcome is unknown. It was not repeated."


@pytest.fixture
def send(user, make_session):
    session = make_session(user)

    def accept(prompt: str, key: str = "k1") -> int:
        return lifecycle.accept_run(user=user, session=session, run_id=key, prompt=prompt).pk

    return accept


@pytest.fixture
def ended(eventually):
    async def wait(run_pk: int) -> Run:
        return await eventually(lambda: Run.objects.filter(pk=run_pk, status__in=Run.ENDED).first(), seconds=40)

    return wait


def holder(running, worker: str):
    pid = Worker.objects.get(pk=worker).pid
    return next(process for process in running.workers if process.pid == pid)


def workspace(running, user) -> Path:
    return running.home / "workspaces" / "main" / f"user-{user.pk}"


async def test_killed_worker_leaves_no_process_and_repeats_no_command(stack, user, send, ended, eventually):
    allow_all_commands()
    running, mark = stack(workers=2, env=PATIENT), unique_sleep()
    run_pk = send(exec_prompt(command=f"echo begun >> log.txt; setsid sleep {mark} & sleep {mark}"))
    await eventually(lambda: len(find_processes(mark)) >= 2)
    holder(running, Run.objects.get(pk=run_pk).worker).kill()
    await eventually(lambda: find_processes(mark) == [], seconds=5)
    run = await ended(run_pk)
    (call,) = calls_of(run)
    assert (run.status, run.rescues, call.status) == ("completed", 1, "interrupted")
    assert transcript_of(run)[2][1].startswith(INTERRUPTED)
    assert transcript_of(run)[-1] == ("assistant", "done")
    assert (workspace(running, user) / "log.txt").read_text() == "begun\n"
    command = get_command(run)
    assert (command.status, command.reason) == ("lost", "the worker that had it is gone, and with it the process")


async def test_background_command_of_killed_worker_is_reported_lost(stack, send, ended, eventually):
    allow_all_commands()
    running, mark = stack(workers=2, env=PATIENT), unique_sleep()
    run = await ended(send(exec_prompt(command=f"echo begun; sleep {mark}", background=True)))
    await eventually(lambda: find_processes(mark))
    command = get_command(run)
    await eventually(lambda: Command.objects.get(pk=command.pk).output_end)
    holder(running, command.worker).kill()
    await eventually(lambda: Command.objects.get(pk=command.pk).status == "lost")
    assert find_processes(mark) == []
    later = await ended(send(exec_prompt(tool="process", action="poll", name=command.name), "k2"))
    assert transcript_of(later)[2][1] == "begun\n[lost: the worker that had it is gone, and with it the process]"


@pytest.mark.parametrize("background", [False, True], ids=["in the foreground", "in the background"])
async def test_commands_of_frozen_worker_are_killed_by_successor(stack, user, send, ended, eventually, background):
    allow_all_commands()
    running, mark = stack(workers=2, env={"CLAWSITE_LEASE_SECONDS": "2"}), unique_sleep()
    run_pk = send(exec_prompt(command=f"echo begun >> log.txt; setsid sleep {mark} & sleep {mark}", background=background))
    await eventually(lambda: len(find_processes(mark)) >= 2)
    command = get_command(run_pk)
    if background:
        await ended(run_pk)
    frozen = holder(running, command.worker)
    running.freeze(frozen)
    await eventually(lambda: Command.objects.get(pk=command.pk).status == "lost", seconds=40)
    assert find_processes(mark) == []
    run = await ended(run_pk)
    if not background:
        assert (calls_of(run)[0].status, run.status) == ("interrupted", "completed")
        rescued = next(event for event in events_of(run) if event.data.get("phase") == "rescued")
        assert rescued
    frozen.thaw()
    assert (await ended(send("[[text=again]]", "k2"))).status == "completed"
    assert (workspace(running, user) / "log.txt").read_text() == "begun\n"
    assert Command.objects.get(pk=command.pk).status == "lost"


async def test_terminated_worker_kills_its_commands(stack, send, eventually):
    allow_all_commands()
    running, mark = stack(env=PATIENT), unique_sleep()
    run_pk = send(exec_prompt(command=f"sleep {mark}"))
    await eventually(lambda: find_processes(mark))
    assert running.workers[0].stop() == 0
    assert find_processes(mark) == []
    assert get_command(run_pk).status == "killed"


async def test_approval_survives_restart_of_every_process(stack, user, make_user, send, ended, eventually):
    require_approval()
    running = stack(env=PATIENT)
    home = workspace(running, user)
    home.mkdir(parents=True)
    (home / "tool.sh").write_text("#!/bin/bash\necho ran >> log.txt\n")
    (home / "tool.sh").chmod(0o755)
    run_pk = send(exec_prompt(command="./tool.sh"))
    question = await eventually(lambda: Approval.objects.filter(run=run_pk, status="pending").first())
    await eventually(lambda: Run.objects.get(pk=run_pk).status == "waiting")
    before = (question.pk, question.plan_hash, question.expires_at)
    for process in [*running.webs, *running.workers]:
        process.restart()
    question.refresh_from_db()
    assert (question.pk, question.plan_hash, question.expires_at) == before
    assert question.status == "pending"
    approval_requests.resolve_approval(question.pk, by=make_user("Approver"), decision="allow-once")
    run = await ended(run_pk)
    question.refresh_from_db()
    assert (run.status, run.rescues, question.status) == ("completed", 0, "used")
    assert (home / "log.txt").read_text() == "ran\n"
