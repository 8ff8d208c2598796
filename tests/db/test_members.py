"""A session that is no longer shared: the member's runs there end, and they no longer get the answers."""

import threading

import pytest
from django.db import connection, transaction

from clawsite.accounts.models import User
from clawsite.infra.errors import NotFound
from sessions_app.models import Run, Session
from sessions_app.runs import lifecycle, queue
from sessions_app.runs.results import find_own_run
from sessions_app.sessions import members, selectors

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


@pytest.fixture
def guest(make_user) -> User:
    return make_user()


@pytest.fixture
def room(user: User, guest: User, make_session) -> Session:
    """A session of `user` in which `guest` can write."""
    session = make_session(user)
    members.share(user, session, guest.username, "writer")
    return session


def accept(user: User, session: Session, run_id: str) -> lifecycle.AcceptedRun:
    return lifecycle.accept_run(user=user, session=session, run_id=run_id, prompt="hello")


def ends() -> dict[str, tuple[str, str]]:
    return {run.run_id: (run.status, run.reason) for run in Run.objects.all()}


@pytest.mark.parametrize("role", [None, "viewer"])
def test_losing_write_access_aborts_members_runs(user, guest, room, role):
    for person, run_id in ((guest, "theirs-1"), (user, "mine"), (guest, "theirs-2")):
        accept(person, room, run_id)
    with transaction.atomic():
        (running,) = queue.claim_runs("w1", 10).runs
    members.share(user, room, guest.username, role)
    assert ends() == {"theirs-1": ("running", ""), "mine": ("accepted", ""), "theirs-2": ("aborted", "share-ended")}
    with transaction.atomic():
        assert queue.renew_leases([running]) == {running.pk: "share-ended"}


def test_member_with_write_access_keeps_runs(user, guest, room):
    accept(guest, room, "theirs")
    members.share(user, room, guest.username, "writer")
    assert ends() == {"theirs": ("accepted", "")}


def test_run_accepted_during_unshare_is_aborted(user, guest, room, monkeypatch):
    look = lifecycle.check_may_write
    taken = threading.Event()

    def take_back() -> None:
        try:
            members.share(user, room, guest.username, None)
            taken.set()
        finally:
            connection.close()

    thread = threading.Thread(target=take_back)

    def look_and_dawdle(*who) -> None:
        look(*who)
        thread.start()
        taken.wait(1)

    monkeypatch.setattr(lifecycle, "check_may_write", look_and_dawdle)
    accept(guest, room, "theirs")
    thread.join(20)
    assert taken.is_set()
    assert ends() == {"theirs": ("aborted", "share-ended")}


def test_removed_member_cannot_read_run_state(user, guest, room):
    accept(guest, room, "theirs")
    assert selectors.read_run_state(guest, "theirs").run_id == find_own_run(guest, "theirs").run_id == "theirs"
    members.share(user, room, guest.username, None)
    with pytest.raises(NotFound):
        selectors.read_run_state(guest, "theirs")
    with pytest.raises(NotFound):
        find_own_run(guest, "theirs")
    assert selectors.read_run_state(user, "theirs").status == "aborted"
