"""A message is queued, claimed by a worker and answered; and what is recorded on the way."""

import json

import pytest
from django.db import transaction

from agents.context.workspace import ensure_workspace
from agents.models import Agent
from clawsite.infra import bus
from sessions_app.models import Outbox, Run, Session
from sessions_app.origin import Origin
from sessions_app.run_request import RunRequest
from sessions_app.runs import lifecycle, queue, waiting
from sessions_app.sessions.service import inject_message
from tests.harness.waits import park, waiting_for
from tests.harness.worker import WorkerHarness, calls_of, events_of, phases_of, token_text, transcript_of, view_of
from tools_app.policy_store import policies

pytestmark = pytest.mark.dialect


async def test_message_gets_a_reply(harness: WorkerHarness):
    run = await harness.answer("[[tokens=20 delay_ms=2]]")
    assert (run.status, run.reason, run.model) == ("completed", "stop", "openai/fake-1")
    assert transcript_of(run) == [("user", "[[tokens=20 delay_ms=2]]"), ("assistant", token_text(20))]
    assert phases_of(run) == ["accepted", "start", "end"]
    streamed = "".join(event.data.get("delta", "") for event in events_of(run) if event.stream == "assistant")
    assert streamed == token_text(20)
    assert run.output_tokens > 0


async def test_next_message_sees_the_previous_one(harness: WorkerHarness):
    await harness.answer("[[text=one]]")
    await harness.answer("[[text=two]]")
    asked = [message["content"] for message in harness.model.bodies[-1]["messages"] if message["role"] in ("user", "assistant")]
    assert asked == ["[[text=one]]", "one", "[[text=two]]"]


async def test_runs_are_ordered_per_session_and_parallel_across_sessions(harness: WorkerHarness, make_session):
    first = harness.send("[[hang_after=1 tokens=3]]")
    second = harness.send("[[text=second]]")
    elsewhere = await harness.answer("[[text=elsewhere]]", session=make_session(harness.user))
    assert elsewhere.status == "completed"
    assert Run.objects.get(pk=second).status == "accepted"
    await harness.until(first, "running")
    lifecycle.request_abort(user=harness.user, session=harness.session, run_id=Run.objects.get(pk=first).run_id)
    assert (await harness.ended(second)).status == "completed"


async def test_lanes_alternate_even_with_concurrency_one(harness: WorkerHarness, make_session):
    await harness.close()
    for number in range(3):
        harness.send(f"[[text=c{number}]]", session=make_session(harness.user), lane="cron")
    message = harness.send("[[text=m]]")
    harness.open(concurrency=1)
    run = await harness.ended(message)
    assert Run.objects.filter(lane="cron", started_at__lt=run.started_at).count() < 3


async def test_thinking_is_streamed_and_stored_separately_from_the_reply(harness: WorkerHarness):
    run = await harness.answer("[[reasoning=5 text=hello]]")
    assert transcript_of(run)[-1] == ("assistant", "hello")
    thought = "".join(event.data["delta"] for event in events_of(run) if event.stream == "thinking")
    stored = run.entries.get(role="assistant").content
    assert thought
    assert (stored[0]["type"], stored[0]["thinking"]) == ("thinking", thought)
    assert stored[0]["durationMs"] >= 0


async def test_tool_results_are_returned_to_the_model(harness: WorkerHarness):
    prompt = '[[tool=write args={"path":"a.txt","content":"hi"}]] [[tool=read args={"path":"a.txt"}]] [[text=done]]'
    run = await harness.answer(prompt)
    assert [role for role, _ in transcript_of(run)] == ["user", "assistant", "toolResult", "assistant", "toolResult", "assistant"]
    assert [(call.name, call.status, call.position) for call in calls_of(run)] == [
        ("write", "finished", 0),
        ("read", "finished", 1),
    ]
    assert (ensure_workspace(Agent.objects.get(slug="main"), harness.user.pk) / "a.txt").read_text() == "hi"
    assert calls_of(run)[1].result["content"][0]["text"] == "hi"
    assert transcript_of(run)[-1] == ("assistant", "done")
    assert [(event.data["phase"], event.data["name"]) for event in events_of(run) if event.stream == "tool"] == [
        ("start", "write"),
        ("result", "write"),
        ("start", "read"),
        ("result", "read"),
    ]


async def test_all_calls_of_a_turn_are_decided_before_start(harness: WorkerHarness):
    prompt = (
        '[[tool=write args={"path":"a","content":"1"}]] [[tool=write args={"path":"b","content":"2"} parallel=1]] [[text=done]]'
    )
    run = await harness.answer(prompt)
    assert [(call.status, call.policy_version > 0) for call in calls_of(run)] == [("finished", True), ("finished", True)]
    assert len(harness.model.log) == 2


async def test_denied_call_records_its_layer(harness: WorkerHarness):
    policies.save_policy(scope="agent", subject="main", profile="coding", deny=["write"])
    try:
        run = await harness.answer('[[tool=write args={"path":"a","content":"1"}]] [[text="then not"]]')
    finally:
        policies.save_policy(scope="agent", subject="main", profile="coding")
    (call,) = calls_of(run)
    assert (call.status, call.refused_by, call.is_error) == ("refused", "agent", True)
    assert call.verdict
    (told,) = [event.data for event in events_of(run) if event.stream == "tool" and event.data["phase"] == "result"]
    assert told["meta"] == {"verdict": "refused", "layer": "agent"}
    assert run.status == "completed"
    assert transcript_of(run)[-1] == ("assistant", "then not")


async def test_unknown_tool_is_denied_and_reported_to_model(harness: WorkerHarness):
    run = await harness.answer('[[tool=launch args={"to":"moon"}]] [[text=pity]]')
    (call,) = calls_of(run)
    assert (call.status, call.refused_by) == ("refused", "toolset")
    assert "tool_not_allowed" in transcript_of(run)[2][1]
    assert run.status == "completed"


async def test_unavailable_tool_reports_missing_requirement_to_model(harness: WorkerHarness):
    policies.save_policy(scope="agent", subject="main", profile="coding", also_allow=["web_search"])
    try:
        run = await harness.answer('[[tool=web_search args={"query":"x"}]] [[text=pity]]')
    finally:
        policies.save_policy(scope="agent", subject="main", profile="coding")
    assert "web_search" not in str(harness.model.bodies[0]["tools"])
    (call,) = calls_of(run)
    assert (call.status, call.refused_by, call.is_error) == ("refused", "toolset", True)
    assert "unavailable in this run: no search engine is configured" in transcript_of(run)[2][1]
    assert call.verdict["not_offered"] == {"code": "tool.no_search_engine"}
    assert run.status == "completed"


async def test_invalid_arguments_return_an_error_result(harness: WorkerHarness):
    run = await harness.answer('[[tool=read args="{broken"]] [[text=sorry]]')
    (call,) = calls_of(run)
    assert (call.status, call.is_error) == ("failed", True)
    assert "could not be read" in transcript_of(run)[2][1]
    assert run.status == "completed"


async def test_turns_per_run_are_limited(harness: WorkerHarness):
    Agent.objects.filter(slug="main").update(max_turns=2)
    run = await harness.answer("".join(f'[[tool=read args={{"path":"{n}"}}]]' for n in range(5)))
    assert (run.status, run.reason) == ("error", "turns_used_up")
    assert len(harness.model.log) == 2


@pytest.mark.parametrize("hint", [True, False], ids=["told", "found by the poll"])
async def test_worker_confirms_abort_of_a_hanging_model(harness: WorkerHarness, hint, eventually, monkeypatch):
    run_pk = harness.send("[[tokens=10 hang_after=3 tag=abort]]")
    await eventually(lambda: view_of(run_pk).open_text == token_text(3))
    if not hint:
        monkeypatch.setattr(bus, "publish", lambda message: None)
    (asked,) = lifecycle.request_abort(user=harness.user, session=harness.session)
    assert asked.ended is False
    run = await harness.ended(run_pk)
    assert (run.status, run.reason) == ("aborted", "rpc")
    assert transcript_of(run)[-1] == ("assistant", token_text(3))
    last = events_of(run)[-1].data
    assert (last["phase"], last["aborted"], last["stopReason"]) == ("end", True, "rpc")
    await harness.model.record(lambda record: record["tag"] == "abort" and record.get("client_left"))


async def test_timed_out_run_ends_with_an_error_message(harness: WorkerHarness):
    run = await harness.answer("[[tokens=10 hang_after=3]]", timeout_seconds=0.3)
    assert (run.status, run.reason) == ("error", "timeout")
    assert "longer than 0.3 s" in run.error
    assert transcript_of(run)[-1] == ("assistant", token_text(3))


async def test_parked_run_holds_no_worker_and_continues_when_ready(harness: WorkerHarness):
    await harness.close()
    run_pk = harness.send("[[text=hello]]")
    (claimed,) = queue.claim_runs("a worker that parks", 1).runs
    park(claimed)
    harness.open()
    other = harness.send("[[text=later]]")
    await harness.until(run_pk, "waiting")
    assert waiting_for(run_pk) == "approval"
    assert Run.objects.get(pk=other).status == "accepted"
    assert waiting.make_ready([run_pk]) == 1
    assert (await harness.ended(run_pk)).status == "completed"
    assert phases_of(run_pk) == ["accepted", "start", "waiting", "resume", "end"]
    assert (await harness.ended(other)).status == "completed"


async def test_events_match_rows(harness: WorkerHarness):
    run = await harness.answer('[[tool=write args={"path":"a","content":"1"}]] [[tokens=5]]')
    view = view_of(run)
    assert (view.status, view.reason, view.prompt, view.seq) == (run.status, run.reason, run.prompt, run.seq)
    assert [text for _, text in view.messages] == [text for role, text in transcript_of(run) if role == "assistant"]
    assert {call_id: tool.status for call_id, tool in view.tools.items()} == {call.call_id: call.status for call in calls_of(run)}


async def test_session_of_a_missing_agent_reports_an_error(harness: WorkerHarness, make_session):
    session = make_session(harness.user, "agent:nobody:main")
    run = await harness.answer("hello", session=session)
    assert (run.status, run.reason) == ("error", "not_found")
    assert "nobody" in run.error


async def test_usage_is_counted_for_run_and_session(harness: WorkerHarness):
    run = await harness.answer("[[tokens=7]]")
    session = Session.objects.get(pk=harness.session.pk)
    assert run.output_tokens == session.output_tokens == 7
    assert run.input_tokens == session.input_tokens > 0


async def test_tool_call_is_streamed_while_the_model_writes_it(harness: WorkerHarness):
    run = await harness.answer('[[tool=write args={"path": "notes.txt", "content": "hello"}]]')
    written = [event.data for event in events_of(run) if event.stream == "toolcall"]
    assert {(data["index"], data["name"]) for data in written} == {(0, "write")}
    assert json.loads("".join(data["delta"] for data in written)) == {"path": "notes.txt", "content": "hello"}


async def test_unstorable_character_does_not_end_the_run(harness: WorkerHarness):
    run = await harness.answer('[[text="a\\u0000b c"]]')
    assert run.status == "completed"
    assert transcript_of(run)[-1] in [("assistant", "a\x00b c"), ("assistant", "ab c"), ("assistant", "a\ufffdb c")]


async def test_injected_message_does_not_separate_run_from_its_reply(harness: WorkerHarness, eventually):
    """The message is injected while the model answers, and another worker then recovers the run."""
    run_pk = harness.send('[[tool=read args={"path":"none"}]] [[tokens=5 hang_after=2 times=2 tag=inject]]')
    await eventually(lambda: view_of(run_pk).open_text == token_text(2))
    inject_message(harness.user, harness.session, "by the way")
    Run.objects.filter(pk=run_pk).update(lease_until=1.0)
    run = await harness.ended(run_pk)
    assert (run.status, transcript_of(run)[-1]) == ("completed", ("assistant", token_text(5)))
    asked = harness.model.bodies[-1]["messages"]
    assert [message["role"] for message in asked][-4:] == ["assistant", "user", "assistant", "tool"]


async def test_message_from_a_channel_is_answered_there(harness: WorkerHarness):
    origin = Origin("telegram", account="bot", peer="77", reply_to="77")
    run = await harness.answer("[[text=hello]]", request=RunRequest(origin=origin))
    await harness.answer("[[text=not for the channel]]")
    reply = Outbox.objects.select_related("run").get()
    assert (reply.run, reply.channel, reply.payload, reply.run.request.origin) == (run, "telegram", {"text": "hello"}, origin)


async def test_run_with_a_damaged_request_fails_and_others_continue(harness: WorkerHarness, make_session):
    with transaction.atomic():
        damaged = harness.send("do something", session=make_session(harness.user))
        Run.objects.filter(pk=damaged).update(options={"invoke": {}})
    assert (await harness.answer("hello")).status == "completed"
    run = await harness.ended(damaged)
    assert (run.status, run.reason, run.model) == ("error", "unreadable", "")
