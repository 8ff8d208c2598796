"""Agents that read sessions, send messages to each other and post messages, in real runs of a real worker."""

import json
import os
import re
import signal

import pytest

from agents.models import Agent
from sessions_app.models import Run, Session, ToolCall
from sessions_app.runs import lifecycle
from sessions_app.sessions import members
from sessions_app.sessions.service import ensure_session, inject_message
from tests.harness.waits import waiting_for
from tests.harness.worker import WorkerHarness, calls_of, phases_of, token_text, transcript_of, view_of
from tools_app.policy_store import policies

pytestmark = pytest.mark.dialect


def asks(name: str, **arguments) -> str:
    """A prompt that makes the model call a tool."""
    return f"[[tool={name} args={json.dumps(arguments)}]]"


@pytest.fixture
def everything(database):
    """Agent main may use every tool."""
    policies.save_policy(scope="agent", subject="main", profile="full")
    yield
    policies.save_policy(scope="agent", subject="main", profile="coding")


@pytest.fixture
def there(harness: WorkerHarness, make_session) -> Session:
    return make_session(harness.user, "agent:main:there")


def nested(session: Session) -> Run:
    return Run.objects.get(session=session, lane="nested")


async def details(harness: WorkerHarness, prompt: str, **options) -> dict:
    """Return the result of the first tool call of the answer to this message."""
    run = await harness.answer(prompt, **options)
    assert run.status == "completed", run.error
    found: dict = calls_of(run)[0].result["details"]
    return found


async def test_agent_messages_another_session_and_gets_its_reply(harness: WorkerHarness, there):
    prompt = asks("sessions_send", session_key=there.key, message='[[text="pong from there"]]') + "[[text=thanks]]"
    run = await harness.answer(prompt)
    (call,) = calls_of(run)
    other = nested(there)
    assert call.result["details"] == {
        "runId": other.run_id,
        "status": "ok",
        "sessionKey": there.key,
        "reply": "pong from there",
    }
    assert transcript_of(run)[-1] == ("assistant", "thanks")
    assert transcript_of(other)[0][1].startswith("[Message from agent main in session ")
    told = next(message["content"] for message in harness.model.bodies[-1]["messages"] if message["role"] == "tool")
    assert told.startswith("Content from the agent of another session stands between")


async def test_agent_sends_message_without_waiting(harness: WorkerHarness, there):
    answer = await details(harness, asks("sessions_send", session_key=there.key, message="[[text=later]]", timeout_seconds=0))
    assert answer["status"] == "accepted"
    assert transcript_of(await harness.ended(nested(there).pk))[-1] == ("assistant", "later")


async def test_late_reply_is_reported_and_delivered_later(harness: WorkerHarness, there):
    message = "[[tokens=5 hang_after=2]]"
    answer = await details(harness, asks("sessions_send", session_key=there.key, message=message, timeout_seconds=0.3))
    assert answer["status"] == "timeout"
    other = nested(there)
    assert other.status in Run.UNFINISHED
    lifecycle.request_abort(user=harness.user, session=there)
    await harness.ended(other.pk)


async def test_failed_run_in_other_session_returns_an_error(harness: WorkerHarness, there):
    answer = await details(harness, asks("sessions_send", session_key=there.key, message="[[error=401]]"))
    assert answer["status"] == "error"
    assert "the model did not answer" in answer["error"]


async def test_long_reply_is_truncated_with_a_notice(harness: WorkerHarness, there):
    answer = await details(harness, asks("sessions_send", session_key=there.key, message="[[tokens=3000]]"))
    assert answer["reply"] == token_text(3000)[:8000]
    assert answer["cut"].startswith(f"the first 8000 of {len(token_text(3000))} characters")


async def test_aborting_the_caller_leaves_other_run_running(harness: WorkerHarness, there, eventually):
    run_pk = harness.send(asks("sessions_send", session_key=there.key, message="[[tokens=5 hang_after=2]]"))
    await eventually(lambda: Run.objects.filter(session=there).first() and view_of(nested(there).pk).open_text)
    lifecycle.request_abort(user=harness.user, session=harness.session)
    run = await harness.ended(run_pk)
    assert (run.status, calls_of(run)[0].status) == ("aborted", "failed")
    assert nested(there).status == "running"
    lifecycle.request_abort(user=harness.user, session=there)
    await harness.ended(nested(there).pk)


async def test_mutual_wait_between_sessions_is_rejected(harness: WorkerHarness, there):
    back = asks("sessions_send", session_key=harness.session.key, message="and you?") + '[[text="then my answer"]]'
    answer = await details(harness, asks("sessions_send", session_key=there.key, message=back))
    assert (answer["status"], answer["reply"]) == ("ok", "then my answer")
    (refused,) = calls_of(nested(there))
    assert refused.is_error
    assert "waiting for this one's answer" in refused.result["content"][0]["text"]
    assert not Run.objects.filter(session=harness.session, lane="nested").exists()


async def test_chain_of_waiting_sessions_may_be_longer_than_the_lane(harness: WorkerHarness, there, make_session):
    """The lane has two slots. The second and third session wait without holding one."""
    third, fourth = (make_session(harness.user, f"agent:main:{name}") for name in ("third", "fourth"))
    last = asks("sessions_send", session_key=fourth.key, message="[[text=bottom]]", timeout_seconds=300)
    back = asks("sessions_send", session_key=third.key, message=f"{last}[[text=third]]") + "[[text=passed]]"
    answer = await details(harness, asks("sessions_send", session_key=there.key, message=back))
    assert (answer["status"], answer["reply"]) == ("ok", "passed")
    assert [calls_of(nested(each))[0].result["details"]["reply"] for each in (there, third)] == ["third", "bottom"]


async def test_waiting_sender_holds_no_worker_and_no_lane_slot(harness: WorkerHarness, there, eventually):
    run_pk = harness.send(asks("sessions_send", session_key=there.key, message="[[tokens=5 hang_after=2 times=1 tag=there]]"))
    await harness.until(run_pk, "waiting")
    await eventually(lambda: view_of(nested(there).pk).open_text)
    run = Run.objects.get(pk=run_pk)
    assert (waiting_for(run_pk), run.worker, run.lease_until) == ("child", "", None)
    assert phases_of(run_pk) == ["accepted", "start", "waiting"]
    lifecycle.request_abort(user=harness.user, session=there)
    assert (await harness.ended(run_pk)).status == "completed"
    assert phases_of(run_pk) == ["accepted", "start", "waiting", "resume", "end"]


async def test_endless_exchange_between_sessions_is_limited(harness: WorkerHarness, there, eventually):
    """Each message makes the other session send the next one, as often as allowed."""
    message = "[[text=enough]]"
    for number in range(8):
        to = there if number % 2 else harness.session
        message = asks("sessions_send", session_key=to.key, message=message, timeout_seconds=0)
    await harness.answer(message)
    await eventually(lambda: Run.objects.filter(lane="nested", status="completed").count() == 5)
    *_, last = Run.objects.filter(lane="nested").order_by("id")
    assert "5 times in a row" in calls_of(last)[0].result["content"][0]["text"]
    assert not Run.objects.filter(status__in=Run.UNFINISHED).exists()


async def test_parked_sender_survives_the_death_of_all_workers(stack, user, make_session, eventually):
    running = stack(workers=2, env={"CLAWSITE_LEASE_SECONDS": "5"})
    here, there = make_session(user, "agent:main:here"), make_session(user, "agent:main:there")
    prompt = asks("sessions_send", session_key=there.key, message="[[tokens=4 hang_after=2 times=1 tag=there]]") + "[[text=done]]"
    run_pk = lifecycle.accept_run(user=user, session=here, run_id="k1", prompt=prompt).pk
    await eventually(lambda: Run.objects.filter(session=there).first() and view_of(nested(there).pk).open_text)
    await eventually(lambda: waiting_for(run_pk) == "child")
    for worker in running.workers:  # stop both at once: otherwise the other worker would recover the run and answer
        os.kill(worker.pid, signal.SIGKILL)
    for worker in running.workers:
        worker.kill()
    for worker in running.workers:
        worker.spawn()
    run = await eventually(lambda: Run.objects.filter(pk=run_pk, status__in=Run.ENDED).first(), seconds=40)
    other = await eventually(lambda: Run.objects.filter(session=there, status__in=Run.ENDED).first(), seconds=40)
    assert (run.status, transcript_of(run)[-1]) == ("completed", ("assistant", "done"))
    (call,) = calls_of(run)
    assert (call.name, call.status, run.rescues) == ("sessions_send", ToolCall.Status.FINISHED, 0)
    assert (call.result["details"]["status"], call.result["details"]["reply"]) == ("ok", token_text(4))
    assert (other.status, transcript_of(other)[-1]) == ("completed", ("assistant", token_text(4)))
    assert Run.objects.filter(session=there).count() == 1


async def test_agent_lists_sessions_and_reads_one(harness: WorkerHarness, there):
    await harness.answer("[[text=hello]]", session=there)
    listed = await details(harness, asks("sessions_list", message_limit=1))
    rows = {row["key"]: row for row in listed["sessions"]}
    assert rows[harness.session.key]["state"] == "running"
    assert rows[there.key]["messages"][0]["text"] == "hello"
    read = await details(harness, asks("sessions_history", session_key=there.key))
    assert [message["text"] for message in read["messages"]] == ["[[text=hello]]", "hello"]


async def test_invalid_parameters_return_an_error_and_run_continues(harness: WorkerHarness, everything):
    calls = (
        ("sessions_list", {"kinds": ["everything"]}),
        ("sessions_list", {"message_limit": 21}),
        ("sessions_history", {}),
        ("sessions_send", {"message": "x", "timeout": 3}),
        ("session_status", {"model": "openai/gpt-5"}),
        ("agents_list", {"agent": "main"}),
        ("message", {"action": "delete", "message": "x"}),
    )
    run = await harness.answer("".join(asks(name, **arguments) for name, arguments in calls) + "[[text=sorry]]")
    assert run.status == "completed"
    for call, (name, _) in zip(calls_of(run), calls, strict=True):
        assert call.is_error
        assert f"invalid arguments for `{name}`" in call.result["content"][0]["text"]


async def test_session_status_and_agent_list_are_returned(harness: WorkerHarness, there, everything):
    Agent.objects.create(slug="helper", name="Helper")
    run = await harness.answer(asks("session_status", session_key=there.key) + asks("agents_list") + "[[text=ok]]")
    status, agents = [call.result["details"] for call in calls_of(run)]
    assert (status["session"], status["model"]) == (there.key, "openai/fake-1")
    assert [agent["id"] for agent in agents["agents"]] == ["main", "helper"]


def many_agents(there: Session) -> None:
    Agent.objects.bulk_create(Agent(slug=f"helper-{number}", name="n" * 100) for number in range(600))


def long_words(there: Session) -> None:
    for _ in range(20):
        inject_message(there.owner, there, "w" * 5_000)


def words_in_many_sessions(there: Session) -> None:
    for number in range(6):
        session = ensure_session(there.owner, f"agent:main:long-{number}")
        for _ in range(6):
            inject_message(there.owner, session, "ü" * 400)


@pytest.mark.parametrize(
    ("name", "arguments", "furnish", "cut"),
    [
        ("agents_list", {}, many_agents, r"\d+ more agents did not fit"),
        ("sessions_history", {"session_key": "agent:main:there"}, long_words, r"\d+ of these 20 messages, the oldest, did not fit"),
        ("sessions_list", {"message_limit": 6}, words_in_many_sessions, r"\d+ more sessions did not fit: ask for fewer messages"),
    ],
)
async def test_large_result_drops_whole_items_with_a_notice(
    harness: WorkerHarness, there, everything, name, arguments, furnish, cut
):
    furnish(there)
    run = await harness.answer(asks(name, **arguments) + "[[text=done]]")
    assert (run.status, transcript_of(run)[-1]) == ("completed", ("assistant", "done"))
    (row,) = calls_of(run)
    assert re.match(cut, row.result["details"]["cut"])
    (told,) = [message["content"] for message in harness.model.bodies[-1]["messages"] if message["role"] == "tool"]
    assert len(told.encode()) < 100 * 1024
    # What is left is complete: the model can parse it as JSON.
    assert json.loads(told[told.index("{") : told.rindex("}") + 1]) == row.result["details"]


async def test_long_result_is_truncated_but_sent_message_is_not(harness: WorkerHarness, everything, settings):
    settings.TOOL_RESULT_KB = 0.1
    run = await harness.answer(asks("message", message="w" * 50_000) + "[[text=done]]")
    assert run.status == "completed"
    (row,) = calls_of(run)
    assert (row.status, "[cut: showing " in row.result["content"][0]["text"]) == ("finished", True)
    assert harness.session.entries.get(run=None).text == "w" * 50_000


async def test_agent_posts_to_own_and_other_session(harness: WorkerHarness, there, everything):
    prompt = asks("message", message="half done") + asks("message", target=there.key, message="look") + "[[text=done]]"
    run = await harness.answer(prompt)
    assert [call.result["details"]["sessionKey"] for call in calls_of(run)] == [harness.session.key, there.key]
    here = [entry.text for entry in harness.session.entries.order_by("position") if entry.run_id is None]
    elsewhere = [entry.text for entry in there.entries.all()]
    assert here == ["half done"]
    assert elsewhere == [f"[Message from agent main in session {harness.session.key}]\n\nlook"]


async def test_agents_of_different_users_are_isolated(harness: WorkerHarness, make_user, make_session, everything):
    stranger = make_user()
    secret = make_session(stranger, "agent:main:secret")
    await harness.answer("[[text=hidden]]", session=make_session(harness.user, "agent:main:own"))
    calls = [
        asks("sessions_list", message_limit=5),
        *(
            asks(name, **arguments)
            for key in ("agent:main:secret", f"session:{secret.pk}")
            for name, arguments in (
                ("sessions_history", {"session_key": key}),
                ("session_status", {"session_key": key}),
                ("sessions_send", {"session_key": key, "message": "x"}),
                ("message", {"target": key, "message": "x"}),
            )
        ),
    ]
    run = await harness.answer("".join(calls) + "[[text=ok]]")
    listed, *others = calls_of(run)
    assert {row["key"] for row in listed.result["details"]["sessions"]} == {harness.session.key, "agent:main:own"}
    assert [call.is_error for call in others] == [True] * 8
    assert not secret.entries.exists()
    assert not Run.objects.filter(session=secret).exists()


async def test_guest_cannot_read_the_owners_other_sessions(harness: WorkerHarness, there, make_user):
    guest = make_user()
    members.share(harness.user, harness.session, guest.username, "writer")
    prompt = asks("sessions_list") + asks("sessions_history", session_key=f"session:{there.pk}") + "[[text=ok]]"
    asked = lifecycle.accept_run(user=guest, session=harness.session, run_id="g1", prompt=prompt)
    listed, read = calls_of(await harness.ended(asked.pk))
    assert len(listed.result["details"]["sessions"]) == 1
    assert read.is_error
