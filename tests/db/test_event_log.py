"""The epoch of the event log, the note that reveals a restore, and the deletion of old events."""

import datetime as dt

import pytest
from django.db import IntegrityError, transaction

from clawsite.gateway.delivery.catch_up import BEGINNING, LogPosition, _read_events, _resolve_position
from clawsite.gateway.delivery.hub_queries import _find_cursor_before
from clawsite.infra import clock, db
from sessions_app import worker_tasks
from sessions_app.events import epoch, retention
from sessions_app.models import Event, EventLog, Run, Session, TranscriptEntry
from sessions_app.runs import lifecycle
from sessions_app.sessions import selectors
from sessions_app.sessions import service as session_service
from sessions_app.transcript.history import build_live_view, read_history
from tests.db.test_state import accept, claim, complete

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]

LONG_AGO = dt.timedelta(days=40)


@pytest.fixture(autouse=True)
def _small_steps(settings, tmp_path, monkeypatch):
    settings.HOME = tmp_path
    monkeypatch.setattr(worker_tasks, "BATCH_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(retention, "MAX_EVENTS_PER_STEP", 2)
    monkeypatch.setattr(retention, "PAGE_SIZE", 3)


def ran(user, session, run_id, *, ended: dt.timedelta = dt.timedelta(0)):
    """A run with three events: accepted, start, end."""
    pk = accept(user, session, run_id).pk
    (claimed,) = claim()
    complete(claimed)
    age(pk, ended)
    return pk


def age(run_pk: int, by: dt.timedelta) -> None:
    """Backdate by this time."""
    Run.objects.filter(pk=run_pk, ended_at__isnull=False).update(ended_at=clock.now() - by)
    Event.objects.filter(run=run_pk).update(ts=clock.to_ms(clock.now() - by))


def kept(session) -> list[int]:
    return list(Event.objects.filter(session=session).order_by("cursor").values_list("cursor", flat=True))


def test_single_epoch_survives_next_migration():
    before = epoch.current_epoch()
    epoch.install_epoch()
    assert (epoch.current_epoch(), len(before), EventLog.objects.count()) == (before, 8, 1)
    with pytest.raises(IntegrityError), transaction.atomic():
        EventLog.objects.create(id=2, epoch="x")


def test_new_epoch_differs_from_previous_one():
    before = epoch.current_epoch()
    assert epoch.start_new_epoch() == epoch.current_epoch() != before


def test_processes_starting_on_same_database_keep_epoch(tmp_path):
    before = epoch.current_epoch()
    for _ in range(3):
        epoch.update_note(tmp_path)
    assert epoch.current_epoch() == before
    assert epoch.read_note(tmp_path) == epoch.EpochMark(before, EventLog.objects.get().mark)


def test_restored_older_database_gets_new_epoch_once(tmp_path, caplog):
    backup = EventLog.objects.get()
    epoch.update_note(tmp_path)
    backup.save()  # restored
    epoch.update_note(tmp_path)
    after = epoch.current_epoch()
    assert after != backup.epoch
    assert "older than last seen by this host" in caplog.text
    epoch.update_note(tmp_path)
    assert epoch.current_epoch() == after


def test_second_host_does_not_change_epoch_again(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    backup = EventLog.objects.get()
    for home in (one, two):
        home.mkdir()
        epoch.update_note(home)
    backup.save()
    epoch.update_note(one)
    after = epoch.current_epoch()
    epoch.update_note(two)
    assert epoch.current_epoch() == after != backup.epoch


@pytest.mark.parametrize("found", ["", "nonsense", "[]", '{"epoch": "x"}'])
def test_unreadable_note_is_rewritten(tmp_path, found):
    before = epoch.current_epoch()
    (tmp_path / epoch.NOTE_FILE).write_text(found)
    epoch.update_note(tmp_path)
    assert epoch.read_note(tmp_path) == epoch.EpochMark(before, EventLog.objects.get().mark)


async def test_worker_notices_restore_while_running(settings):
    backup = EventLog.objects.get()
    await worker_tasks.record_log_position()
    await db.write(backup.save)
    await worker_tasks.record_log_position()
    assert epoch.current_epoch() != backup.epoch
    assert epoch.read_note(settings.HOME).epoch == epoch.current_epoch()


def test_cursor_from_another_epoch_is_not_resumed(user, make_session):
    session = make_session(user)
    ran(user, session, "k1")
    before = epoch.epoch_of_session(session)
    assert _resolve_position(session, LogPosition(2, before)) == (before, 2)
    after = epoch.start_new_epoch()
    told, words = _resolve_position(session, LogPosition(2, before))
    assert (told.partition("-")[0], "restored" in words) == (after, True)
    assert _resolve_position(session, LogPosition(2, None)) == (told, 2)  # clients that send no epoch are not checked


def test_recreated_session_does_not_resume_deleted_one(user, make_session):
    first = make_session(user)
    ran(user, first, "k1")
    seen = max(kept(first))
    session_service.delete_session(user, first)
    known = epoch.epoch_of_session(first)
    again = session_service.create_session(user, key=first.key)
    ran(user, again, "k2")
    assert "deleted" in str(_resolve_position(again, LogPosition(seen, known))[1])
    assert _resolve_position(again, LogPosition(0, epoch.current_epoch())) == (epoch.epoch_of_session(again), 0)


async def test_only_events_of_long_ended_runs_are_deleted(user, make_session):
    session, other = make_session(user), make_session(user)
    old = ran(user, session, "k1", ended=LONG_AGO)
    ran(user, session, "k2")
    ran(user, other, "k3")
    await worker_tasks.delete_old_events()
    assert (kept(session), kept(other)) == ([4, 5, 6], [1, 2, 3])
    assert Run.objects.get(pk=old).status == "completed"
    assert TranscriptEntry.objects.filter(run=old).count() == 1
    assert selectors.find_oldest_cursor(session) == 4
    assert selectors.read_run_state(user, "k1").ended


async def test_events_without_run_are_deleted_at_same_age(user, make_session):
    session = make_session(user)
    for text in ("old", "older", "new"):
        session_service.inject_message(user, session, text)
    Event.objects.filter(session=session, cursor__lte=2).update(ts=clock.to_ms(clock.now() - LONG_AGO))
    await worker_tasks.delete_old_events()
    assert kept(session) == [3]


async def test_kept_events_have_no_gap(user, make_session):
    """A run that has been waiting for months was accepted before one that ended long ago: events of both are kept from there on."""
    session = make_session(user)
    first, second = accept(user, session, "k1").pk, accept(user, session, "k2").pk
    (claimed,) = claim()
    complete(claimed)
    for pk in (first, second):
        age(pk, LONG_AGO)
    await worker_tasks.delete_old_events()
    assert kept(session) == [2, 3, 4]
    assert _read_events(session, LogPosition(1, None), 10)[1][0][0]["cursor"] == 2
    assert build_live_view(first).status == "completed"  # without its first event
    assert "no longer stored" in _read_events(session, LogPosition(0, None), 10)[1]


@pytest.mark.parametrize("days", [0, 365])
async def test_retention_is_configurable_and_zero_keeps_everything(user, make_session, settings, days):
    settings.EVENT_DAYS = days
    session = make_session(user)
    ran(user, session, "k1", ended=LONG_AGO)
    await worker_tasks.delete_old_events()
    assert kept(session) == [1, 2, 3]


async def test_session_continues_after_all_events_are_deleted(user, make_session):
    session = make_session(user)
    ran(user, session, "k1", ended=LONG_AGO)
    await worker_tasks.delete_old_events()
    session.refresh_from_db()
    assert (session.cursor, kept(session), selectors.find_oldest_cursor(session)) == (3, [], 4)
    assert _resolve_position(session, LogPosition(3, None))[1] == 3
    assert _resolve_position(session, LogPosition(BEGINNING, None))[1] == 3
    assert "no longer stored" in _resolve_position(session, LogPosition(2, None))[1]
    assert _find_cursor_before(str(session.id), clock.now_ms()) == 3
    page = read_history(session, limit=10)
    assert (page.cursor, page.active, [message["role"] for message in page.messages]) == (3, None, ["user"])
    ran(user, session, "k2")
    events, cursor, more = _read_events(session, LogPosition(3, None), 10)[1]
    assert ([event["cursor"] for event in events], cursor, more) == ([4, 5, 6], 6, False)
    assert _find_cursor_before(str(session.id), clock.to_ms(clock.now() - dt.timedelta(hours=1))) == 3


def test_events_deleted_during_read_are_reported_missing(user, make_session, monkeypatch):
    session = make_session(user)
    ran(user, session, "k1")
    look = selectors.find_oldest_cursor

    def deleted_meanwhile(session):
        oldest = look(session)
        Event.objects.filter(session=session, cursor__lte=2).delete()
        return oldest

    monkeypatch.setattr(selectors, "find_oldest_cursor", deleted_meanwhile)
    assert _read_events(session, LogPosition(0, None), 10)[1] == "events up to 2 are no longer stored"


async def test_repeated_run_id_without_events_returns_original_run(user, make_session):
    session = make_session(user)
    first = ran(user, session, "k1", ended=LONG_AGO)
    await worker_tasks.delete_old_events()
    again = accept(user, session, "k1")
    assert (again.pk, again.created, again.status) == (first, False, "completed")
    assert Session.objects.get(pk=session.pk).cursor == 3
    assert lifecycle.accept_run(user=user, session=session, run_id="k2", prompt="more").created
