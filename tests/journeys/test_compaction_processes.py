"""Summaries across processes: a worker dies while writing one, and a client is notified over the socket."""

import asyncio
import itertools

import pytest

from sessions_app.models import Event, Run, TranscriptEntry
from sessions_app.runs import lifecycle
from sessions_app.runs.compaction_requests import request_compaction
from tests.harness.worker import phases_of, transcript_of
from tests.journeys.test_worker_processes import PATIENT, holder

pytestmark = pytest.mark.dialect

LONG = "so many words " * 60


@pytest.fixture
def talk(user, make_session, eventually):
    """Accept messages as the gateway would, each after the previous one was answered."""
    session, numbers = make_session(user), itertools.count(1)

    async def ended(run_pk: int) -> Run:
        return await eventually(lambda: Run.objects.filter(pk=run_pk, status__in=Run.ENDED).first(), seconds=40)

    def send(prompt: str) -> int:
        return lifecycle.accept_run(user=user, session=session, run_id=f"k{next(numbers)}", prompt=prompt).pk

    send.ended, send.session, send.user = ended, session, user
    return send


async def test_worker_death_during_compaction_costs_one_model_call(stack, talk, eventually):
    running = stack(workers=2, env=PATIENT)
    for n in range(6):
        await talk.ended(talk(f"question {n}: {LONG} [[text=answer-{n} summary_hang summary_times=1]]"))
    before = list(TranscriptEntry.objects.filter(session=talk.session).order_by("position").values_list("pk", "text"))
    run_pk = talk('[[context_limit=4000 text="here we are"]]')
    await eventually(lambda: any(record.get("is_summary") for record in running.model_requests()))
    assert Event.objects.filter(run=run_pk, stream="compaction").count() == 1
    holder(running, run_pk).kill()
    run = await talk.ended(run_pk)
    assert (run.status, run.rescues, transcript_of(run)[-1]) == ("completed", 1, ("assistant", "here we are"))
    assert phases_of(run) == ["accepted", "start", "rescued", "end"]
    entries = list(TranscriptEntry.objects.filter(session=talk.session).order_by("position"))
    assert [(entry.pk, entry.text) for entry in entries][: len(before)] == before
    assert [entry.kind for entry in entries[len(before) :]] == ["message", "compaction", "message"]
    told = [
        (event.data["phase"], event.data.get("completed"))
        for event in Event.objects.filter(run=run, stream="compaction").order_by("seq")
    ]
    assert told == [("start", None), ("start", None), ("end", True)]
    assert len([record for record in running.model_requests() if record["is_summary"]]) == 2


async def test_requested_compaction_survives_worker_death(stack, talk, eventually):
    running = stack(workers=2, env=PATIENT)
    for n in range(4):
        await talk.ended(talk(f"question {n} [[text=answer-{n} summary_hang summary_times=1]]"))
    run_pk = request_compaction(talk.user, talk.session, run_id="c1").pk
    await eventually(lambda: any(record.get("is_summary") for record in running.model_requests()))
    holder(running, run_pk).kill()
    run = await talk.ended(run_pk)
    assert (run.status, run.reason, run.rescues, run.steps) == ("completed", "compacted", 1, 1)
    assert TranscriptEntry.objects.filter(session=talk.session, kind="compaction").count() == 1


@pytest.mark.parametrize("protocol", [1, 3, 4])
async def test_client_requests_compaction_and_gets_progress_events(live, make_user, protocol):
    user, key = make_user(), "agent:demo:summary"
    async with live.client(user, protocol=protocol) as client, live.client(user, n=len(live.webs) - 1, protocol=protocol) as other:
        for n, words in enumerate(("What can you do?", "Write notes.txt saying hello", "status")):
            asked = {"message": words, "sessionKey": key, "idempotencyKey": f"k{n}"}
            await client.request("agent", asked, expect_final=True, timeout=60)
        with (await other.connection()).listen() as frames:
            await other.request("sessions.messages.subscribe", {"key": key})
            answer = await client.request("sessions.compact", {"key": key, "idempotencyKey": "c1"}, timeout=60)
            start, end = await operations(frames)
        assert (answer["ok"], answer["key"], answer["compacted"], answer["kept"]) == (True, key, True, 6)
        assert await client.request("sessions.compact", {"key": key, "idempotencyKey": "c1"}) == answer
        again = await client.request("sessions.compact", {"key": key}, timeout=60)
        assert (again["compacted"], again["reason"]) == (False, "nothing_to_compact")
        history = await client.request("chat.history", {"sessionKey": key, "notices": True})
    assert (start["operation"], start["phase"], start["operationId"], start["sessionKey"]) == ("compact", "start", "c1", key)
    assert (end["phase"], end["completed"], end["operationId"]) == ("end", True, "c1")
    (notice,) = [message for message in history["messages"] if message["role"] == "notice"]
    assert "What can you do?" in notice["text"]
    assert len(history["messages"]) > 6


async def operations(frames) -> list[dict]:
    """Collect the events of the next operation, to its end."""
    told: list[dict] = []
    async with asyncio.timeout(30):
        while not told or told[-1]["phase"] != "end":
            frame = await frames.get()
            told += [frame["payload"]] if frame["event"] == "session.operation" else []
    return told
