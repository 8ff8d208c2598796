"""Deliberate faults in running and approving commands: each breaks exactly its promise, and without it none is broken."""

import itertools
import os
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agents.context.workspace import ensure_workspace
from agents.models import Agent
from clawsite.accounts.models import User
from clawsite.infra.errors import ClawError
from clawsite.infra.process.identity import identity_of
from sessions_app.models import Session
from sessions_app.runs import lifecycle, tool_calls, workers
from tests.harness.commands import allow_all_commands, exec_prompt, find_processes, require_approval, unique_sleep
from tests.harness.worker import WorkerHarness, transcript_of
from tools_app.approvals import approvers, command_decision
from tools_app.approvals import requests as approval_requests
from tools_app.builtin import exec as exec_tool
from tools_app.exec import planning
from tools_app.exec.environment import build_environment
from tools_app.exec.plan import ExecPlan
from tools_app.exec.processes import commands, keeper, spawn
from tools_app.models import Approval, Command

_numbers = itertools.count(1)


@dataclass
class Telling:
    """One run of a scenario, with a separate session and program, and its outcome."""

    harness: WorkerHarness
    session: Session
    approver: Any
    eventually: Any

    def __post_init__(self) -> None:
        self.number = next(_numbers)
        self.home: Path = ensure_workspace(Agent.objects.get(slug="main"), self.harness.user.pk).resolve()
        self.program = self.home / f"tool-{self.number}.sh"
        self.program.write_text(f"#!/bin/bash\necho ran >> log-{self.number}\n")
        self.program.chmod(0o755)

    @property
    def times_run(self) -> int:
        log = self.home / f"log-{self.number}"
        return len(log.read_text().split()) if log.exists() else 0

    def send(self, command: str = "", **more: Any) -> int:
        prompt = exec_prompt(command=command or f"./{self.program.name}", **more)
        return self.harness.send(prompt, session=self.session, run_id=f"m{next(_numbers)}")

    async def asked(self) -> tuple[int, Approval]:
        require_approval()
        run_pk = self.send()
        await self.harness.until(run_pk, "waiting")
        return run_pk, Approval.objects.get(run=run_pk)

    def answer(self, question: Approval, decision: str = "allow-once") -> bool:
        try:
            approval_requests.resolve_approval(question.pk, by=self.approver, decision=decision)
        except ClawError:
            return False
        return True


async def worker_dies_during_command(it: Telling) -> set[str]:
    allow_all_commands()
    log = f"log-{it.number}"
    run_pk = it.send(f"echo ran >> {log}; [ $(wc -l < {log}) -gt 1 ] || sleep 600")
    await it.eventually(lambda: it.times_run == 1)
    await it.harness.close()
    it.harness.open()
    await it.harness.ended(run_pk)
    return {"R6"} if it.times_run > 1 else set()


async def suspended_worker_holds_command(it: Telling) -> set[str]:
    """The command's process is running, but its worker has sent no heartbeat for longer than a lease."""
    allow_all_commands()
    mark = unique_sleep()
    done = it.send("true")
    await it.harness.ended(done)
    plan = replace(ExecPlan.from_json(Command.objects.get(run=done).plan), line=f"sleep {mark}", call="frozen")
    sandbox = keeper.sandbox_from_plan(plan)
    env = keeper.build_environment(sandbox.home)
    async with await spawn.start_process(spawn.SpawnRequest(plan.line, Path(plan.cwd), env, sandbox, 600)) as running:
        await it.eventually(lambda: find_processes(mark))
        row = commands.record_start(uuid.uuid4(), plan, worker="frozen", process=identity_of(running.pid))
        await it.eventually(lambda: Command.objects.get(pk=row.pk).status == "lost")
        return {"R7"} if find_processes(mark) else set()


async def pid_of_dead_process_is_reused(it: Telling) -> set[str]:
    """PIDs are reused: ending what a lost worker left must not end an unrelated process."""
    allow_all_commands()
    mark = unique_sleep()
    done = it.send("true")
    await it.harness.ended(done)
    plan = replace(ExecPlan.from_json(Command.objects.get(run=done).plan), line=f"sleep {mark}", call="frozen")
    sandbox = keeper.sandbox_from_plan(plan)
    env = keeper.build_environment(sandbox.home)
    async with await spawn.start_process(spawn.SpawnRequest(plan.line, Path(plan.cwd), env, sandbox, 600)) as running:
        await it.eventually(lambda: find_processes(mark))
        earlier = replace(identity_of(running.pid), started="1")
        row = commands.record_start(uuid.uuid4(), plan, worker="gone", process=earlier)
        await it.eventually(lambda: Command.objects.get(pk=row.pk).status == "lost")
        return set() if find_processes(mark) else {"stranger"}


async def workers_restart_with_open_request(it: Telling) -> set[str]:
    run_pk, question = await it.asked()
    await it.harness.close()
    it.harness.open()
    if not it.answer(question):
        return {"R14"}
    await it.harness.ended(run_pk)
    return set() if it.times_run == 1 else {"R14"}


async def two_approvers_decide(it: Telling) -> set[str]:
    run_pk, question = await it.asked()
    await it.harness.close()
    said = [it.answer(question, "deny"), it.answer(question, "allow-once")]
    it.harness.open()
    await it.harness.ended(run_pk)
    return set() if said == [True, False] and it.times_run == 0 else {"R15"}


async def decision_is_used(it: Telling) -> set[str]:
    run_pk, question = await it.asked()
    it.answer(question)
    await it.harness.ended(run_pk)
    again = approval_requests.use_approval(run_pk, question.call_id, question.plan_hash)
    question.refresh_from_db()
    return set() if (question.status, again, it.times_run) == ("used", None, 1) else {"R15"}


async def run_is_stopped_before_decision(it: Telling) -> set[str]:
    run_pk, question = await it.asked()
    lifecycle.request_abort(user=it.harness.user, session=it.session)
    late = it.answer(question)
    await it.harness.ended(run_pk)
    return {"R16"} if late or it.times_run else set()


async def program_changes_after_decision(it: Telling) -> set[str]:
    run_pk, question = await it.asked()
    await it.harness.close()
    it.answer(question)
    it.program.write_text(it.program.read_text() + "echo and more\n")
    it.harness.open()
    await it.harness.ended(run_pk)
    return {"L1"} if it.times_run else set()


async def approver_is_disabled_after_decision(it: Telling) -> set[str]:
    """Everything is frozen, the account is disabled, and everything is resumed."""
    run_pk, question = await it.asked()
    await it.harness.close()
    it.answer(question)
    User.objects.filter(pk=it.approver.pk).update(is_active=False)
    it.harness.open()
    try:
        await it.eventually(lambda: it.times_run or Approval.objects.filter(run=run_pk, status="pending").exists())
        await it.harness.until(run_pk, "completed" if it.times_run else "waiting")
    finally:
        User.objects.filter(pk=it.approver.pk).update(is_active=True)
    lifecycle.request_abort(user=it.harness.user, session=it.session)
    await it.harness.ended(run_pk)
    return {"L11"} if it.times_run else set()


async def command_prints_its_environment(it: Telling) -> set[str]:
    """The worker's environment has a variable that no blocklist knows."""
    allow_all_commands()
    os.environ["ACME_TELEPORTER"] = "only-the-server-knows"
    try:
        run_pk = it.send("env")
        await it.harness.ended(run_pk)
    finally:
        del os.environ["ACME_TELEPORTER"]
    told = [text for role, text in transcript_of(run_pk) if role == "toolResult"][-1]
    assert "HOME=" in told, told
    return {"L7"} if "only-the-server-knows" in told else set()


async def program_changes_just_before_start(it: Telling) -> set[str]:
    """The program changes after the transaction that starts the call and before its process begins."""
    run_pk, question = await it.asked()
    look = exec_tool.find_changes

    async def changed_just_before(plan: ExecPlan) -> str:
        it.program.write_text(it.program.read_text() + "echo and more\n")
        return await look(plan)

    with pytest.MonkeyPatch.context() as meanwhile:
        meanwhile.setattr(exec_tool, "find_changes", changed_just_before)
        it.answer(question)
        await it.harness.ended(run_pk)
    return {"L8"} if it.times_run else set()


async def program_changes_during_sandbox_setup(it: Telling) -> set[str]:
    run_pk, question = await it.asked()
    begin = commands.record_start

    def changed_behind_the_walls(*args: Any, **more: Any) -> Any:
        it.program.write_text(it.program.read_text() + "echo and more\n")
        return begin(*args, **more)

    with pytest.MonkeyPatch.context() as meanwhile:
        meanwhile.setattr(commands, "record_start", changed_behind_the_walls)
        it.answer(question)
        await it.harness.ended(run_pk)
    return {"L8"} if it.times_run else set()


def repeats_interrupted_calls(monkeypatch) -> None:
    """Run interrupted calls again, and skip the command row: its unique constraint would prevent this."""
    begin = commands.record_start
    monkeypatch.setattr(tool_calls, "interrupt_started", lambda claimed: None)
    monkeypatch.setattr(
        commands,
        "record_start",
        lambda id, plan, **more: begin(id, replace(plan, call=f"{plan.call}-{uuid.uuid4().hex[:6]}"), **more),
    )


def assumes_process_is_gone(monkeypatch) -> None:
    monkeypatch.setattr(keeper, "end_process", lambda process, *, guarded: True)


def checks_pid_only(monkeypatch) -> None:
    end = keeper.end_process
    monkeypatch.setattr(keeper, "end_process", lambda process, *, guarded: end(identity_of(process.pid), guarded=guarded))


def drops_requests_on_exit(monkeypatch) -> None:
    drain = workers.mark_draining

    def forgetful(worker: str) -> None:
        Approval.objects.filter(status="pending").update(status="void")
        drain(worker)

    monkeypatch.setattr(workers, "mark_draining", forgetful)


def lets_last_decision_win(monkeypatch) -> None:
    every = list(Approval.Status)
    monkeypatch.setattr(Approval, "ENTERED_FROM", dict.fromkeys(every, every))
    monkeypatch.setattr(approval_requests, "_check_run_active", lambda approval: approval.refresh_from_db())


def any_decision_of_the_call(run_pk: int, call_id: str, plan_hash: str) -> Approval:
    return Approval.objects.get(run_id=run_pk, call_id=call_id)


def does_not_use_up_decisions(monkeypatch) -> None:
    monkeypatch.setattr(approval_requests, "use_approval", any_decision_of_the_call)


def leaves_requests_of_stopped_runs_open(monkeypatch) -> None:
    monkeypatch.setattr(approval_requests, "void_for_run", lambda run_pk, reason: None)
    monkeypatch.setattr(approval_requests, "_check_run_active", lambda approval: approval.refresh_from_db())


def does_not_compare_hashes(monkeypatch) -> None:
    monkeypatch.setattr(
        command_decision,
        "_apply_approval",
        lambda answer, planned, *_: command_decision.Supervision("allow", plan=planned.plan, approval=str(answer.pk)),
    )
    monkeypatch.setattr(approval_requests, "use_approval", any_decision_of_the_call)


def never_rechecks_decisions(monkeypatch) -> None:
    monkeypatch.setattr(approvers, "why_approval_lapsed", lambda answer, rules: None)


def filters_server_environment_by_blocklist(monkeypatch) -> None:
    def built(home: Path, **more: Any) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "OPENAI_API_KEY")}
        return kept | build_environment(home, **more)

    for module in (planning, keeper):
        monkeypatch.setattr(module, "build_environment", built)


def checks_programs_once(monkeypatch) -> None:
    async def nothing(plan: ExecPlan) -> None:
        return None

    for module in (exec_tool, keeper):
        monkeypatch.setattr(module, "find_changes", nothing)


def checks_programs_before_sandbox_only(monkeypatch) -> None:
    async def nothing(plan: ExecPlan) -> None:
        return None

    monkeypatch.setattr(keeper, "find_changes", nothing)


MUTANTS = [
    ("R6", worker_dies_during_command, repeats_interrupted_calls),
    ("R7", suspended_worker_holds_command, assumes_process_is_gone),
    ("stranger", pid_of_dead_process_is_reused, checks_pid_only),
    ("R14", workers_restart_with_open_request, drops_requests_on_exit),
    ("R15", two_approvers_decide, lets_last_decision_win),
    ("R15", decision_is_used, does_not_use_up_decisions),
    ("R16", run_is_stopped_before_decision, leaves_requests_of_stopped_runs_open),
    ("L1", program_changes_after_decision, does_not_compare_hashes),
    ("L11", approver_is_disabled_after_decision, never_rechecks_decisions),
    ("L7", command_prints_its_environment, filters_server_environment_by_blocklist),
    ("L8", program_changes_just_before_start, checks_programs_once),
    ("L8", program_changes_during_sandbox_setup, checks_programs_before_sandbox_only),
]


@pytest.mark.parametrize(("promise", "scenario", "mutate"), MUTANTS, ids=[mutate.__name__ for _, _, mutate in MUTANTS])
async def test_exec_mutation_violates_its_invariant(
    promise, scenario, mutate, harness: WorkerHarness, make_session, make_user, eventually, monkeypatch
):
    approver = make_user("Approver")

    def telling() -> Telling:
        return Telling(harness, make_session(harness.user), approver, eventually)

    assert await scenario(telling()) == set()
    with monkeypatch.context() as patched:
        mutate(patched)
        broken = await scenario(telling())
    assert broken == {promise}
