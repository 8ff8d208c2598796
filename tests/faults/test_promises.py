"""Promises that rounds test too rarely or with too little load: many clients, a socket that never reads, real timeouts."""

import asyncio

import httpx
import psutil
import pytest
from django.db import connection

from clawsite.infra import db
from sessions_app.models import Event, Run, Worker
from sessions_app.runs import lifecycle, queue
from tests.faults.clients import EventRecorder
from tests.faults.connection import RawConnection, RequestFailed
from tests.faults.history import WatchedStream
from tests.faults.scenarios import delta
from tests.harness.worker import phases_of, token_text, transcript_of, view_of

pytestmark = pytest.mark.dialect

REAL_TIMES = {
    "CLAWSITE_LEASE_SECONDS": "20",
    "CLAWSITE_HEARTBEAT_SECONDS": "5",
    "CLAWSITE_SWEEP_SECONDS": "5",
    "CLAWSITE_POLL_SECONDS": "1",
    "CLAWSITE_DRAIN_SECONDS": "10",
}
PIECE = "x" * 8_000
DEAF = 5
FLOOD = 1_500  # pieces: 12 MB, several times the capacity of a socket's queue and the system's buffers
MOST_FOR_A_DEAF_SOCKET = 2 << 20


async def test_hundred_identical_requests_to_two_processes_start_one_run(stack, user):
    running = stack(webs=2)
    token = running.api_token(user)
    lines = [await RawConnection.open(running.ws_url(n % 2), token) for n in range(10)]
    request = {"message": "[[tokens=3]]", "sessionKey": "agent:main:equal", "idempotencyKey": "k1"}
    answers = await asyncio.gather(*(lines[n % 10].request("agent", request) for n in range(100)))
    assert {answer["runId"] for answer in answers} == {"k1"}
    assert len({answer["acceptedAt"] for answer in answers if answer["status"] == "accepted"}) == 1
    assert Run.objects.filter(owner=user).count() == 1
    with pytest.raises(RequestFailed, match="CONFLICT"):
        await lines[0].request("agent", {**request, "message": "something else"})
    for line in lines:
        await line.close()


async def test_sockets_that_never_read_are_closed_cheaply(stack, user, make_session, eventually):
    running = stack(workers=0)
    session, token = make_session(user), running.api_token(user)
    web = psutil.Process(running.webs[0].pid)
    async with httpx.AsyncClient() as client:
        await client.get(f"{running.url}/api/sessions")  # loads REST (14 MB) now instead of a second after the start
    reader = EventRecorder(WatchedStream("reads", session.key, user.pk, 0))
    line = await RawConnection.open(running.ws_url(), token, on_event=reader.record)
    await line.request("sessions.messages.subscribe", {"key": session.key, "fromStateVersion": 0}, on_response=reader.begin)
    accepted = await db.write(lifecycle.accept_run, user=user, session=session, run_id="k1", prompt="hello")
    (claimed,) = (await db.write(queue.claim_runs, "test", 1, alone=True)).runs
    await _flood(claimed, 100, 0)  # so that the process has allocated the memory it needs for this
    await eventually(lambda: reader.last == 102)
    deaf = [await RawConnection.open(running.ws_url(), token, buffer=4096) for _ in range(DEAF)]
    for each in deaf:
        await each.request("sessions.messages.subscribe", {"key": session.key, "fromStateVersion": 102})
        each.pause()
    before, most = web.memory_full_info().uss, 0  # the process's own memory, without mapped pages of the SQLite file
    for begin in range(100, FLOOD, 100):
        await _flood(claimed, 100, begin)
        await eventually(lambda begin=begin: reader.last == begin + 102, seconds=60)
        most = max(most, web.memory_full_info().uss - before)
    assert most < DEAF * MOST_FOR_A_DEAF_SOCKET
    for each in deaf:
        each.resume()
        await asyncio.wait_for(each.ended.wait(), 20)
        assert each.close_code == 1008
        assert each.close_reason.startswith("slow consumer, last seq ")
    assert [payload["cursor"] for payload in reader._watched.events] == list(range(1, FLOOD + 3))
    assert not line.ended.is_set()
    assert accepted.created
    await line.close()


async def _flood(claimed, count: int, begin: int) -> None:
    pieces = [delta("m1", PIECE, (begin + n) * len(PIECE), "thinking") for n in range(count)]
    await db.write(queue.append_events, [(claimed, pieces)], alone=True)


async def test_runs_are_taken_over_with_production_timeouts(stack, user, make_session, eventually):
    """With the default timeouts: one worker is killed, one is suspended, and a third recovers both runs."""
    running = stack(workers=3, env=REAL_TIMES)
    held = {}
    while len(held) < 2:
        # Each run is held by a different worker: idle workers claim at random.
        session = make_session(user)
        run_pk = lifecycle.accept_run(
            user=user, session=session, run_id=str(session.id), prompt=f"[[tokens=20 hang_after=5 times=1 tag={session.id}]]"
        ).pk
        await eventually(lambda run_pk=run_pk: view_of(run_pk).open_text == token_text(5))
        worker = Worker.objects.get(pk=Run.objects.get(pk=run_pk).worker)
        process = next(process for process in running.workers if process.pid == worker.pid)
        if process in held:
            lifecycle.request_abort(user=user, session=session)
        else:
            held[process] = run_pk
    (killed, first), (frozen, second) = held.items()
    killed.kill()
    running.freeze(frozen)
    # 5 s to detect a dead worker, 20 + 5 s for an unresponsive one; the rest is for a busy machine.
    run = await eventually(lambda: Run.objects.filter(pk=first, status="completed").first(), seconds=60)
    assert phases_of(run) == ["accepted", "start", "rescued", "end"]
    assert Run.objects.get(pk=second).status == "running"
    run = await eventually(lambda: Run.objects.filter(pk=second, status="completed").first(), seconds=90)
    assert transcript_of(run)[-1] == ("assistant", token_text(20))
    before = Event.objects.filter(run=run).count()
    beat = Worker.objects.get(pid=frozen.pid).heartbeat_at
    frozen.thaw()
    await eventually(lambda: Worker.objects.get(pid=frozen.pid).heartbeat_at > beat)
    assert Event.objects.filter(run=run).count() == before


async def test_worker_frozen_in_transaction_blocks_others_only_briefly(stack, user, make_session, eventually):
    """PostgreSQL ends the frozen worker's transaction after some seconds. On SQLite the others wait until the worker continues."""
    # Long timeouts, so that a slow worker on a busy machine is not considered dead: that would count as a recovery and poison the
    # run.
    running = stack(workers=2, launcher=("-m", "tests.faults.faulty_process"), env={"CLAWSITE_LEASE_SECONDS": "3"})
    session = make_session(user)
    run_pk = lifecycle.accept_run(user=user, session=session, run_id="k1", prompt="[[tokens=50 delay_ms=20]]").pk
    await eventually(lambda: view_of(run_pk).open_text)
    worker = Worker.objects.get(pk=Run.objects.get(pk=run_pk).worker)
    frozen = next(process for process in running.workers if process.pid == worker.pid)
    frozen.instruct(freeze=2)
    await eventually(lambda: psutil.Process(frozen.pid).status() == psutil.STATUS_STOPPED)
    if connection.vendor == "sqlite":
        frozen.thaw()
    run = await eventually(lambda: Run.objects.filter(pk=run_pk, status="completed").first(), seconds=40)
    assert transcript_of(run)[-1] == ("assistant", token_text(50))
    frozen.thaw()
