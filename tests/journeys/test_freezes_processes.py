"""Freezes and dying workers: before the worker is notified, after it, and in the middle of a tool."""

import pytest

from sessions_app.models import Run
from sessions_app.runs import freezes, lifecycle
from tests.harness.waits import waiting_for
from tests.harness.worker import phases_of, token_text, transcript_of, view_of
from tests.journeys.test_worker_processes import PATIENT, holder

pytestmark = pytest.mark.dialect

PROMPT = "[[tokens=20 hang_after=10 times=1]]"


@pytest.fixture
def send(user, make_session):
    session = make_session(user)
    return lambda prompt: lifecycle.accept_run(user=user, session=session, run_id="k1", prompt=prompt).pk


def stop() -> None:
    freezes.freeze("all", reason="it deletes files", by=None, by_name="host")


def resume() -> None:
    freezes.resume("all", reason="all is well", by=None, by_name="host")


def stopped(run_pk: int) -> bool:
    return waiting_for(run_pk) == "frozen"


async def test_worker_death_does_not_affect_frozen_run(stack, send, eventually):
    running = stack(workers=1, env=PATIENT)
    run_pk = send(PROMPT)
    await eventually(lambda: view_of(run_pk).open_text == token_text(10))
    stop()
    await eventually(lambda: stopped(run_pk))
    running.workers[0].kill()
    running.workers[0].spawn()
    running.workers[0].wait_ready()
    assert stopped(run_pk)
    resume()
    run = await eventually(lambda: Run.objects.filter(pk=run_pk, status__in=Run.ENDED).first(), seconds=40)
    assert (run.status, run.rescues, transcript_of(run)[-1]) == ("completed", 0, ("assistant", token_text(20)))
    assert phases_of(run) == ["accepted", "start", "waiting", "resume", "end"]


async def test_worker_death_before_seeing_freeze_leaves_run_waiting(stack, send, eventually):
    running = stack(workers=2, env=PATIENT)
    run_pk = send(PROMPT)
    await eventually(lambda: view_of(run_pk).open_text == token_text(10))
    deaf = holder(running, run_pk)
    running.freeze(deaf)
    stop()
    assert Run.objects.get(pk=run_pk).status == "running"
    deaf.kill()
    await eventually(lambda: stopped(run_pk))
    resume()
    run = await eventually(lambda: Run.objects.filter(pk=run_pk, status__in=Run.ENDED).first(), seconds=40)
    assert (run.status, run.rescues, transcript_of(run)[-1]) == ("completed", 1, ("assistant", token_text(20)))
    assert phases_of(run) == ["accepted", "start", "rescued", "waiting", "resume", "end"]
    assert [text for _, text in view_of(run).messages] == [token_text(20)]
