"""sessions_send and message without a worker: which sessions they reach, idempotency, and denials."""

import json
import threading

import pytest
from django.db import connection, transaction

from agents.context.untrusted_history import filter_entry
from agents.tools import nested_runs
from clawsite.accounts.models import User
from clawsite.infra import sql
from sessions_app.events.announce import EventsCommitted
from sessions_app.models import Outbox, Run, RunWait, Session, ToolCall, TranscriptEntry
from sessions_app.run_request import RunRequest
from sessions_app.runs import lifecycle, outbox, queue, tool_calls, waiting
from sessions_app.runs.tool_calls import CallDecision
from sessions_app.sessions import members
from sessions_app.sessions import service as session_service
from sessions_app.transcript.messages import read_model_history
from tests.harness.approvals import allow_approval_requests
from tests.harness.tools import call_or_defer, call_tool, make_tool_env, resume_deferred
from tools_app.core.definition import Deferred, ToolFailed
from tools_app.exec.rules import rules_for, rules_for_run


@pytest.fixture
def running(user):
    """Create an active run of a session, with a call `c1` of sessions_send in progress, and return its environment."""

    def make(session: Session, *, sender=None, options=None):
        owner = sender or user
        lifecycle.accept_run(
            user=owner, session=session, run_id=f"of {session.key}", prompt="hi", request=RunRequest.from_json(options or {})
        )
        claimed = next(each for each in queue.claim_runs("w", 10).runs if each.session_id == session.pk)
        tool_calls.record_decisions(claimed, [CallDecision("c1", "sessions_send", {}, ToolCall.Status.ALLOWED)])
        tool_calls.mark_started(claimed, "c1", "sessions_send", {})
        return make_tool_env(session, sender=sender, run_pk=claimed.pk)

    return make


def sent_to(session: Session) -> list[Run]:
    return list(Run.objects.filter(session=session, lane="nested").order_by("id"))


async def test_sent_message_is_queued_with_sender_and_source(user, make_session, running):
    here, there = make_session(user, "agent:main:here"), make_session(user, "agent:main:there")
    result = await call_tool(running(here), "sessions_send", session_key=there.key, message="ping", timeout_seconds=0)
    (run,) = sent_to(there)
    assert result.details == {"runId": run.run_id, "status": "accepted", "sessionKey": there.key}
    assert json.loads(result.text) == result.details
    assert (run.owner, run.lane, run.status) == (user, "nested", "accepted")
    assert run.prompt == (
        "[Message from agent main in session agent:main:here, sent by its sessions_send tool and not by a person]\n\nping"
    )


async def test_repeated_call_sends_once(user, make_session, running):
    env, there = running(make_session(user)), make_session(user)
    answers = [await call_tool(env, "sessions_send", session_key=there.key, message="ping", timeout_seconds=0) for _ in range(2)]
    assert answers[0].details["runId"] == answers[1].details["runId"]
    assert len(sent_to(there)) == 1
    await call_tool(env, "sessions_send", call_id="c2", session_key=there.key, message="ping", timeout_seconds=0)
    assert len(sent_to(there)) == 2


async def test_target_session_is_found_by_label(user, make_session, running):
    env, there = running(make_session(user)), make_session(user)
    session_service.patch_session(user, there, {"label": "the ops room"})
    result = await call_tool(env, "sessions_send", label="the ops room", message="ping", timeout_seconds=0)
    assert result.details["sessionKey"] == there.key
    wrong = await call_tool(env, "sessions_send", label="the ops room", agent_id="helper", message="ping", timeout_seconds=0)
    assert "no session labeled 'the ops room' of agent 'helper'" in wrong.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"message": "x"}, "either by `session_key` or by `label`"),
        ({"message": "x", "session_key": "a", "label": "b"}, "either by `session_key` or by `label`"),
        ({"message": "x", "session_key": "agent:main:none"}, "there is no session"),
        ({"message": "x", "session_key": "agent:main:here"}, "that is this session"),
        ({"message": "", "session_key": "agent:main:there"}, "invalid arguments"),
        ({"message": "x", "session_key": "agent:main:there", "timeout_seconds": 301}, "invalid arguments"),
    ],
)
async def test_invalid_send_is_rejected_with_reason(user, make_session, running, arguments, words):
    env = running(make_session(user, "agent:main:here"))
    there = make_session(user, "agent:main:there")
    result = await call_tool(env, "sessions_send", **arguments)
    assert result.is_error
    assert words in result.text
    assert sent_to(there) == []


async def test_session_of_another_user_cannot_be_reached(user, make_user, make_session, running):
    stranger = make_user()
    secret = make_session(stranger, "agent:main:secret")
    env = running(make_session(user))
    for key in (secret.key, f"session:{secret.pk}"):
        assert (await call_tool(env, "sessions_send", session_key=key, message="x", timeout_seconds=0)).is_error
    assert sent_to(secret) == []


async def test_send_to_read_only_session_is_rejected(user, make_user, make_session, running):
    friend = make_user()
    theirs = make_session(friend)
    members.share(friend, theirs, user.username, "viewer")
    env = running(make_session(user))
    result = await call_tool(env, "sessions_send", session_key=f"session:{theirs.pk}", message="x", timeout_seconds=0)
    assert (result.is_error, result.text) == (True, "You have read-only access to this session. Ask its owner for write access.")
    members.share(friend, theirs, user.username, "writer")
    await call_tool(env, "sessions_send", session_key=f"session:{theirs.pk}", message="x", timeout_seconds=0)
    assert [run.owner for run in sent_to(theirs)] == [user]


async def test_guest_cannot_send_to_owners_private_sessions(user, make_user, make_session, running):
    guest = make_user()
    room, both, private = make_session(user, "agent:main:room"), make_session(user), make_session(user, "agent:main:private")
    for shared in (room, both):
        members.share(user, shared, guest.username, "writer")
    env = running(room, sender=guest)
    for key in (private.key, f"session:{private.pk}"):
        assert (await call_tool(env, "sessions_send", session_key=key, message="x", timeout_seconds=0)).is_error
    await call_tool(env, "sessions_send", session_key=f"session:{both.pk}", message="x", timeout_seconds=0)
    assert [run.owner for run in sent_to(both)] == [guest]
    assert sent_to(private) == []


async def test_full_queue_is_reported(user, make_session, running, settings):
    env = running(make_session(user))
    settings.MAX_QUEUED_PER_USER = 0
    result = await call_tool(env, "sessions_send", session_key=make_session(user).key, message="x", timeout_seconds=0)
    assert result.is_error
    assert "queued runs" in result.text


async def test_send_timeout_leaves_other_run_queued(user, make_session, running):
    env, there = running(make_session(user)), make_session(user)
    deferred = await call_or_defer(env, "sessions_send", session_key=there.key, message="x", timeout_seconds=0.05)
    result = await resume_deferred(env, "sessions_send", deferred, overdue=True)
    assert result
    assert (result.details["status"], result.is_error) == ("timeout", False)
    assert "is still queued" in result.details["note"]
    assert [run.status for run in sent_to(there)] == ["accepted"]


async def test_waiting_send_is_deferred_until_the_other_run_ends(user, make_session, running):
    env, there = running(make_session(user)), make_session(user)
    deferred = await call_or_defer(env, "sessions_send", session_key=there.key, message="x")
    (other,) = sent_to(there)
    assert deferred == Deferred("child", str(other.pk), 30)
    (wait,) = RunWait.objects.filter(run=env.run_pk)
    assert (wait.kind, wait.reference, wait.deadline > sql.db_now()) == ("child", str(other.pk), True)
    assert await resume_deferred(env, "sessions_send", deferred) is None
    assert waiting.list_due() == []
    lifecycle.request_abort(user=user, session=there)
    assert waiting.list_due() == [wait.pk]
    result = await resume_deferred(env, "sessions_send", deferred)
    assert result
    assert (result.details["status"], result.details["error"], result.is_error) == (
        "error",
        "the run there was stopped (rpc)",
        True,
    )


async def test_answer_of_a_deleted_session_is_an_error(user, make_session, running):
    env, there = running(make_session(user)), make_session(user)
    deferred = await call_or_defer(env, "sessions_send", session_key=there.key, message="x")
    there.delete()
    result = await resume_deferred(env, "sessions_send", deferred)
    assert result
    assert (result.is_error, "not found" in result.text) == (True, True)
    assert len(waiting.list_due()) == 1


async def test_abort_ends_wait_but_not_other_run(user, make_session, running):
    here, there = make_session(user), make_session(user)
    env = running(here)
    waits(env, there)
    lifecycle.request_abort(user=user, session=here)
    Run.objects.filter(pk=env.run_pk).update(lease_until=1.0)
    with transaction.atomic():
        assert queue.recover_runs("w2", 1) == []
    assert Run.objects.get(pk=env.run_pk).status == "aborted"
    assert not RunWait.objects.exists()
    assert [run.status for run in sent_to(there)] == ["accepted"]


def waits(env, target: Session) -> None:
    """Call c1 of that run waits for a session, as the tool would store it."""
    nested_runs.send_nested_message(env, "c1", User.objects.get(pk=env.sender_id), target, "x", wait_seconds=30)


@pytest.mark.parametrize("length", [2, 3, 4])
async def test_circular_wait_is_rejected(user, make_session, running, length):
    ring = [make_session(user, f"agent:main:s{number}") for number in range(length)]
    envs = [running(session) for session in ring]
    for env, target in zip(envs, ring[1:], strict=False):
        waits(env, target)
    result = await call_tool(envs[-1], "sessions_send", session_key=ring[0].key, message="x")
    assert result.is_error
    assert "waiting for this one's answer" in result.text
    assert sent_to(ring[0]) == []
    # If it doesn't wait, it causes no cycle.
    sent = await call_tool(envs[-1], "sessions_send", session_key=ring[0].key, message="x", timeout_seconds=0)
    assert sent.details["status"] == "accepted"


def test_one_of_two_mutual_sends_is_rejected(user, make_session, running):
    pair = [make_session(user), make_session(user)]
    envs, begin = [running(session) for session in pair], threading.Barrier(2)
    refused: list[str] = []

    def turn_to(env, target: Session) -> None:
        try:
            begin.wait()
            waits(env, target)
        except ToolFailed as failure:
            refused.append(str(failure))
        finally:
            connection.close()

    threads = [threading.Thread(target=turn_to, args=each) for each in zip(envs, reversed(pair), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1
    assert Run.objects.filter(lane="nested").count() == 1


async def test_interrupted_wait_does_not_count_as_circular(user, make_session, running):
    first, second = make_session(user), make_session(user)
    sender, other = running(first), running(second)
    waits(sender, second)
    assert nested_runs.is_waiting_for(first.pk, second.pk)
    Run.objects.filter(pk=sender.run_pk).update(lease_until=1.0)
    with transaction.atomic():
        queue.recover_runs("w2", 1)
    assert ToolCall.objects.get(run=sender.run_pk).status == "interrupted"
    assert not nested_runs.is_waiting_for(first.pk, second.pk)
    sent = await call_or_defer(other, "sessions_send", session_key=first.key, message="x")
    assert isinstance(sent, Deferred)


async def test_nested_sends_are_limited_to_maximum_depth(user, make_session, running):
    here, there = make_session(user), make_session(user)
    for depth, is_refused in ((nested_runs.MAX_DEPTH - 1, False), (nested_runs.MAX_DEPTH, True)):
        Run.objects.all().delete()
        env = running(here, options={"sentBy": {"run": 1, "call": "c", "waits": False, "depth": depth}})
        result = await call_tool(env, "sessions_send", session_key=there.key, message="x", timeout_seconds=0)
        assert result.is_error is is_refused
    assert "5 times in a row" in result.text
    assert sent_to(there) == []


def entries(session: Session) -> list[tuple[str, str]]:
    return list(TranscriptEntry.objects.filter(session=session).order_by("position").values_list("role", "text"))


async def test_message_is_posted_to_own_session_once(user, make_session, running, bus_messages, eventually):
    session = make_session(user)
    env = running(session)
    before = len(entries(session))
    results = [await call_tool(env, "message", message="half done") for _ in range(2)]
    assert entries(session)[before:] == [("assistant", "half done")]
    assert results[0].details == results[1].details
    assert results[0].details["delivery"] == "posted in the session"
    assert results[0].details["sessionKey"] == session.key
    told = [event for message in bus_messages if isinstance(message, EventsCommitted) for event in message.events]
    assert [event["data"]["change"] for event in told if event["stream"] == "session"] == ["injected"]
    await call_tool(env, "message", call_id="c2", message="half done")
    assert len(entries(session)) == before + 2


async def test_message_to_another_session_names_its_source(user, make_session, running):
    there = make_session(user)
    session_service.patch_session(user, there, {"label": "ops room"})
    env = running(make_session(user, "agent:main:here"))
    for call_id, target in (("c1", there.key), ("c2", "ops room")):
        result = await call_tool(env, "message", call_id=call_id, target=target, message="look at this")
        assert result.details["sessionKey"] == there.key
    assert entries(there) == [("assistant", "[Message from agent main in session agent:main:here]\n\nlook at this")] * 2
    assert not Run.objects.filter(session=there).exists()


LIMITED = {
    "a webhook's run": ("agent:main:here", {"hook": "news"}, {"hook": "news"}),
    "a conversation with a webhook": ("agent:main:hook:news:1", {}, {"hook": "news"}),
    "a token with limits": (
        "agent:main:here",
        {"keyLimits": {"name": "abc", "allow": [], "deny": ["exec"]}},
        {"tokenPrefix": "abc"},
    ),
}


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
@pytest.mark.parametrize(("key", "options", "origin"), LIMITED.values(), ids=LIMITED.keys())
async def test_message_from_limited_run_is_untrusted_elsewhere(user, make_session, running, key, options, origin, elsewhere):
    here, there = make_session(user, key), make_session(user, "agent:main:there")
    target = {"target": there.key} if elsewhere else {}
    assert not (await call_tool(running(here, options=options), "message", message="run rm for me", **target)).is_error
    said = [each for each in read_model_history((there if elsewhere else here).pk, 1) if "run rm for me" in each.text]
    assert [each.origin for each in said] == [origin]
    told = filter_entry(said[0], {})
    assert (told.role, told.text.startswith("Content from your answer ")) == ("user", True)
    assert filter_entry(said[0], origin) == said[0]


async def test_message_on_external_channel_is_queued_in_outbox(user, make_session, running):
    session = make_session(user, "agent:main:telegram:dm:77")
    env = running(session)
    for _ in range(2):
        result = await call_tool(env, "message", message="half done")
    assert result.details["delivery"] == "queued for delivery by telegram"
    outbox.enqueue(run_pk=env.run_pk, session_id=session.pk, channel="telegram", payloads=[{"text": "the reply"}])
    assert [row.payload["text"] for row in Outbox.objects.order_by("id")] == ["half done", "the reply"]
    assert ("assistant", "half done") in entries(session)


async def test_guest_can_only_message_current_session(user, make_user, make_session, running):
    guest = make_user()
    room, both = make_session(user, "agent:main:room"), make_session(user)
    secret, mine = make_session(make_user(), "agent:main:secret"), make_session(guest, "agent:main:mine")
    for shared in (room, both):
        members.share(user, shared, guest.username, "writer")
    env = running(room, sender=guest)
    for target in (f"session:{both.pk}", f"session:{secret.pk}", secret.key, mine.key):
        result = await call_tool(env, "message", target=target, message="x")
        assert result.is_error
    assert [entries(session) for session in (both, secret, mine)] == [[], [], []]
    here = await call_tool(env, "message", message="to all of you")
    assert here.details["sessionKey"] == f"session:{room.pk}"


@pytest.mark.parametrize("arguments", [{"message": ""}, {"message": "x", "action": "poll"}, {}, {"message": "x", "to": "y"}])
async def test_invalid_message_arguments_are_rejected(user, make_session, running, arguments):
    session = make_session(user)
    env = running(session)
    before = entries(session)
    result = await call_tool(env, "message", **arguments)
    assert result.is_error
    assert "invalid arguments for `message`" in result.text
    assert entries(session) == before


def test_message_tool_is_unavailable_outside_run(user, make_session):
    from agents.tools.message import make_message
    from tools_app.core.definition import ToolUnavailable

    with pytest.raises(ToolUnavailable) as unavailable:
        make_message.create(make_tool_env(make_session(user)))
    assert unavailable.value.reason.code == "tool.outside_run"


async def test_exec_restrictions_apply_to_runs_in_other_sessions(user, make_session, running):
    allow_approval_requests()
    here, there, further = (make_session(user, f"agent:main:{name}") for name in ("here", "there", "further"))
    allow_approval_requests("session", str(here.pk), security="deny", ask="")
    await call_tool(running(here), "sessions_send", session_key=there.key, message="run it for me", timeout_seconds=0)
    (sent,) = sent_to(there)
    (claimed,) = (each for each in queue.claim_runs("w", 10).runs if each.pk == sent.pk)
    assert (rules_for("main", str(there.pk)).security, rules_for_run(claimed).security) == ("allowlist", "deny")
    assert rules_for_run(claimed).set_by["security"] == f"session:{here.pk}"
    env = make_tool_env(there, run_pk=claimed.pk)
    await call_tool(env, "sessions_send", session_key=further.key, message="and you", timeout_seconds=0)
    (onward,) = (each for each in queue.claim_runs("w", 10).runs if each.session_id == further.pk)
    assert rules_for_run(onward).security == "deny", "the rule goes along as far as the message does"
