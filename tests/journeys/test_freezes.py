"""Freezing active work: nothing is lost, nothing continues, and after it is resumed the answer is complete."""

import asyncio

import pytest

from agents import worker_tasks
from agents.models import Agent
from clawsite.infra import bus, db
from sessions_app.models import Run
from sessions_app.runs import freezes, lifecycle, queue, waiting
from tests.harness.plugins import sleep_plugin
from tests.harness.waits import park, waiting_for
from tests.harness.worker import WorkerHarness, calls_of, events_of, phases_of, token_text, transcript_of, view_of

pytestmark = pytest.mark.dialect


@pytest.fixture
def operator(make_user):
    return make_user("Operator", name="olga")


@pytest.fixture
def sleeps(database, tmp_path):
    with sleep_plugin(tmp_path) as sleeps:
        yield sleeps


async def stop(operator, scope: str = "all", subject: str = "", reason: str = "it deletes files"):
    return await db.write(freezes.freeze, scope, subject, reason=reason, by=operator, alone=True)


async def resume(operator, scope: str = "all", subject: str = ""):
    return await db.write(freezes.resume, scope, subject, reason="it was a misunderstanding", by=operator)


def stopped(run_pk: int) -> bool:
    return waiting_for(run_pk) == "frozen"


@pytest.mark.parametrize("hint", [True, False], ids=["told", "found by the poll"])
async def test_freeze_discards_partial_reply_and_resume_requests_it_again(
    harness: WorkerHarness, operator, eventually, monkeypatch, hint
):
    run_pk = harness.send("[[tokens=20 hang_after=5 times=1 tag=drop]]")
    await eventually(lambda: view_of(run_pk).open_text == token_text(5))
    with monkeypatch.context() as quiet:
        if not hint:
            quiet.setattr(bus, "publish", lambda message: None)
        await stop(operator)
        await eventually(lambda: stopped(run_pk))
    await harness.model.record(lambda record: record["tag"] == "drop" and record.get("client_left"))
    assert (view_of(run_pk).status, view_of(run_pk).open_text) == ("waiting", "")
    assert transcript_of(run_pk) == [("user", "[[tokens=20 hang_after=5 times=1 tag=drop]]")]
    await eventually(lambda: not harness.busy)
    await resume(operator)
    run = await harness.ended(run_pk)
    assert (run.status, transcript_of(run)[-1]) == ("completed", ("assistant", token_text(20)))
    assert phases_of(run) == ["accepted", "start", "waiting", "resume", "end"]
    assert [text for _, text in view_of(run).messages] == [token_text(20)]


async def test_freeze_kills_running_tool_call_without_repeating_it(harness: WorkerHarness, operator, sleeps, eventually):
    run_pk = harness.send(f"{sleeps.prompt} [[text=done]]")
    await eventually(lambda: sleeps.alive)
    await stop(operator)
    await eventually(lambda: stopped(run_pk))
    assert sleeps.alive == []
    (call,) = calls_of(run_pk)
    assert (call.status, call.result["details"]) == ("failed", {"code": "stopped"})
    told = "stopped by olga: it deletes files; what it did until then is not undone"
    assert transcript_of(run_pk)[-1] == ("toolResult", told)
    await resume(operator)
    run = await harness.ended(run_pk)
    assert (run.status, transcript_of(run)[-1]) == ("completed", ("assistant", "done"))
    assert len(sleeps.started) == 1
    assert len(calls_of(run)) == 1


async def test_calls_not_started_before_freeze_start_after_resume(harness: WorkerHarness, operator, sleeps, eventually):
    """Two calls of one turn: the first is running, the second was allowed and waits for it."""
    second = '[[tool=write args={"path":"second.txt","content":"x"} parallel=1]]'
    run_pk = harness.send(f"{sleeps.prompt} {second} [[text=done]]")
    await eventually(lambda: sleeps.alive)
    await stop(operator)
    await eventually(lambda: stopped(run_pk))
    assert [call.status for call in calls_of(run_pk)] == ["failed", "allowed"]
    await resume(operator)
    run = await harness.ended(run_pk)
    assert [(call.name, call.status) for call in calls_of(run)] == [("nap", "failed"), ("write", "finished")]
    assert transcript_of(run)[-1] == ("assistant", "done")


async def test_messages_during_freeze_are_accepted_and_queued(harness: WorkerHarness, operator):
    await stop(operator)
    run_pk = harness.send("[[text=hello]]")
    await asyncio.sleep(0.5)  # five polls
    assert Run.objects.get(pk=run_pk).status == "accepted"
    await resume(operator)
    assert (await harness.ended(run_pk)).status == "completed"


async def test_approval_during_freeze_takes_effect_after_resume(harness: WorkerHarness, operator, eventually):
    await harness.close()
    run_pk = harness.send("[[text=hello]]")
    (claimed,) = (await db.write(queue.claim_runs, "a worker that parks", 1, alone=True)).runs
    await db.write(park, claimed)
    harness.open()
    await stop(operator)
    waiting.make_ready([run_pk])  # as a decision does
    await asyncio.sleep(0.5)
    run = Run.objects.get(pk=run_pk)
    assert (run.status, waiting_for(run_pk), run.ready_at is not None) == ("waiting", "approval", True)
    await resume(operator)
    assert (await harness.ended(run_pk)).status == "completed"


@pytest.mark.parametrize("scope", ["agent", "run"])
async def test_freeze_of_agent_or_run_leaves_others_running(harness: WorkerHarness, operator, make_session, eventually, scope):
    Agent.objects.create(slug="other", name="Other")
    concerned = harness.send("[[tokens=9 hang_after=3 times=1 tag=one]]")
    other = make_session(harness.user, "agent:other:main" if scope == "agent" else "")
    await eventually(lambda: view_of(concerned).open_text == token_text(3))
    await stop(operator, scope, "main" if scope == "agent" else str(concerned))
    await eventually(lambda: stopped(concerned))
    assert (await harness.answer("[[text=me]]", session=other)).status == "completed"
    assert stopped(concerned)
    await resume(operator, scope, "main" if scope == "agent" else str(concerned))
    run = await harness.ended(concerned)
    assert (run.status, transcript_of(run)[-1]) == ("completed", ("assistant", token_text(9)))


@pytest.mark.parametrize("order", [("all", "agent"), ("agent", "all")], ids=["all first", "agent first"])
async def test_overlapping_freezes_must_both_be_resumed(harness: WorkerHarness, operator, eventually, order):
    subjects = {"all": "", "agent": "main"}
    run_pk = harness.send("[[tokens=9 hang_after=3 times=1 tag=two]]")
    await eventually(lambda: view_of(run_pk).open_text == token_text(3))
    for scope, subject in subjects.items():
        await stop(operator, scope, subject)
    await eventually(lambda: stopped(run_pk))
    await resume(operator, order[0], subjects[order[0]])
    await asyncio.sleep(0.5)
    assert stopped(run_pk)
    await resume(operator, order[1], subjects[order[1]])
    assert (await harness.ended(run_pk)).status == "completed"


async def test_freeze_resumed_before_parking_does_not_block_run(harness: WorkerHarness, operator, eventually):
    """Freezing and resuming are both committed before the worker parks the run because of the freeze."""
    run_pk = harness.send("[[tokens=9 hang_after=3 times=1 tag=short]]")
    await eventually(lambda: view_of(run_pk).open_text == token_text(3))
    await stop(operator)
    await resume(operator)
    for worker in harness._workers:
        for runner in worker.runners:
            runner.stop(Run.Status.WAITING, "stopped by olga: too late")
    run = await harness.ended(run_pk)
    assert (run.status, transcript_of(run)[-1]) == ("completed", ("assistant", token_text(9)))


async def test_abort_takes_precedence_over_freeze(harness: WorkerHarness, operator, eventually):
    run_pk = harness.send("[[tokens=9 hang_after=3 tag=both]]")
    await eventually(lambda: view_of(run_pk).open_text == token_text(3))
    (runner,) = [runner for worker in harness._workers for runner in worker.runners]
    await db.write(Run.objects.filter(pk=run_pk).update, abort_requested_at=1.0, abort_reason="rpc")
    runner.stop(Run.Status.WAITING, "stopped by olga: both at once")
    run = await harness.ended(run_pk)
    assert (run.status, run.reason) == ("aborted", "rpc")


async def test_aborting_frozen_run_ends_its_freeze(harness: WorkerHarness, operator, eventually):
    run_pk = harness.send("[[tokens=9 hang_after=3 tag=end]]")
    await eventually(lambda: view_of(run_pk).open_text == token_text(3))
    await stop(operator, "run", str(run_pk))
    await eventually(lambda: stopped(run_pk))
    (asked,) = lifecycle.request_abort(user=harness.user, session=harness.session)
    assert asked.ended
    await eventually(lambda: freezes.list_active() == [])
    assert Run.objects.get(pk=run_pk).status == "aborted"


async def test_events_match_rows(harness: WorkerHarness, operator, sleeps, eventually):
    run_pk = harness.send(f"{sleeps.prompt} [[tokens=5]]")
    await eventually(lambda: sleeps.alive)
    await stop(operator)
    await eventually(lambda: stopped(run_pk))
    run, view = Run.objects.get(pk=run_pk), view_of(run_pk)
    assert (view.status, view.reason, view.seq) == (run.status, waiting_for(run_pk), run.seq)
    assert {call_id: tool.status for call_id, tool in view.tools.items()} == {call.call_id: call.status for call in calls_of(run)}
    assert [event.seq for event in events_of(run)] == list(range(1, run.seq + 1))


async def started_after_an_unheard_stop(harness: WorkerHarness, operator, monkeypatch) -> Run:
    """The freeze is committed while the model generates a call, and the worker is not notified."""

    async def deaf(pool) -> None:
        pass

    monkeypatch.setattr(worker_tasks, "park_frozen_runs", deaf)
    await harness.close()
    harness.open()
    run_pk = harness.send('[[tool=write args={"path":"unheard.txt","content":"x"} slow_first=1]] [[text=done]]')
    await harness.until(run_pk, "running")
    await stop(operator)
    return await harness.until(run_pk, "waiting", "completed")


async def test_no_call_starts_after_freeze_is_committed(harness: WorkerHarness, operator, monkeypatch):
    run = await started_after_an_unheard_stop(harness, operator, monkeypatch)
    assert (run.status, waiting_for(run.pk), [call.status for call in calls_of(run)]) == ("waiting", "frozen", ["allowed"])
    await resume(operator)
    run = await harness.ended(run.pk)
    assert (run.status, [call.status for call in calls_of(run)]) == ("completed", ["finished"])


async def test_missing_freeze_check_at_call_start_is_detected(harness: WorkerHarness, operator, monkeypatch):
    """Deliberate fault: of all checks, this is the one that keeps a call from starting."""
    monkeypatch.setattr(freezes, "check_not_frozen", lambda agent, run_pk: None)
    run = await started_after_an_unheard_stop(harness, operator, monkeypatch)
    assert (run.status, [call.status for call in calls_of(run)]) == ("completed", ["finished"])
