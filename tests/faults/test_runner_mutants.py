"""Deliberate faults in the execution of runs: each breaks exactly its promise, and without it the same scenario breaks none."""

import asyncio
import json
import threading
from collections import Counter

import pytest

from agents.deltas import DeltaWriter, OpenMessage
from agents.llm import catalog
from agents.runner import Runner
from clawsite.infra import db
from clawsite.infra.clock import boot_time
from sessions_app.events.journal import NewEvent
from sessions_app.models import Run, RunWait, Session
from sessions_app.runs import hot_sql, lifecycle, queue, tool_calls, waiting
from sessions_app.sessions.service import ensure_session
from tests.faults import database_rows as stored
from tests.faults.checker import find_violations
from tests.faults.history import History
from tests.harness.worker import WorkerHarness
from tools_app.builtin.files.workspace import Workspace

WRITE = '[[tool=write args={"path":"%s","content":"x"}]] [[tokens=3]]'


class Writes:
    """Counts file writes; those of one path are blocked until released."""

    def __init__(self, monkeypatch) -> None:
        self.done: Counter[str] = Counter()
        self.held = ""
        self.let_go = threading.Event()
        write = Workspace.write

        def counted(workspace, path, *args, **kwargs):
            self.done[path] += 1
            if path == self.held and self.done[path] == 1:
                self.let_go.wait(20)
            return write(workspace, path, *args, **kwargs)

        monkeypatch.setattr(Workspace, "write", counted)


def keeps_working(claimed) -> "asyncio.Task[None]":
    runner = Runner(claimed, DeltaWriter())
    runner.extend_lease(boot_time() + 60)
    return runner.start()


async def worker_is_suspended_in_tool(harness: WorkerHarness, writes: Writes, eventually, session) -> None:
    await harness.close()
    writes.held, writes.let_go = session.key, threading.Event()
    run_pk = harness.send(WRITE % session.key, session=session)
    (claimed,) = (await db.write(queue.claim_runs, "first", 1, alone=True)).runs
    frozen = keeps_working(claimed)
    await eventually(lambda: writes.done[session.key] == 1)
    await db.write(Run.objects.filter(pk=run_pk).update, lease_until=1.0)
    (rescued,) = await db.write(queue.recover_runs, "second", 1, alone=True)
    await keeps_working(rescued)
    writes.let_go.set()
    await frozen
    await catalog.close_providers()


async def answer_is_cut_off(harness: WorkerHarness, writes: Writes, eventually, session) -> None:
    await harness.answer(f"[[tokens=9 delay_ms=30 cut_after=6 times=1 tag={session.id}]]", session=session)


async def tool_is_called(harness: WorkerHarness, writes: Writes, eventually, session) -> None:
    await harness.answer(WRITE % session.key, session=session)


def send_to_other_session(harness: WorkerHarness, session, message: str) -> tuple[int, Session]:
    """Start a run whose agent waits for the agent of another session."""
    other = ensure_session(harness.user, f"{session.key}-other")
    arguments = json.dumps({"session_key": other.key, "message": message})
    return harness.send(f"[[tool=sessions_send args={arguments}]]", session=session), other


async def other_session_answers(harness: WorkerHarness, writes: Writes, eventually, session) -> None:
    run_pk, other = send_to_other_session(harness, session, "[[text=pong]]")
    await eventually(lambda: Run.objects.filter(session=other, status="completed").exists())

    def ended_or_stuck() -> bool:
        waits_for_nothing = not RunWait.objects.exists()  # read first: a run becomes ready when its last wait goes
        run = Run.objects.get(pk=run_pk)
        return run.status in Run.ENDED or (waits_for_nothing and run.status == "waiting" and run.ready_at is None)

    await eventually(ended_or_stuck)


async def sender_is_stopped_while_it_waits(harness: WorkerHarness, writes: Writes, eventually, session) -> None:
    run_pk, _ = send_to_other_session(harness, session, "[[tokens=5 hang_after=2]]")
    await harness.until(run_pk, "waiting")
    await db.write(lifecycle.request_abort, user=harness.user, session=session, alone=True)
    await harness.ended(run_pk)


def repeats_interrupted_calls(monkeypatch):
    monkeypatch.setattr(tool_calls, "interrupt_started", lambda claimed: None)


def continues_broken_attempt(monkeypatch):
    begin = OpenMessage.begin

    def keep(self, message_id, attempt):
        told = self.published
        begin(self, message_id, attempt)
        if attempt > 1:
            self.published = told

    monkeypatch.setattr(OpenMessage, "begin", keep)


def streams_less_than_it_stores(monkeypatch):
    result_event = tool_calls._build_result_event

    def shortened(*args):
        event = result_event(*args)
        return NewEvent(event.stream, {**event.data, "result": {"content": [], "details": {}}})

    monkeypatch.setattr(tool_calls, "_build_result_event", shortened)


def parks_without_waits(monkeypatch):
    monkeypatch.setattr(waiting, "add_waits", lambda run_pk, waits: None)


def ends_and_still_waits(monkeypatch):
    monkeypatch.setattr(hot_sql, "_close_waits", lambda run_pk: None)


MUTANTS = [
    ("R6", worker_is_suspended_in_tool, repeats_interrupted_calls),
    ("text", answer_is_cut_off, continues_broken_attempt),
    ("replay", tool_is_called, streams_less_than_it_stores),
    ("R5 waits", other_session_answers, parks_without_waits),
    ("waits", sender_is_stopped_while_it_waits, ends_and_still_waits),
]


@pytest.mark.parametrize(("promise", "scenario", "mutate"), MUTANTS, ids=[mutate.__name__ for _, _, mutate in MUTANTS])
async def test_runner_mutation_violates_its_invariant(
    promise, scenario, mutate, harness: WorkerHarness, make_session, eventually, monkeypatch
):
    writes = Writes(monkeypatch)

    async def promises_broken() -> set[str]:
        session = make_session(harness.user)
        await scenario(harness, writes, eventually, session)
        history = History(seed=0, executed={session.key: writes.done[session.key]})
        return {violation.promise for violation in find_violations(stored.read_rows([session.key]), history)}

    assert await promises_broken() == set()
    with monkeypatch.context() as patched:
        mutate(patched)
        broken = await promises_broken()
    assert broken == set(promise.split())
