"""Commands that need approval: from the request to the command, and every case in which it must not run."""

import asyncio
import datetime as dt
from pathlib import Path

import pytest

from agents.context.workspace import ensure_workspace
from agents.models import Agent
from clawsite.infra import clock
from clawsite.infra.errors import Conflict
from clawsite.infra.reasons import Reason
from sessions_app.runs import lifecycle
from tests.harness.commands import (
    allow_all_commands,
    exec_prompt,
    get_command,
    parallel_exec_prompt,
    require_approval,
    set_exec_rule,
)
from tests.harness.worker import WorkerHarness, calls_of, events_of, transcript_of
from tools_app.approvals import requests as approval_requests
from tools_app.approvals.grants import GrantTerms
from tools_app.builtin import exec as exec_tool
from tools_app.exec.processes import commands
from tools_app.models import Approval, Command, ExecRule, Grant

pytestmark = pytest.mark.dialect

PROGRAM_CHANGED = "exec_denied: This has changed since the command was allowed: a program it would start. It did not run."


@pytest.fixture(autouse=True)
def people_are_asked(database):
    require_approval()


@pytest.fixture
def approver(make_user):
    return make_user("Approver")


@pytest.fixture
def files(harness: WorkerHarness) -> Path:
    return ensure_workspace(Agent.objects.get(slug="main"), harness.user.pk).resolve()


@pytest.fixture
def script(files) -> str:
    """A program in the workspace, which no list can name. It records each time it runs."""
    (files / "log.txt").unlink(missing_ok=True)
    (files / "tool.sh").write_text("#!/bin/bash\necho ran >> log.txt\necho it says $1\n")
    (files / "tool.sh").chmod(0o755)
    return "./tool.sh hello"


def times_run(files: Path) -> int:
    log = files / "log.txt"
    return len(log.read_text().split()) if log.exists() else 0


async def asked(harness: WorkerHarness, prompt: str) -> tuple[int, Approval]:
    """A run that is waiting for approval, and its request."""
    run_pk = harness.send(prompt)
    await harness.until(run_pk, "waiting")
    return run_pk, Approval.objects.get(run=run_pk, status="pending")


def last_result(run) -> str:
    return [text for role, text in transcript_of(run) if role == "toolResult"][-1]


async def test_approved_command_waits_without_resources_and_runs_once(harness: WorkerHarness, files, script, approver, eventually):
    run_pk, question = await asked(harness, exec_prompt(command=script))
    await eventually(lambda: not harness.busy)
    assert (times_run(files), Command.objects.count(), question.requester_id) == (0, 0, harness.user.pk)
    assert [call.status for call in calls_of(run_pk)] == ["waiting"]
    answered = approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once", seen_hash=question.plan_hash)
    assert answered.status == "approved"
    run = await harness.ended(run_pk)
    assert (run.status, times_run(files)) == ("completed", 1)
    assert last_result(run).startswith("it says hello\n[exit code 0")
    question.refresh_from_db()
    command = get_command(run)
    assert (question.status, command.approval_id, command.plan_hash) == ("used", question.pk, question.plan_hash)
    assert calls_of(run)[0].result["details"]["approvalId"] == str(question.pk)
    phases = [event.data["phase"] for event in events_of(run) if event.stream == "tool" and event.data["phase"] != "update"]
    assert phases == ["waiting", "decided", "start", "result"]


async def test_only_one_of_fifty_decisions_wins(harness: WorkerHarness, files, script, make_user):
    run_pk, question = await asked(harness, exec_prompt(command=script))
    people = [make_user("Approver") for _ in range(5)]

    def answer(number: int) -> str:
        from django.db import connection

        try:
            decision = "allow-once" if number % 2 else "deny"
            return approval_requests.resolve_approval(question.pk, by=people[number % 5], decision=decision).decision
        except Conflict as lost:
            return str(lost.details["decidedBy"])
        finally:
            connection.close()

    said = await asyncio.gather(*(asyncio.to_thread(answer, number) for number in range(50)))
    question.refresh_from_db()
    assert said.count(question.decision) == 1
    assert said.count(question.decided_by.username) == 49
    await harness.ended(run_pk)
    assert times_run(files) == (1 if question.decision == "allow-once" else 0)


async def test_denial_reason_reaches_the_model(harness: WorkerHarness, files, script, approver):
    run_pk, question = await asked(harness, exec_prompt(command=script))
    approval_requests.resolve_approval(question.pk, by=approver, decision="deny", reason="not on a Friday")
    run = await harness.ended(run_pk)
    assert (run.status, times_run(files), calls_of(run)[0].status) == ("completed", 0, "refused")
    assert last_result(run) == "exec_denied: An approver denied the command: not on a Friday. It did not run."
    assert transcript_of(run)[-1] == ("assistant", "done")


async def test_unanswered_approval_request_does_not_run(harness: WorkerHarness, files, script, approver):
    run_pk, question = await asked(harness, exec_prompt(command=script))
    Approval.objects.filter(pk=question.pk).update(expires_at=clock.now() - dt.timedelta(seconds=1))
    run = await harness.ended(run_pk)
    assert (run.status, times_run(files)) == ("completed", 0)
    assert last_result(run) == "exec_denied: The approval request expired. It did not run."
    with pytest.raises(Conflict):
        approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")


async def test_aborted_run_cancels_its_approval_request(harness: WorkerHarness, files, script, approver):
    run_pk, question = await asked(harness, exec_prompt(command=script))
    (stopped,) = lifecycle.request_abort(user=harness.user, session=harness.session)
    question.refresh_from_db()
    assert (stopped.ended, question.status) == (True, "void")
    with pytest.raises(Conflict):
        approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    await harness.ended(run_pk)
    assert (times_run(files), Command.objects.count()) == (0, 0)


async def test_program_changed_after_request_does_not_run(harness: WorkerHarness, files, script, approver):
    run_pk, question = await asked(harness, exec_prompt(command=script))
    (files / "tool.sh").write_text("#!/bin/bash\necho worse >> log.txt\n")
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    run = await harness.ended(run_pk)
    question.refresh_from_db()
    assert (times_run(files), question.status, Command.objects.count()) == (0, "void", 0)
    assert "It is no longer the command that needed approval; changed: a program it would start." in last_result(run)


async def test_program_changed_just_before_start_does_not_run(harness: WorkerHarness, files, script, approver, monkeypatch):
    """The change comes between the transaction that starts the call and the start of the process."""
    run_pk, question = await asked(harness, exec_prompt(command=script))
    look = exec_tool.find_changes

    async def changed_just_before(plan):
        (files / "tool.sh").write_text("#!/bin/bash\necho worse >> log.txt\n")
        return await look(plan)

    monkeypatch.setattr(exec_tool, "find_changes", changed_just_before)
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    run = await harness.ended(run_pk)
    assert (times_run(files), Command.objects.count()) == (0, 0)
    assert last_result(run) == PROGRAM_CHANGED


async def test_script_changed_after_request_does_not_run(harness: WorkerHarness, files, script, approver):
    """Only the script changed: the interpreter and the line are the same."""
    run_pk, question = await asked(harness, exec_prompt(command="bash tool.sh hello"))
    assert [Path(each["path"]).name for each in question.plan["scripts"]] == ["tool.sh"]
    (files / "tool.sh").write_text("echo worse >> log.txt\n")
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    run = await harness.ended(run_pk)
    question.refresh_from_db()
    assert (times_run(files), question.status, Command.objects.count()) == (0, "void", 0)
    assert "It is no longer the command that needed approval; changed: the content of a script it would run." in last_result(run)


async def test_script_changed_just_before_start_does_not_run(harness: WorkerHarness, files, script, approver, monkeypatch):
    run_pk, question = await asked(harness, exec_prompt(command="bash tool.sh hello"))
    look = exec_tool.find_changes

    async def changed_just_before(plan):
        (files / "tool.sh").write_text("echo worse >> log.txt\n")
        return await look(plan)

    monkeypatch.setattr(exec_tool, "find_changes", changed_just_before)
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    run = await harness.ended(run_pk)
    assert (times_run(files), Command.objects.count()) == (0, 0)
    assert "since the command was allowed: the content of a script it would run." in last_result(run)


async def test_grant_for_a_command_covers_only_that_script_content(harness: WorkerHarness, files, script, approver):
    """If the grant covered any content, the agent could write anything into the script and have it run."""
    line = exec_prompt(command="bash tool.sh hello")
    run_pk, question = await asked(harness, line)
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-for", terms=GrantTerms("session", 900))
    await harness.ended(run_pk)
    await harness.answer(line)
    assert (times_run(files), Approval.objects.count()) == (2, 1)
    (files / "tool.sh").write_text("echo worse >> log.txt\n")
    _, again = await asked(harness, line)
    assert again.pk != question.pk
    assert times_run(files) == 2


async def test_unapproved_script_may_be_written_by_previous_call(harness: WorkerHarness, files, approver):
    for pattern in ("cp", "python3"):
        Grant.objects.create(scope="installation", entries=[{"pattern": pattern}], created_at=clock.now(), owner=approver)
    (files / "new.py").write_text("print('new')\n")
    both = parallel_exec_prompt({"command": "cp new.py old.py"}, {"command": "python3 old.py"})
    run = await harness.ended(harness.send(both))
    assert last_result(run).startswith("new\n[exit code 0")


async def test_request_for_script_changed_by_previous_call_is_cancelled(harness: WorkerHarness, files, script, approver):
    """If the request stayed open, an approver would decide about a script that has changed since."""
    Grant.objects.create(scope="installation", entries=[{"pattern": "cp"}], created_at=clock.now(), owner=approver)
    (files / "new.sh").write_text("echo ran >> log.txt\n")
    run = await harness.ended(harness.send(parallel_exec_prompt({"command": "cp new.sh tool.sh"}, {"command": "bash tool.sh"})))
    assert [call.status for call in calls_of(run)] == ["finished", "refused"]
    assert "; changed: the content of a script it would run." in last_result(run)
    untouched = parallel_exec_prompt({"command": "cp new.sh other.sh"}, {"command": "bash tool.sh"})
    run_pk, question = await asked(harness, untouched)
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    run = await harness.ended(run_pk)
    assert ([call.status for call in calls_of(run)], times_run(files)) == (["finished", "finished"], 1)


async def test_program_changed_during_sandbox_setup_does_not_run(harness: WorkerHarness, files, script, approver, monkeypatch):
    """The change is what another background command of the session could do."""
    run_pk, question = await asked(harness, exec_prompt(command=script))
    begin = commands.record_start

    def changed_behind_the_walls(*args, **more):
        (files / "tool.sh").write_text("#!/bin/bash\necho worse >> log.txt\n")
        return begin(*args, **more)

    monkeypatch.setattr(commands, "record_start", changed_behind_the_walls)
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    run = await harness.ended(run_pk)
    assert (times_run(files), Command.objects.get().reason) == (0, "it was not started")
    assert last_result(run) == PROGRAM_CHANGED


async def test_current_exec_rule_overrides_earlier_approval(harness: WorkerHarness, files, script, approver):
    run_pk, question = await asked(harness, exec_prompt(command=script))
    await harness.close()
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    set_exec_rule(security="deny")
    harness.open()
    run = await harness.ended(run_pk)
    question.refresh_from_db()
    assert (times_run(files), question.status) == (0, "void")
    assert last_result(run).startswith("exec_denied: The exec rule for installation disables commands.")


async def test_second_command_waits_while_first_has_finished(harness: WorkerHarness, files, script, approver):
    Grant.objects.create(scope="installation", entries=[{"pattern": "/usr/bin/touch"}], created_at=clock.now(), owner=approver)
    both = parallel_exec_prompt({"command": "touch first"}, {"command": script})
    run_pk, question = await asked(harness, both)
    assert [call.status for call in calls_of(run_pk)] == ["finished", "waiting"]
    assert ((files / "first").exists(), times_run(files)) == (True, 0)
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    run = await harness.ended(run_pk)
    assert [call.status for call in calls_of(run)] == ["finished", "finished"]
    assert (times_run(files), Command.objects.filter(run=run).count()) == (1, 2)


async def test_calls_after_a_waiting_command_wait_too(harness: WorkerHarness, files, script, approver):
    Grant.objects.create(scope="installation", entries=[{"pattern": "/usr/bin/touch"}], created_at=clock.now(), owner=approver)
    both = parallel_exec_prompt({"command": script}, {"command": "touch second"})
    run_pk, question = await asked(harness, both)
    assert not (files / "second").exists()
    approval_requests.resolve_approval(question.pk, by=approver, decision="deny")
    run = await harness.ended(run_pk)
    assert [call.status for call in calls_of(run)] == ["refused", "finished"]
    assert ((files / "second").exists(), times_run(files)) == (True, 0)


async def test_shell_input_requires_approval_like_a_command(harness: WorkerHarness, files, approver, eventually):
    """Without this, one harmless request, `bash`, would allow everything."""
    (files / "x").mkdir()
    run_pk, question = await asked(harness, exec_prompt(command="bash", background=True))
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    await harness.ended(run_pk)
    name = get_command(run_pk).name
    run_pk, question = await asked(harness, exec_prompt(tool="process", action="submit", name=name, data="rm -rf x"))
    assert (question.tool, question.plan["line"], question.plan["input_to"]) == (
        "process",
        "rm -rf x\n",
        str(command_of_name(name).pk),
    )
    assert question.shown["may"] == ["allow-once", "deny"]
    assert Reason.from_json(question.shown["reasons"][0]) == Reason("gate.input", name=name, line="bash")
    assert (files / "x").exists()
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    await harness.ended(run_pk)
    await eventually(lambda: not (files / "x").exists())
    (files / "x").mkdir()
    run_pk, question = await asked(harness, exec_prompt(tool="process", action="submit", name=name, data="rm -rf x"))
    assert question.status == "pending"  # running the same command again creates another request


def command_of_name(name: str) -> Command:
    return Command.objects.get(name=name)


async def test_read_and_kill_actions_need_no_approval(harness: WorkerHarness, approver, eventually):
    run_pk, question = await asked(harness, exec_prompt(command="bash", background=True, pty=True))
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    await harness.ended(run_pk)
    await eventually(lambda: get_command(run_pk).output_end)  # wait for the prompt: until then, Ctrl-C would end the program
    name = get_command(run_pk).name
    free = (
        {"action": "list"},
        {"action": "poll"},
        {"action": "log"},
        {"action": "send-keys", "keys": ["ctrl-c"]},
        {"action": "kill"},
    )
    run = await harness.answer(exec_prompt(*({"tool": "process", "name": name, **each} for each in free)))
    assert [call.status for call in calls_of(run)] == ["finished"] * 5
    assert Approval.objects.count() == 1


async def test_process_input_is_denied_when_approval_is_off(harness: WorkerHarness, approver):
    allow_all_commands()
    run = await harness.answer(exec_prompt(command="cat", background=True))
    set_exec_rule(security="allowlist", ask="off")
    run = await harness.answer(exec_prompt(tool="process", action="write", name=get_command(run).name, data="x"))
    assert (calls_of(run)[0].status, calls_of(run)[0].refused_by) == ("refused", "exec")


async def test_command_is_denied_when_approval_is_off(harness: WorkerHarness, files, script):
    ExecRule.objects.update(ask="off")
    run = await harness.answer(exec_prompt(command=script))
    assert (calls_of(run)[0].status, times_run(files)) == ("refused", 0)
