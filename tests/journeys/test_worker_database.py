"""The worker and its database: how few queries it makes, and what happens when the database fails."""

import asyncio
import threading

import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from clawsite.infra import db
from clawsite.infra.errors import Unavailable
from sessions_app.models import Run
from sessions_app.runs import lifecycle, queue
from tests.harness.worker import WorkerHarness, phases_of, token_text, transcript_of, view_of
from tools_app.sources.refresh import SourceRefresher

pytestmark = pytest.mark.dialect

READ_ONLY = {
    "sqlite": ("PRAGMA query_only = ON", "PRAGMA query_only = OFF"),
    "postgresql": ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE"),
}
NOT_COUNTED = ("BEGIN", "PRAGMA", "SET ", "SAVEPOINT", "RELEASE")
DELTAS = "WITH v(id, lease, n)"  # the beginning of hot_sql.append
NOTHING_TO_CLAIM = "SELECT name FROM"  # the beginning of queue.claim, and all it does when no run is queued


class Counter:
    """Collect the statements of all connections opened since, by transaction."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.transactions: list[list[str]] = []
        self._open = threading.local()

    def wrap(self, execute, sql, params, many, context):
        text = " ".join(sql.split())
        if not text.startswith(NOT_COUNTED):
            if context["connection"].in_atomic_block:
                self._open.statements = [*getattr(self._open, "statements", []), text]
            else:
                self.reads.append(text)
        return execute(sql, params, many, context)

    def committed(self) -> None:
        if statements := getattr(self._open, "statements", []):
            self.transactions.append(statements)
        self._open.statements = []


@pytest.fixture
def counter(harness, monkeypatch):
    counter, commit = Counter(), BaseDatabaseWrapper._commit

    def commit_and_count(self):
        commit(self)
        counter.committed()

    def connected(connection, **_):
        connection.execute_wrappers.append(counter.wrap)

    monkeypatch.setattr(BaseDatabaseWrapper, "_commit", commit_and_count)
    connection_created.connect(connected)
    yield counter
    connection_created.disconnect(connected)


async def test_run_without_tools_needs_few_statements_and_commits(harness: WorkerHarness, counter: Counter, settings, eventually):
    await harness.close()
    db.close()  # so that every connection is recorded
    settings.HEARTBEAT_SECONDS = settings.SWEEP_SECONDS = settings.POLL_SECONDS = 60.0  # only what the run itself needs
    settings.AUDIT_SEAL_SECONDS = 60.0
    worker = harness.open()
    await harness.answer("[[text=warm]]")
    await eventually(lambda: worker.host.get(SourceRefresher)._recorded is not None)  # checking for plugins is not part of a run
    await asyncio.sleep(2)  # neither is the first round of the worker's other chores
    counter.reads.clear()
    counter.transactions.clear()
    session = harness.session
    wanted = {"user": harness.user, "session": session, "run_id": "counted", "prompt": "[[tokens=20 delay_ms=5]]"}
    accepted = await db.write(lifecycle.accept_run, **wanted, key=str(session.id))
    run = await harness.ended(accepted.pk)
    assert run.status == "completed"
    written = [each for each in counter.transactions if len(each) > 1 or not each[0].startswith(NOTHING_TO_CLAIM)]
    steps = [statements for statements in written if not any(sql.startswith(DELTAS) for sql in statements)]
    everything = [*counter.reads, *(sql for statements in steps for sql in statements)]
    assert len(written) > len(steps), "no deltas were seen, so nothing was measured"
    assert len(steps) <= 5, steps
    assert len(everything) <= 25, "\n".join(everything)


@pytest.fixture
def read_only(database):
    """Toggle: every new connection of this process is read-only until it is toggled back."""
    state = {"on": False}

    def connected(connection, **_):
        with connection.cursor() as cursor:
            cursor.execute(READ_ONLY[connection.vendor][not state["on"]])

    def switch(on: bool) -> None:
        state["on"] = on
        db.close()  # the threads of infra.db open new connections
        connections["default"].close()

    connection_created.connect(connected)
    yield switch
    switch(False)
    connection_created.disconnect(connected)
    if connections["default"].vendor == "postgresql":
        connections["default"].close_pool()  # the pool still holds read-only connections


async def test_read_only_database_rejects_messages_with_an_error(harness: WorkerHarness, read_only):
    await harness.close()
    read_only(True)
    with pytest.raises(Unavailable, match="read-only"):
        await db.write(lifecycle.accept_run, user=harness.user, session=harness.session, run_id="k", prompt="hello")
    read_only(False)
    assert not Run.objects.exists()
    accepted = await db.write(lifecycle.accept_run, user=harness.user, session=harness.session, run_id="k", prompt="hello")
    assert accepted.created


async def test_run_continues_when_read_only_database_becomes_writable(harness: WorkerHarness, read_only, eventually, settings):
    await harness.close()
    settings.LEASE_SECONDS, settings.HEARTBEAT_SECONDS = 1.0, 0.1
    harness.open()
    run_pk = harness.send("[[tokens=100 delay_ms=10]]")
    await eventually(lambda: view_of(run_pk).open_text)
    read_only(True)
    await eventually(lambda: not harness.busy)
    assert Run.objects.get(pk=run_pk).status == "running"
    read_only(False)
    run = await harness.ended(run_pk)
    assert (run.status, transcript_of(run)[-1]) == ("completed", ("assistant", token_text(100)))
    assert phases_of(run) == ["accepted", "start", "rescued", "end"]


async def test_worker_reclaiming_its_own_run_keeps_it(harness: WorkerHarness, eventually, settings):
    """It stalled past its lease and resumes before another worker claims the run: the old attempt ends, the new one stays."""
    await harness.close()
    settings.LEASE_SECONDS, settings.HEARTBEAT_SECONDS = 1.0, 0.1
    worker = harness.open()
    run_pk = harness.send("[[tokens=100 delay_ms=20 tag=own]]")
    await eventually(lambda: view_of(run_pk).open_text)

    def lapse_and_rescue():
        Run.objects.filter(pk=run_pk).update(lease_until=1.0)
        return queue.recover_runs(worker.id, 1)

    worker.runners.start(await db.write(lapse_and_rescue, alone=True))  # as its sweep would, before its heartbeat can
    run = await harness.ended(run_pk)
    assert (run.status, run.rescues, transcript_of(run)[-1]) == ("completed", 1, ("assistant", token_text(100)))
    await harness.model.record(lambda record: record["tag"] == "own" and record.get("client_left"))
