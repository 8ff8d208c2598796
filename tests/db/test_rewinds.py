"""Rewinds, forks, and details of messages."""

import io
import json
import uuid

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawsite.infra.errors import Conflict, Forbidden, InvalidRequest, NotFound
from clawsite.infra.reasons import Reason
from sessions_app.events.journal import NewEntry
from sessions_app.models import Event, Run, Session, SessionMember, ToolCall, TranscriptEntry
from sessions_app.run_request import Prompt, RunRequest
from sessions_app.runs import lifecycle, queue, tool_calls
from sessions_app.runs.tool_calls import CallDecision
from sessions_app.search import search_sessions
from sessions_app.sessions import forks, selectors
from sessions_app.sessions import service as session_service
from sessions_app.sessions.transfer import export_lines, import_transcript
from sessions_app.transcript.history import read_history
from sessions_app.transcript.messages import read_model_history

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


def ask(user, session, prompt, *, replaces=None, run_id=""):
    request = RunRequest(Prompt(replaces or ""))
    return lifecycle.accept_run(user=user, session=session, run_id=run_id or uuid.uuid4().hex, prompt=prompt, request=request)


@transaction.atomic
def answer(text):
    """Claim the next run and end it with an answer."""
    (claimed,) = queue.claim_runs("w", 1).runs
    entry = NewEntry("message", "assistant", [{"type": "text", "text": text}], text, uuid.uuid4().hex[:16], {"stopReason": "stop"})
    queue.write_step(
        claimed,
        to=Run.Status.COMPLETED,
        reason="stop",
        entries=[entry],
        events=[lifecycle.build_end_event(Run.Status.COMPLETED, "stop")],
    )
    return claimed


def turn(user, session, prompt, **options):
    ask(user, session, prompt, **options)
    answer(f"to {prompt}")


def shown(session, **options):
    session.refresh_from_db()
    return [message["content"][0]["text"] for message in read_history(session, limit=100, **options).messages]


def id_of(session, text):
    return next(m["messageId"] for m in read_history(session, limit=1000).messages if m["content"][0]["text"] == text)


def modelled(session):
    return [entry.text for entry in read_model_history(session.pk, session.generation)]


@pytest.fixture
def talk(user, make_session):
    session = make_session(user, "agent:main:talk")
    for prompt in ("one", "two", "three"):
        turn(user, session, prompt)
    session.refresh_from_db()
    return session


def test_replaced_message_and_later_ones_are_hidden(user, talk):
    turn(user, talk, "zwei", replaces=id_of(talk, "two"))
    seen = ["one", "to one", "zwei", "to zwei"]
    assert shown(talk) == modelled(talk) == seen
    assert [item["text"] for item in selectors.read_preview(talk, limit=9, max_chars=9)] == seen
    assert selectors.list_sessions(user, include_last=True).rows[0]["lastMessagePreview"] == "to zwei"
    assert [hit.message_id for hit in search_sessions(user, "three", limit=5)] == []
    assert [hit.snippet.text for hit in search_sessions(user, "zwei", limit=5)] == ["to zwei", "zwei"]
    assert TranscriptEntry.objects.filter(session=talk).count() == 9


def test_first_message_can_be_replaced(user, talk):
    turn(user, talk, "eins", replaces=id_of(talk, "one"))
    assert shown(talk) == modelled(talk) == ["eins", "to eins"]
    event = Event.objects.get(session=talk, stream="session")
    assert event.data == {"change": "rewind", "keepThrough": None, "keepThroughPosition": 0}


def test_rewind_event_precedes_run_event(user, talk):
    kept = id_of(talk, "to one")
    accepted = ask(user, talk, "zwei", replaces=id_of(talk, "two"))
    told = list(Event.objects.filter(session=talk).order_by("-cursor")[:2])
    assert [event.stream for event in told] == ["lifecycle", "session"]
    assert told[0].run_id == accepted.pk
    assert told[1].data == {"change": "rewind", "keepThrough": kept, "keepThroughPosition": 2}
    assert shown(talk) == ["one", "to one"]


def test_repeated_replacement_rewinds_once(user, talk):
    replaced = id_of(talk, "two")
    first = ask(user, talk, "zwei", replaces=replaced, run_id="k")
    again = ask(user, talk, "zwei", replaces=replaced, run_id="k")
    assert (again.pk, again.created) == (first.pk, False)
    assert TranscriptEntry.objects.filter(session=talk, kind="rewind").count() == 1
    with pytest.raises(Conflict, match="different request"):
        ask(user, talk, "zwei", run_id="k")


def test_message_cannot_be_replaced_during_run(user, talk):
    ask(user, talk, "four")
    with pytest.raises(Conflict, match="Stop it first"):
        ask(user, talk, "zwei", replaces=id_of(talk, "two"))
    assert not TranscriptEntry.objects.filter(kind="rewind").exists()


@pytest.mark.parametrize(("text", "error"), [("to two", InvalidRequest), (None, NotFound)])
def test_only_existing_user_message_can_be_replaced(user, talk, text, error):
    with pytest.raises(error):
        ask(user, talk, "zwei", replaces=id_of(talk, text) if text else "unheard-of")


def test_hidden_message_cannot_be_replaced(user, talk):
    hidden = id_of(talk, "three")
    turn(user, talk, "zwei", replaces=id_of(talk, "two"))
    with pytest.raises(NotFound):
        ask(user, talk, "drei", replaces=hidden)


def test_message_of_another_session_cannot_be_replaced(user, make_user, make_session, talk):
    with pytest.raises(NotFound):
        ask(user, make_session(user), "x", replaces=id_of(talk, "one"))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.just(None), st.integers(0, 7)), max_size=12))
def test_rewound_history_matches_truncated_list(user, make_session, steps):
    session, expected = make_session(user, f"agent:main:{uuid.uuid4().hex}"), []
    for number, step in enumerate(steps):
        questions = expected[::2]
        if step is None or step >= len(questions):
            turn(user, session, f"q{number}")
        else:
            expected = expected[: 2 * step]
            turn(user, session, f"q{number}", replaces=id_of(session, questions[step]))
        expected = [*expected, f"q{number}", f"to q{number}"]
    assert shown(session) == modelled(session) == expected
    assert [item["text"] for item in selectors.read_preview(session, limit=99, max_chars=9)] == expected
    paged, before = [], None
    while True:
        page = read_history(session, limit=3, before=before)
        paged = [*[message["content"][0]["text"] for message in page.messages], *paged]
        before = page.before
        if before is None:
            break
    assert paged == expected
    copy = import_transcript(user, f"agent:main:{uuid.uuid4().hex}", io.BytesIO(b"".join(export_lines(session)))).session
    assert shown(copy) == modelled(copy) == expected
    assert shown(forks.fork_session(user, session)) == expected


def test_export_and_import_preserve_rewinds(user, talk):
    turn(user, talk, "zwei", replaces=id_of(talk, "two"))
    talk.refresh_from_db()
    lines = b"".join(export_lines(talk))
    kinds = [json.loads(line)["type"] for line in lines.splitlines()[1:]]
    assert kinds == ["message"] * 6 + ["rewind"] + ["message"] * 2
    copy = import_transcript(user, "agent:main:copy", io.BytesIO(lines)).session
    assert shown(copy) == ["one", "to one", "zwei", "to zwei"]
    assert len(search_sessions(user, "zwei", limit=9)) == 4


def test_import_of_rewind_to_missing_entry_is_rejected(user, talk):
    turn(user, talk, "zwei", replaces=id_of(talk, "two"))
    talk.refresh_from_db()
    lines = b"".join(export_lines(talk)).replace(b'"keepThrough":"', b'"keepThrough":"x')
    with pytest.raises(InvalidRequest, match="line 8: keepThrough"):
        import_transcript(user, "agent:main:copy", io.BytesIO(lines))


def test_history_can_be_paged_around_message(user, make_session):
    session = make_session(user)
    for number in range(20):
        session_service.inject_message(user, session, f"m{number}")
    session.refresh_from_db()
    page = read_history(session, limit=6, around=id_of(session, "m10"))
    texts = [message["content"][0]["text"] for message in page.messages]
    assert texts == [f"m{number}" for number in range(7, 13)]
    newer = read_history(session, limit=100, after=page.after)
    assert newer.messages[0]["content"][0]["text"] == "m13"
    assert newer.after is None
    older = read_history(session, limit=100, before=page.before)
    assert (older.messages[-1]["content"][0]["text"], older.before) == ("m6", None)
    assert read_history(session, limit=6, around=id_of(session, "m19")).after is None
    assert read_history(session, limit=6, around=id_of(session, "m0")).before is None
    with pytest.raises(NotFound):
        read_history(session, limit=6, around="unheard-of")


def test_messages_include_model_usage_and_tool_metadata(user, make_session):
    session = make_session(user)
    ask(user, session, "read it")
    with transaction.atomic():
        (claimed,) = queue.claim_runs("w", 1).runs
        usage = {"input": 10, "output": 5, "costMicroUsd": 1500}
        meta = {"model": "fake-1", "provider": "openai", "usage": usage}
        said = NewEntry("message", "assistant", [{"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}], "", "a1", meta)
        queue.write_step(claimed, entries=[said], model="openai/fake-1")
        trace = {"exec": [{"layer": "agent", "rule": "exec is denied", "effect": "deny"}]}
        refused = CallDecision("c2", "exec", {}, ToolCall.Status.REFUSED, "agent", "no", verdict={"trace": trace})
        tool_calls.record_decisions(claimed, [CallDecision("c1", "read", {}, ToolCall.Status.ALLOWED), refused])
        tool_calls.mark_started(claimed, "c1", "read", {})
        tool_calls.record_result(claimed, "c1", "read", {"content": [], "details": {}}, text="", is_error=False)
        tool_calls.record_denial(claimed, refused)
        last = NewEntry("message", "assistant", [{"type": "text", "text": "done"}], "done", "a2", meta)
        queue.write_step(claimed, to=Run.Status.COMPLETED, reason="stop", entries=[last])
    question, call, read, denied, done = read_history(session, limit=10).messages
    assert [message["position"] for message in (question, call, read, denied, done)] == [1, 2, 3, 4, 5]
    assert (call["model"], call["usage"]["costUsd"], "durationMs" in call) == ("fake-1", 0.0015, False)
    assert read["verdict"]["allowed"] is True
    assert read["durationMs"] >= 0
    assert read["startedAt"] > 0
    rule = Reason("legacy", text="exec is denied")
    assert denied["verdict"] == {
        "allowed": False,
        "layer": "agent",
        "rule": "exec is denied",
        "why": "denied by layer agent: exec is denied",
        **Reason("call.denied_by", layer="agent", rule=rule).to_json(),
    }
    assert done["durationMs"] >= 0


def test_notices_appear_in_chronological_order(user, make_session):
    session = make_session(user)
    session_service.reset_session(user, session)
    ask(user, session, "one")
    with transaction.atomic():
        (claimed,) = queue.claim_runs("w", 1).runs
        queue.end_run(claimed, Run.Status.FAILED, "rate_limit", Reason.of("the model is busy"))
    ask(user, session, "two")
    with transaction.atomic():
        (claimed,) = queue.claim_runs("w", 1).runs
        queue.end_run(claimed, Run.Status.ABORTED, "rpc")
    session.refresh_from_db()
    messages = read_history(session, limit=10, notices=True).messages
    assert [message.get("notice", message["role"]) for message in messages] == ["reset", "user", "failed", "user", "aborted"]
    assert (messages[2]["text"], messages[2]["errorKind"], messages[2]["role"]) == ("the model is busy", "rate_limit", "notice")
    assert messages[4]["errorKind"] == "rpc"
    assert [message["role"] for message in read_history(session, limit=10).messages] == ["user", "user"]


def test_prompt_aborted_before_start_appears_as_notice(user, talk):
    ask(user, talk, "zwei", replaces=id_of(talk, "two"))
    lifecycle.request_abort(user=user, session=talk)
    notice = read_history(talk, limit=10, notices=True).messages[-1]
    assert (notice["notice"], notice["prompt"], notice["errorKind"]) == ("aborted", "zwei", "rpc")
    turn(user, talk, "on")
    roles = [message["role"] for message in read_history(talk, limit=10, notices=True).messages]
    assert roles == ["user", "assistant", "notice", "user", "assistant"]


def test_fork_copies_visible_messages_through_given_message(user, talk):
    turn(user, talk, "zwei", replaces=id_of(talk, "two"))
    fork = forks.fork_session(user, talk, id_of(talk, "zwei"))
    assert shown(fork) == modelled(fork) == ["one", "to one", "zwei"]
    assert (fork.forked_from_id, fork.title, fork.entry_count, fork.owner) == (talk.pk, "one", 3, user)
    row = next(row for row in selectors.list_sessions(user).rows if row["id"] == str(fork.pk))
    assert (row["forkedFrom"], row["unread"]) == (str(talk.pk), False)
    assert [m["timestamp"] for m in read_history(fork, limit=9).messages] == [
        m["timestamp"] for m in read_history(talk, limit=9).messages
    ][:3]
    turn(user, fork, "on")
    assert shown(fork) == ["one", "to one", "zwei", "on", "to on"]
    assert shown(talk) == ["one", "to one", "zwei", "to zwei"]


def test_fork_keeps_message_metadata(user, talk):
    fork = forks.fork_session(user, talk)
    first, copy = (read_history(session, limit=9).messages[1] for session in (talk, fork))
    assert copy["durationMs"] == first["durationMs"]
    assert "runId" not in copy
    assert Session.objects.get(pk=talk.pk).entry_count == 6


def noticed(session, **options):
    """The text of messages, and in brackets the prompts of runs that never started."""
    session.refresh_from_db()
    page = read_history(session, notices=True, **{"limit": 100, **options})
    return [
        f"[{m['prompt']}]" if "prompt" in m else m["content"][0]["text"] for m in page.messages if m["content"] or "prompt" in m
    ]


def stop(user, session, run, reason="rpc"):
    return lifecycle.request_abort(user=user, session=session, run_id=run.run_id, reason=reason)


def test_prompt_aborted_in_queue_keeps_its_position(talk, user):
    stop(user, talk, ask(user, talk, "never"))
    turn(user, talk, "last")
    assert noticed(talk)[-3:] == ["[never]", "last", "to last"]


def test_withdrawn_message_is_not_shown(talk, user):
    run = ask(user, talk, "oh no")
    assert [asked.ended for asked in stop(user, talk, run, Run.WITHDRAWN)] == [True]
    assert "[oh no]" not in noticed(talk)


def test_started_message_cannot_be_withdrawn(talk, user):
    run = ask(user, talk, "quick")
    answer("to quick")
    assert stop(user, talk, run, Run.WITHDRAWN) == []
    begun = ask(user, talk, "under way")
    with transaction.atomic():
        queue.claim_runs("w", 1)
    assert stop(user, talk, begun, Run.WITHDRAWN) == []
    assert Run.objects.get(pk=begun.pk).abort_requested_at is None


def test_unstarted_messages_appear_once_across_pages(user, make_session):
    session = make_session(user)
    stop(user, session, ask(user, session, "before all"))
    for number in range(6):
        turn(user, session, f"{number}")
        stop(user, session, ask(user, session, f"never {number}"))
    whole = noticed(session)
    assert whole == ["[before all]", *(word for n in range(6) for word in (f"{n}", f"to {n}", f"[never {n}]"))]
    for limit in range(1, 6):
        backwards, before = [], None
        while True:
            page = read_history(session, limit=limit, before=before, notices=True)
            backwards = noticed(session, limit=limit, before=before) + backwards
            if (before := page.before) is None:
                break
        assert backwards == whole, limit
        forwards, after = [], 0
        while after is not None:
            forwards += noticed(session, limit=limit, after=after)
            after = read_history(session, limit=limit, after=after, notices=True).after
        assert forwards == whole, limit


def test_rewind_hides_unstarted_messages_but_not_later_ones(talk, user):
    stop(user, talk, ask(user, talk, "early"))
    turn(user, talk, "changed")
    stop(user, talk, ask(user, talk, "hidden"))
    stop(user, talk, ask(user, talk, "instead", replaces=id_of(talk, "changed")))
    assert noticed(talk)[-2:] == ["[early]", "[instead]"]


def test_members_replace_own_messages_and_owner_any(talk, user, make_user):
    guest = make_user()
    SessionMember.objects.create(session=talk, user=guest, role=SessionMember.Role.WRITER)
    with pytest.raises(Forbidden):
        ask(guest, talk, "better", replaces=id_of(talk, "two"))
    turn(guest, talk, "of a guest")
    turn(guest, talk, "again", replaces=id_of(talk, "of a guest"))
    assert shown(talk)[-2:] == ["again", "to again"]
    turn(user, talk, "the owner's", replaces=id_of(talk, "again"))
    assert shown(talk)[-2:] == ["the owner's", "to the owner's"]


def test_shared_session_messages_name_their_sender(talk, user, make_user):
    guest = make_user()
    assert not any("sender" in message for message in read_history(talk, limit=9).messages)
    SessionMember.objects.create(session=talk, user=guest, role=SessionMember.Role.WRITER)
    turn(guest, talk, "of a guest")
    senders = [m.get("sender") for m in read_history(talk, limit=100).messages if m["role"] == "user"]
    assert senders == [user.username] * 3 + [guest.username]
    assert [(hit.role, hit.sender) for hit in search_sessions(user, "guest", limit=5)] == [
        ("assistant", ""),
        ("user", guest.username),
    ]
    stop(guest, talk, ask(guest, talk, "never"))
    assert read_history(talk, limit=100, notices=True).messages[-1]["sender"] == guest.username


def test_author_can_withdraw_prompt_aborted_in_queue(talk, user, make_user):
    run = ask(user, talk, "never")
    stop(user, talk, run)
    guest = make_user()
    SessionMember.objects.create(session=talk, user=guest, role=SessionMember.Role.WRITER)
    stop(guest, talk, run, Run.WITHDRAWN)
    assert noticed(talk)[-1] == "[never]"
    stop(user, talk, run, Run.WITHDRAWN)
    assert noticed(talk)[-1] == "to three"
