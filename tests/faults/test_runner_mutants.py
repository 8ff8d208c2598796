"""Deliberate faults in the execution of runs: each breaks exactly its promise, and without it the same scenario breaks none."""

import asyncio
import threading
from collections import Counter

import pytest

from agents.deltas import DeltaWriter, OpenMessage
from agents.llm import catalog
from agents.runner import Runner
from clawsite.infra import db
from clawsite.infra.clock import boot_time
from sessions_app.events.journal import NewEvent
from sessions_app.models import Run
from sessions_app.runs import queue, tool_calls
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


MUTANTS = [
    ("R6", worker_is_suspended_in_tool, repeats_interrupted_calls),
    ("text", answer_is_cut_off, continues_broken_attempt),
    ("replay", tool_is_called, streams_less_than_it_stores),
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
    assert broken == {promise}
