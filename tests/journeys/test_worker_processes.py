"""Worker processes that are stopped, killed and suspended: another one continues, and a worker that resumes writes nothing."""

import pytest

from sessions_app.models import Event, Run, Worker
from sessions_app.runs import lifecycle
from tests.harness.worker import events_of, phases_of, token_text, transcript_of, view_of

pytestmark = pytest.mark.dialect

# A worker delayed for half a second on a busy machine must not be considered dead where that would count.
PATIENT = {"CLAWSITE_LEASE_SECONDS": "5"}


@pytest.fixture
def send(user, make_session):
    """Accept a message as the gateway would; workers of other processes find it by polling."""
    session = make_session(user)

    def accept(prompt: str, key: str = "k1") -> int:
        return lifecycle.accept_run(user=user, session=session, run_id=key, prompt=prompt).pk

    accept.session, accept.user = session, user
    return accept


@pytest.fixture
def ended(eventually):
    async def wait(run_pk: int) -> Run:
        return await eventually(lambda: Run.objects.filter(pk=run_pk, status__in=Run.ENDED).first(), seconds=40)

    return wait


async def test_terminating_worker_hands_over_its_runs(stack, send, ended, eventually):
    running = stack(workers=2, env=PATIENT)
    run_pk = send("[[tokens=20 hang_after=10 times=1]]")
    await eventually(lambda: view_of(run_pk).open_text == token_text(10))
    assert holder(running, run_pk).stop() == 0
    run = await ended(run_pk)
    assert (run.status, run.rescues, transcript_of(run)[-1]) == ("completed", 0, ("assistant", token_text(20)))
    assert phases_of(run) == ["accepted", "start", "rescued", "end"]
    assert Worker.objects.count() == 1


async def test_draining_worker_lets_short_runs_finish(stack, send, ended, eventually):
    running = stack(env=PATIENT)
    run_pk = send("[[tokens=30 delay_ms=10]]")
    await eventually(lambda: view_of(run_pk).open_text)
    assert running.workers[0].stop() == 0
    run = await ended(run_pk)
    assert (run.status, phases_of(run)) == ("completed", ["accepted", "start", "end"])


async def test_killed_worker_is_replaced_and_partial_reply_is_discarded(stack, send, ended, eventually):
    running = stack(workers=2, env=PATIENT)
    run_pk = send("[[tokens=20 hang_after=10 times=1]]")
    await eventually(lambda: view_of(run_pk).open_text == token_text(10))
    holder(running, run_pk).kill()
    run = await ended(run_pk)
    assert (run.status, run.rescues, transcript_of(run)[-1]) == ("completed", 1, ("assistant", token_text(20)))
    told = events_of(run)
    rescued = next(event.seq for event in told if event.data.get("phase") == "rescued")
    (void,) = [event for event in told if event.data.get("reset")]
    assert void.seq == rescued + 1
    assert void.data["attempt"] == 2
    assert [text for _, text in view_of(run).messages] == [token_text(20)]


async def test_frozen_worker_writes_nothing_after_waking_up(stack, send, ended, eventually):
    running = stack(workers=2, env=PATIENT)
    run_pk = send("[[tokens=200 delay_ms=10]]")
    await eventually(lambda: view_of(run_pk).open_text)
    frozen = holder(running, run_pk)
    running.freeze(frozen)
    run = await ended(run_pk)
    assert run.status == "completed"
    assert run.lease_token > 1
    before = list(Event.objects.filter(run=run).values_list("seq", "data"))
    beat = Worker.objects.get(pid=frozen.pid).heartbeat_at
    frozen.thaw()
    await eventually(lambda: Worker.objects.get(pid=frozen.pid).heartbeat_at > beat + 0.5)
    assert list(Event.objects.filter(run=run).values_list("seq", "data")) == before
    assert Run.objects.get(pk=run_pk).status == "completed"
    assert (await ended(send("[[text=again]]", "k2"))).status == "completed"


async def test_run_that_loses_three_workers_is_poisoned(stack, send, ended, eventually):
    running = stack(env=PATIENT)
    run_pk = send("[[tokens=5 hang_after=2]]")
    (worker,) = running.workers
    for rescues in range(3):
        await eventually(
            lambda rescues=rescues: Run.objects.get(pk=run_pk).rescues == rescues and view_of(run_pk).open_text == token_text(2)
        )
        worker.restart()
    run = await ended(run_pk)
    assert (run.status, run.reason, run.rescues) == ("error", "poisoned", 3)
    assert "died 3 times" in run.error
    assert (await ended(send("[[text=next]]", "k2"))).status == "completed"


async def test_abort_survives_death_of_its_worker(stack, send, ended, eventually):
    running = stack()
    run_pk = send("[[tokens=5 hang_after=2]]")
    await eventually(lambda: view_of(run_pk).open_text == token_text(2))
    (worker,) = running.workers
    running.freeze(worker)
    (asked,) = lifecycle.request_abort(user=send.user, session=send.session)
    assert asked.ended is False
    worker.restart()
    run = await ended(run_pk)
    assert (run.status, run.reason) == ("aborted", "rpc")


async def test_run_survives_restart_of_every_process(stack, user, eventually):
    running = stack(webs=2, env=PATIENT)
    key = "agent:main:restarts"
    async with running.client(user, n=0) as client:
        asked = {"message": "[[tokens=50 delay_ms=30]]", "sessionKey": key, "idempotencyKey": "k1"}
        assert (await client.request("agent", asked))["status"] == "accepted"
    run_pk = Run.objects.get(run_id="k1").pk
    await eventually(lambda: view_of(run_pk).open_text)
    for process in [*running.webs, *running.workers]:
        process.kill()
    for process in [*running.webs, *running.workers]:
        process.spawn()
    for process in [*running.webs, *running.workers]:
        await process.until_ready()
    async with running.client(user, n=1) as client:
        told = [event async for event in _until_the_end(client, key)]
        again = await client.request("agent", asked, expect_final=True)
    assert again["result"]["payloads"] == [{"text": token_text(50)}]
    rows = events_of(run_pk)
    assert [(event.seq, event.stream, event.data) for event in told] == [(event.seq, event.stream, event.data) for event in rows]


async def _until_the_end(client, key):
    async for event in client.follow(key):
        yield event
        if event.ends_run:
            return


def holder(running, run_pk: int):
    """Return the process that executes a run."""
    worker = Worker.objects.get(pk=Run.objects.get(pk=run_pk).worker)
    return next(process for process in running.workers if process.pid == worker.pid)
