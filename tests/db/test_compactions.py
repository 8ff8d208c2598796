"""A summary in the transcript: what the model sees with it, and rewinding, forking and copying across it."""

import io
import uuid

import pytest
from django.db import transaction

from clawsite.infra.reasons import Reason
from sessions_app.events.journal import NewEntry, NewEvent
from sessions_app.models import Run, Session, TranscriptEntry
from sessions_app.runs import lifecycle, queue
from sessions_app.runs.compaction_requests import request_compaction
from sessions_app.sessions import forks, selectors
from sessions_app.sessions.service import inject_message
from sessions_app.sessions.transfer import export_lines, import_transcript
from sessions_app.transcript.history import read_history
from sessions_app.transcript.messages import MAX_HISTORY_ENTRIES, OWN_ANSWERS_KEY, SUMMARIZED_THROUGH_KEY, read_model_history
from tests.db.test_rewinds import answer, ask, id_of, modelled, shown, turn

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


def summary_entry(text: str, through: str | None) -> NewEntry:
    meta = {SUMMARIZED_THROUGH_KEY: through, "kept": 2} if through else {}
    return NewEntry("compaction", "", [{"type": "text", "text": text}], text, uuid.uuid4().hex[:16], meta)


@transaction.atomic
def compacted(user, session, text: str, through: str, **options: object) -> Run:
    """A run that only summarizes, as its worker ends it."""
    accepted = request_compaction(user, session, run_id=uuid.uuid4().hex)
    run = Run.objects.get(pk=accepted.pk)
    Run.objects.filter(pk=run.pk).update(options={**run.options, **options})
    (claimed,) = queue.claim_runs("w", 1).runs
    queue.write_step(
        claimed,
        to=Run.Status.COMPLETED,
        reason="compacted",
        entries=[summary_entry(text, through)],
        events=[
            NewEvent("compaction", {"phase": "end", "completed": True}),
            lifecycle.build_end_event(Run.Status.COMPLETED, "compacted"),
        ],
    )
    return Run.objects.get(pk=accepted.pk)


@pytest.fixture
def talk(user, make_session):
    session = make_session(user, "agent:main:talk")
    for prompt in ("one", "two", "three"):
        turn(user, session, prompt)
    compacted(user, session, "they counted", id_of(session, "to two"))
    turn(user, session, "four")
    session.refresh_from_db()
    return session


def test_model_sees_summary_and_users_see_full_history(user, talk):
    assert modelled(talk) == ["they counted", "three", "to three", "four", "to four"]
    assert shown(talk) == [words for n in ("one", "two", "three", "four") for words in (n, f"to {n}")]
    noticed = read_history(talk, limit=100, notices=True).messages
    assert [message["text"] for message in noticed if message["role"] == "notice"] == ["they counted"]
    assert [entry["text"] for entry in selectors.read_preview(talk, limit=3, max_chars=100)] == ["to three", "four", "to four"]


def test_summary_by_restricted_run_keeps_history_of_others(user, talk):
    compacted(user, talk, "the stranger says so", id_of(talk, "to four"), hook="news")
    talk.refresh_from_db()
    told = [entry.text for entry in read_model_history(talk.pk, talk.generation, reader={"hook": "news"})]
    assert told == ["the stranger says so"]
    assert modelled(talk) == ["they counted", "three", "to three", "four", "to four"]


def test_compaction_run_adds_no_message_and_sets_no_title(user, make_session):
    session = make_session(user)
    inject_message(user, session, "a note", "")
    accepted = request_compaction(user, session, run_id="c1", words="the ship")
    (claimed,) = queue.claim_runs("w", 1).runs
    assert (claimed.pk, Run.objects.get(pk=accepted.pk).steps) == (accepted.pk, 0)
    assert TranscriptEntry.objects.filter(session=session).count() == 1
    session.refresh_from_db()
    assert (session.title, session.entry_count) == ("", 1)
    assert read_history(session, limit=10).active["runId"] == "c1"


def test_repeated_run_id_requests_compaction_once(user, talk):
    first = request_compaction(user, talk, run_id="c1", words="the ship")
    again = request_compaction(user, talk, run_id="c1", words="the ship")
    assert (first.pk, again.created) == (again.pk, False)
    (waiting,) = read_history(talk, limit=1).queued
    assert (waiting["operation"], waiting["text"]) == ("compact", "/compact the ship")


def test_latest_summary_replaces_previous_one(user, talk):
    compacted(user, talk, "they counted to four", id_of(talk, "to three"))
    assert modelled(talk) == ["they counted to four", "four", "to four"]


def test_edit_before_summary_boundary_restores_original_messages(user, talk):
    turn(user, talk, "deux", replaces=id_of(talk, "two"))
    assert modelled(talk) == ["one", "to one", "deux", "to deux"]


def test_edit_before_summary_creation_discards_summary(user, talk):
    turn(user, talk, "trois", replaces=id_of(talk, "three"))
    assert modelled(talk) == ["one", "to one", "two", "to two", "trois", "to trois"]


def test_edit_after_summary_keeps_it(user, talk):
    turn(user, talk, "quatre", replaces=id_of(talk, "four"))
    assert modelled(talk) == ["they counted", "three", "to three", "quatre", "to quatre"]
    noticed = read_history(talk, limit=100, notices=True).messages
    assert [message["text"] for message in noticed if message["role"] == "notice"] == ["they counted"]


def test_fork_keeps_summary_it_includes(user, talk):
    whole = forks.fork_session(user, talk)
    assert modelled(whole) == modelled(talk)
    assert shown(whole) == shown(talk)
    part = forks.fork_session(user, talk, id_of(talk, "to two"))
    assert modelled(part) == ["one", "to one", "two", "to two"]


def test_imported_copy_has_same_model_history(user, talk):
    turn(user, talk, "quatre", replaces=id_of(talk, "four"))
    talk.refresh_from_db()
    made = import_transcript(user, "agent:main:copy", io.BytesIO(b"".join(export_lines(talk))))
    copy = Session.objects.get(pk=made.session.pk)
    assert modelled(copy) == modelled(talk)
    assert shown(copy) == shown(talk)


def test_summary_without_valid_boundary_is_ignored(user, talk):
    entries = [summary_entry("nonsense", "no such message"), summary_entry("nonsense", None)]
    ask(user, talk, "five")
    (claimed,) = queue.claim_runs("w", 1).runs
    with transaction.atomic():
        queue.write_step(claimed, entries=entries)
    assert next(entry.text for entry in read_model_history(talk.pk, 1, claimed.pk)) == "they counted"
    assert "nonsense" not in [entry.text for entry in read_model_history(talk.pk, 1, claimed.pk)]


def test_message_injected_during_compaction_is_kept(user, talk):
    ask(user, talk, "five")
    (claimed,) = queue.claim_runs("w", 1).runs
    through = id_of(talk, "to four")
    inject_message(user, talk, "by the way", "")
    with transaction.atomic():
        queue.write_step(claimed, entries=[summary_entry("all of it", through)])
    assert [entry.text for entry in read_model_history(talk.pk, 1, claimed.pk)] == ["all of it", "by the way", "five"]


def test_summary_within_run_keeps_prompt_and_counts_steps(user, talk):
    ask(user, talk, "five")
    (claimed,) = queue.claim_runs("w", 1).runs
    said = [NewEntry("message", "assistant", [{"type": "text", "text": f"step {n}"}], f"step {n}", f"step{n}") for n in range(3)]
    with transaction.atomic():
        queue.write_step(claimed, entries=said)
        queue.write_step(claimed, entries=[summary_entry("up to step 1", "step1")])
    past = read_model_history(talk.pk, 1, claimed.pk)
    assert [entry.text for entry in past] == ["up to step 1", "five", "step 2"]
    assert past[0].meta[OWN_ANSWERS_KEY] == 2


def test_summary_covering_older_entries_applies_within_history_window(user, make_session):
    session = make_session(user)
    for n in range(MAX_HISTORY_ENTRIES // 2 - 1):
        turn(user, session, str(n))
    compacted(user, session, "they counted", id_of(session, "to 3"))
    assert (modelled(session)[0], modelled(session)[1]) == ("they counted", "4")
    turn(user, session, "more")
    turn(user, session, "and more")
    assert modelled(session)[0] == "they counted"


def test_failure_notice_follows_compaction_notice(user, talk):
    ask(user, talk, "five")
    (claimed,) = queue.claim_runs("w", 1).runs
    with transaction.atomic():
        queue.write_step(claimed, entries=[summary_entry("all", id_of(talk, "to four"))])
        queue.end_run(claimed, Run.Status.FAILED, "context_overflow", Reason.of("too long"))
    talk.refresh_from_db()
    last = [message.get("notice") for message in read_history(talk, limit=100, notices=True).messages][-2:]
    assert last == ["compaction", "failed"]


def test_failed_prompt_can_be_retried_after_summary(user, talk):
    ask(user, talk, "five")
    (claimed,) = queue.claim_runs("w", 1).runs
    with transaction.atomic():
        queue.write_step(claimed, entries=[summary_entry("all", id_of(talk, "to four"))])
        queue.end_run(claimed, Run.Status.FAILED, "context_overflow", Reason.of("too long"))
    ask(user, talk, "five", replaces=id_of(talk, "five"))
    answer("to five")
    assert modelled(talk) == ["they counted", "three", "to three", "four", "to four", "five", "to five"]
