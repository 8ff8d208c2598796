"""Accept, claim, step, append, finish: the state layer on the database of this run."""

import threading

import pytest
from django.db import connection, transaction

from clawsite.infra import sql
from clawsite.infra.errors import Conflict, NotFound, QueueFull
from sessions_app.events.journal import NewEntry, NewEvent
from sessions_app.models import Event, Lane, Run, Session, TranscriptEntry
from sessions_app.runs import lifecycle, queue, tool_calls, waiting
from sessions_app.sessions import selectors
from sessions_app.sessions import service as session_service
from sessions_app.transcript.history import MAX_QUEUED_CHARACTERS, read_history
from sessions_app.transcript.messages import read_model_history
from tests.harness.waits import park

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


def accept(user, session, run_id, prompt="hello", **kwargs):
    return lifecycle.accept_run(user=user, session=session, run_id=run_id, prompt=prompt, **kwargs)


def claim(most=10, worker="w1"):
    with transaction.atomic():
        return queue.claim_runs(worker, most).runs


def complete(claimed):
    with transaction.atomic():
        queue.write_step(
            claimed, to=Run.Status.COMPLETED, reason="stop", events=[lifecycle.build_end_event(Run.Status.COMPLETED, "stop")]
        )


def test_accepted_run_creates_event_and_session_title(user, make_session):
    session = make_session(user)
    accepted = accept(user, session, "k1", "What is\n the   time?")
    event = Event.objects.get(run=accepted.pk)
    assert (accepted.created, accepted.status) == (True, "accepted")
    assert (event.seq, event.cursor, event.stream, event.data["phase"]) == (1, 1, "lifecycle", "accepted")
    assert Session.objects.get(pk=session.pk).title == "What is the time?"


def test_repeated_key_returns_first_run(user, make_session):
    session = make_session(user)
    first, again = accept(user, session, "k1"), accept(user, session, "k1")
    assert (again.pk, again.created, again.accepted_at_ms) == (first.pk, False, first.accepted_at_ms)
    assert Session.objects.get(pk=session.pk).cursor == 1


def test_same_key_with_different_body_conflicts(user, make_session):
    session = make_session(user)
    accept(user, session, "k1")
    with pytest.raises(Conflict):
        accept(user, session, "k1", "something else")


def test_deleted_session_accepts_no_messages(user, make_session):
    session = make_session(user)
    Session.objects.filter(pk=session.pk).update(deleted_at="2026-01-01T00:00:00Z")
    with pytest.raises(NotFound):
        accept(user, session, "k1")
    assert not Run.objects.exists()


def test_same_key_of_two_users_creates_two_runs(make_user, make_session):
    one, two = make_user(), make_user()
    assert accept(one, make_session(one), "k1").pk != accept(two, make_session(two), "k1").pk


def test_concurrent_accepts_create_one_run(user, make_session):
    session, answers = make_session(user), []

    def send():
        try:
            answers.append(accept(user, session, "k1").pk)
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 100
    assert len(set(answers)) == 1
    assert list(Event.objects.filter(session=session).values_list("cursor", flat=True)) == [1]


def test_run_over_queue_limit_is_rejected(user, make_session, settings):
    settings.MAX_QUEUED_PER_USER = 2
    session = make_session(user)
    accept(user, session, "k1")
    accept(user, session, "k2")
    with pytest.raises(QueueFull, match="queued runs"):
        accept(user, session, "k3")


def test_claim_adds_prompt_to_transcript(user, make_session):
    session = make_session(user)
    accept(user, session, "k1", "hello")
    (claimed,) = claim()
    entry = TranscriptEntry.objects.get(session=session)
    assert (claimed.first, claimed.lease, claimed.prompt) == (True, 1, "hello")
    assert (entry.role, entry.text, entry.position, entry.step) == ("user", "hello", 1, 0)
    assert [e.data["phase"] for e in Event.objects.filter(run=claimed.pk).order_by("seq")] == ["accepted", "start"]


def test_runs_of_one_session_are_claimed_sequentially(user, make_session):
    session = make_session(user)
    for key in ("k1", "k2", "k3"):
        accept(user, session, key)
    order = []
    while taken := claim():
        assert len(taken) == 1
        order.append(taken[0].run_id)
        complete(taken[0])
    assert order == ["k1", "k2", "k3"]


def test_lane_never_exceeds_its_maximum(user, make_session):
    Lane.objects.filter(name="main").update(max_running=2)
    for number in range(5):
        accept(user, make_session(user), f"k{number}")
    first = claim()
    assert len(first) == 2
    assert claim() == []
    complete(first[0])
    assert len(claim()) == 1


def test_user_with_fewer_running_runs_comes_first(make_user, make_session):
    Lane.objects.filter(name="main").update(max_running=2)
    busy, late = make_user(), make_user()
    for number in range(4):
        accept(busy, make_session(busy), f"b{number}")
    accept(late, make_session(late), "l1")
    assert {claimed.run_id for claimed in claim()} == {"b0", "l1"}


def test_queued_cron_runs_do_not_delay_message(make_user, make_session, settings):
    settings.MAX_QUEUED_PER_USER = 2000
    machine, human = make_user(), make_user()
    for number in range(1000):
        accept(machine, make_session(machine), f"c{number}", lane="cron")
    accept(human, make_session(human), "m1")
    with transaction.atomic():
        crowd = queue.claim_runs("w1", 80)
    assert (len(crowd.runs), crowd.lane, crowd.others) == (5, "cron", ["main"])
    with transaction.atomic():
        message = queue.claim_runs("w1", 75, lanes=crowd.others)
    assert [claimed.run_id for claimed in message.runs] == ["m1"]


def test_worker_with_one_slot_alternates_lanes(user, make_session):
    for number in range(3):
        accept(user, make_session(user), f"c{number}", lane="cron")
        accept(user, make_session(user), f"m{number}", lane="main")
    order, lane = [], ""
    for _ in range(6):
        with transaction.atomic():
            turn = queue.claim_runs("w1", 1, after=lane)
        order += [claimed.run_id for claimed in turn.runs]
        lane = turn.lane
    assert order == ["c0", "m0", "c1", "m1", "c2", "m2"]


def test_parked_run_frees_slot_but_blocks_its_session(user, make_session):
    Lane.objects.filter(name="main").update(max_running=1)
    session = make_session(user)
    accept(user, session, "k1")
    accept(user, session, "k2")
    accept(user, make_session(user), "other")
    (parked,) = claim()
    with transaction.atomic():
        park(parked)
    (other,) = claim()
    assert other.run_id == "other"
    complete(other)
    assert claim() == []
    assert waiting.make_ready([parked.pk]) == 1
    (resumed,) = claim()
    assert (resumed.run_id, resumed.first, resumed.lease) == ("k1", False, 2)


def test_stale_worker_cannot_write(user, make_session):
    accept(user, make_session(user), "k1")
    (stale,) = claim(worker="w1")
    Run.objects.filter(pk=stale.pk).update(lease_until=1.0)
    with transaction.atomic():
        (rescued,) = queue.recover_runs("w2", 5)
    before = Event.objects.count()
    for write in (
        lambda: queue.write_step(stale, events=[NewEvent("assistant", {"delta": "x"})]),
        lambda: complete(stale),
        lambda: tool_calls.mark_started(stale, "c1", "read", {}),
    ):
        with pytest.raises(queue.LeaseLost), transaction.atomic():
            write()
    with transaction.atomic():
        assert queue.append_events([(stale, [NewEvent("assistant", {"delta": "x"})])]) == set()
        assert queue.renew_leases([stale]) == {}
    assert Event.objects.count() == before
    complete(rescued)


def test_append_skips_only_runs_with_stale_lease(user, make_session):
    for key in ("k1", "k2"):
        accept(user, make_session(user), key)
    good, bad = claim()
    Run.objects.filter(pk=bad.pk).update(lease_token=9)
    delta = [NewEvent("assistant", {"delta": "x"})]
    with transaction.atomic():
        assert queue.append_events([(good, delta), (bad, delta)]) == {good.pk}
    assert Event.objects.filter(run=good.pk).count() == 3
    assert Event.objects.filter(run=bad.pk).count() == 2


def test_run_that_keeps_killing_workers_is_poisoned(user, make_session, settings):
    accept(user, make_session(user), "k1")
    (claimed,) = claim()
    for _ in range(settings.MAX_RESCUES):
        Run.objects.filter(pk=claimed.pk).update(lease_until=1.0)
        with transaction.atomic():
            queue.recover_runs("w2", 5)
    run = Run.objects.get(pk=claimed.pk)
    assert (run.status, run.reason) == ("error", "poisoned")
    last = Event.objects.filter(run=run).order_by("seq").last()
    assert (last.data["phase"], last.data["kind"]) == ("error", "poisoned")


def test_released_lease_does_not_count_as_rescue(user, make_session):
    accept(user, make_session(user), "k1")
    (claimed,) = claim()
    with transaction.atomic():
        queue.release_runs([claimed])
        (next_owner,) = queue.recover_runs("w2", 5)
    assert (next_owner.pk, next_owner.rescues) == (claimed.pk, 0)


def test_abort_ends_queued_run_and_signals_running_one(user, make_session):
    session = make_session(user)
    accept(user, session, "k1")
    accept(user, session, "k2")
    (running,) = claim()
    asked = {a.run_id: a.ended for a in lifecycle.request_abort(user=user, session=session)}
    assert asked == {"k1": False, "k2": True}
    assert Run.objects.get(run_id="k2").status == "aborted"
    with transaction.atomic():
        assert queue.renew_leases([running]) == {running.pk: "rpc"}


def test_seq_and_cursor_have_no_gaps(user, make_session):
    session = make_session(user)
    for key in ("k1", "k2"):
        accept(user, session, key)
        (claimed,) = claim()
        with transaction.atomic():
            queue.append_events([(claimed, [NewEvent("assistant", {"delta": "a"}), NewEvent("assistant", {"delta": "b"})])])
        complete(claimed)
    cursors = list(Event.objects.filter(session=session).order_by("cursor").values_list("cursor", flat=True))
    assert cursors == list(range(1, 11))
    for run in Run.objects.all():
        assert list(run.events.order_by("seq").values_list("seq", flat=True)) == [1, 2, 3, 4, 5]


def test_database_clock_matches_system_clock():
    assert abs(sql.db_now() - __import__("time").time()) < 60


def test_time_without_worker_is_not_running_time(user, make_session):
    accept(user, make_session(user), "k1")
    (claimed,) = claim()
    with transaction.atomic():
        queue.release_runs([claimed])
    Run.objects.filter(pk=claimed.pk).update(claimed_at=sql.db_now() - 43_200)  # half a day later
    with transaction.atomic():
        (next_owner,) = queue.recover_runs("w2", 5)
    assert next_owner.running_seconds < 3600


def test_long_run_keeps_its_prompt_in_model_history(user, make_session):
    session = make_session(user)
    accept(user, session, "k1", "the question")
    (claimed,) = claim()
    answers = [NewEntry("message", "assistant", [{"type": "text", "text": "x"}], f"x{n}", f"m{n}") for n in range(450)]
    with transaction.atomic():
        queue.write_step(claimed, entries=answers)
    history = read_model_history(session.pk, 1, claimed.pk)
    assert (len(history), history[0].text, history[-1].text) == (451, "the question", "x449")


def test_injected_message_precedes_prompt_in_model_history(user, make_session):
    session = make_session(user)
    accept(user, session, "k1", "the question")
    (claimed,) = claim()
    session_service.inject_message(user, session, "by the way")
    assert [entry.text for entry in read_model_history(session.pk, 1, claimed.pk)] == ["by the way", "the question"]


def test_reset_clears_last_message_preview(user, make_session):
    session = make_session(user)
    session_service.inject_message(user, session, "old words")
    session_service.reset_session(user, session)
    (row,) = selectors.list_sessions(user, include_last=True).rows
    assert "lastMessagePreview" not in row


def test_run_state_is_readable_after_session_deletion(user, make_user, make_session):
    session = make_session(user)
    accept(user, session, "k1")
    session_service.delete_session(user, session)
    assert selectors.read_run_state(user, "k1").status == "aborted"
    with pytest.raises(NotFound):
        selectors.read_run_state(make_user(), "k1")


def test_long_queued_prompts_are_truncated_in_history(user, make_session):
    session = make_session(user)
    accept(user, session, "k1", "y" * 100_000)
    assert len(read_history(session, limit=10).queued[0]["text"]) == MAX_QUEUED_CHARACTERS
