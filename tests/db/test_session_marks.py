"""Pins, archive, unread marks and list order, which are personal."""

import pytest

from clawsite.infra import clock
from clawsite.infra.errors import Conflict, NotFound
from sessions_app.models import Run, Session, SessionMark, SessionMember
from sessions_app.runs import lifecycle, queue
from sessions_app.sessions import marks, selectors
from sessions_app.sessions import service as session_service
from tests.harness.waits import park

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


def listed(user, **options):
    return [row["key"].rpartition(":")[2] for row in selectors.list_sessions(user, **options).rows]


def row_of(user, session):
    return next(row for row in selectors.list_sessions(user).rows if row["id"] == str(session.pk))


@pytest.fixture
def five(user, make_session):
    return [make_session(user, f"agent:main:s{number}") for number in range(5)]


def test_pinned_sessions_come_first_latest_pin_first(user, five):
    marks.mark_session(user, five[1], pinned=True)
    marks.mark_session(user, five[0], pinned=True)
    assert listed(user) == ["s0", "s1", "s4", "s3", "s2"]
    marks.mark_session(user, five[0], pinned=False)
    assert listed(user) == ["s1", "s4", "s3", "s2", "s0"]


def test_pages_contain_each_session_once_in_order(user, five):
    marks.mark_session(user, five[2], pinned=True)
    marks.mark_session(user, five[0], pinned=True)
    marks.mark_session(user, five[3], archived=True)
    for size in (1, 2, 3):
        pages = [listed(user, limit=size, offset=at) for at in range(0, 4, size)]
        assert [key for page in pages for key in page] == ["s0", "s2", "s4", "s1"]


def test_archived_sessions_are_listed_separately(user, five):
    marks.mark_session(user, five[1], archived=True)
    marks.mark_session(user, five[3], archived=True, pinned=True)
    assert listed(user) == ["s4", "s2", "s0"]
    assert listed(user, archived=True) == ["s3", "s1"]
    assert selectors.list_sessions(user).total == 3
    assert selectors.list_sessions(user, archived=True).total == 2
    assert (listed(user, search="s1"), selectors.list_sessions(user, search="s1").total) == ([], 0)
    assert listed(user, search="s1", archived=True) == ["s1"]


def test_marks_are_per_user(user, make_user, make_session):
    session, friend = make_session(user), make_user()
    SessionMember.objects.create(session=session, user=friend)
    marks.mark_session(friend, session, pinned=True, archived=True)
    assert (row_of(user, session)["pinned"], row_of(user, session)["archived"]) == (False, False)
    assert selectors.list_sessions(friend).total == 0
    assert selectors.list_sessions(friend, archived=True).rows[0]["pinned"] is True


def test_reply_is_unread_until_marked_read(user, make_session):
    session = make_session(user)
    assert row_of(user, session)["unread"] is False
    session_service.inject_message(user, session, "news")
    assert row_of(user, session)["unread"] is True
    assert marks.mark_read(user, session) is True
    assert marks.mark_read(user, session) is False
    assert row_of(user, session)["unread"] is False
    session_service.inject_message(user, session, "more")
    assert row_of(user, session)["unread"] is True


def test_own_messages_are_not_unread(user, make_session):
    session = make_session(user)
    lifecycle.accept_run(user=user, session=session, run_id="k1", prompt="hi")
    queue.claim_runs("w", 1)
    assert (row_of(user, session)["unread"], row_of(user, session)["status"]) == (False, "running")


def test_auditor_has_no_unread_sessions(user, make_user, make_session):
    session, friend = make_session(user), make_user()
    session_service.inject_message(user, session, "news")
    SessionMember.objects.create(session=session, user=friend)
    assert row_of(make_user("Auditor"), session)["unread"] is False
    assert row_of(friend, session)["unread"] is True


def test_session_list_shows_run_status(user, make_session):
    busy, parked, idle = make_session(user), make_session(user), make_session(user)
    for number, session in enumerate((busy, parked)):
        lifecycle.accept_run(user=user, session=session, run_id=f"k{number}", prompt="hi")
    assert row_of(user, busy)["status"] == "queued"
    claimed = {one.session_id: one for one in queue.claim_runs("w", 2).runs}
    park(claimed[parked.pk])
    lifecycle.accept_run(user=user, session=parked, run_id="k3", prompt="behind it")
    facts = [(row_of(user, session)["status"], row_of(user, session)["waitingFor"]) for session in (busy, parked, idle)]
    assert facts == [("running", None), ("waiting", "approval"), (None, None)]


def test_repeated_pin_keeps_first_timestamp(user, make_session):
    session = make_session(user)
    marks.mark_session(user, session, pinned=True)
    first = SessionMark.objects.get().pinned_at
    marks.mark_session(user, session, pinned=True)
    assert SessionMark.objects.get().pinned_at == first


def test_deleted_session_is_restored_with_messages(user, make_session):
    session = make_session(user)
    session_service.inject_message(user, session, "still here")
    session_service.delete_session(user, session)
    restored, was_deleted = session_service.restore_session(user, str(session.generation_id))
    assert (restored.pk, was_deleted) == (session.pk, True)
    assert selectors.read_preview(restored, limit=1, max_chars=20) == [{"role": "assistant", "text": "still here"}]
    assert session_service.restore_session(user, str(session.pk))[1] is False


def test_restore_conflicts_if_key_is_reused(user, make_session):
    session = make_session(user, "agent:main:x")
    session_service.delete_session(user, session)
    make_session(user, "agent:main:x")
    with pytest.raises(Conflict):
        session_service.restore_session(user, str(session.pk))


def test_only_owner_can_restore_within_thirty_days(user, make_user, make_session):
    session = make_session(user)
    session_service.delete_session(user, session)
    with pytest.raises(NotFound):
        session_service.restore_session(make_user(), str(session.pk))
    Session.objects.filter(pk=session.pk).update(deleted_at=clock.now() - session_service.RESTORE_PERIOD)
    with pytest.raises(NotFound):
        session_service.restore_session(user, str(session.pk))


def test_restore_drops_taken_label_and_keeps_runs_aborted(user, make_session):
    session = make_session(user)
    session_service.patch_session(user, session, {"label": "work"})
    lifecycle.accept_run(user=user, session=session, run_id="k1", prompt="hi")
    session_service.delete_session(user, session)
    session_service.patch_session(user, make_session(user), {"label": "work"})
    assert session_service.restore_session(user, str(session.pk))[0].label == ""
    assert Run.objects.get().status == Run.Status.ABORTED
