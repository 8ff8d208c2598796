"""Stops as rows: who may, what they cover, what is claimed meanwhile, and that no call starts once one is committed."""

import threading

import pytest
from django.db import connection, transaction

from clawsite.cli.doctor import database
from clawsite.infra import sql
from clawsite.infra.errors import Forbidden, InvalidRequest, NotFound
from sessions_app.models import Freeze, Run
from sessions_app.runs import claim_sql, freezes, lifecycle, queue

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


@pytest.fixture
def operator(make_user):
    return make_user("Operator", name="olga")


@pytest.fixture
def queued(user, make_session):
    """Make queued runs: queued("agent:main:a")."""

    def make(key: str = "", **options) -> int:
        session = make_session(user, key)
        return lifecycle.accept_run(user=user, session=session, run_id=f"k-{session.key}", prompt="hi", **options).pk

    return make


@transaction.atomic
def claimed(most: int = 10) -> set[int]:
    return {each.pk for each in queue.claim_runs("w1", most).runs}


def stop(scope="all", subject="", reason="it deletes files", by=None, by_name="host"):
    return freezes.freeze(scope, subject, reason=reason, by=by, by_name="" if by else by_name)[0]


def resume(scope="all", subject="", reason="all is well", by=None, by_name="host"):
    return freezes.resume(scope, subject, reason=reason, by=by, by_name="" if by else by_name)


def test_a_stop_says_who_when_and_why_and_so_does_its_end(operator):
    made = stop(by=operator)
    assert (made.scope, made.subject, made.by, made.by_name, made.reason) == ("all", "", operator, "olga", "it deletes files")
    assert freezes.list_active() == [made]
    lifted = resume(by=operator, reason="  it was\n a mistake ")
    assert (lifted.lifted_by, lifted.lifted_by_name, lifted.lifted_reason) == (operator, "olga", "it was a mistake")
    assert lifted.lifted_at >= lifted.at
    assert freezes.list_active() == []


def test_stopping_twice_is_one_stop_and_the_first_reason_stands():
    first, made = freezes.freeze("all", reason="one", by=None, by_name="host")
    second, made_again = freezes.freeze("all", reason="two", by=None, by_name="host")
    assert (made, made_again, second, second.reason) == (True, False, first, "one")
    resume()
    with pytest.raises(NotFound):
        resume()


@pytest.mark.parametrize("group", ["User", "Approver", "Auditor"])
def test_only_those_who_administer_the_gateway_may(make_user, group):
    with pytest.raises(Forbidden):
        stop(by=make_user(group))
    stop()
    with pytest.raises(Forbidden):
        resume(by=make_user(group))
    assert len(freezes.list_active()) == 1


def test_a_service_account_may_not_whatever_its_rights_are(operator):
    operator.is_service = True
    with pytest.raises(Forbidden):
        stop(by=operator)


@pytest.mark.parametrize(
    ("scope", "subject", "reason"),
    [("all", "", "  "), ("agent", "", "why"), ("world", "", "why"), ("agent", "x" * 65, "why")],
    ids=["no reason", "no agent", "unknown scope", "too long"],
)
def test_what_makes_no_sense_is_refused(scope, subject, reason):
    with pytest.raises(InvalidRequest):
        stop(scope, subject, reason)


@pytest.mark.parametrize("subject", ["0", "k1", "-1", "٣", "9" * 30])
def test_a_run_that_is_not_there_cannot_be_stopped(subject):
    with pytest.raises(NotFound):
        stop("run", subject)


def test_a_run_that_has_ended_cannot_be_stopped(queued, user):
    pk = queued()
    Run.objects.filter(pk=pk).update(status="completed")
    with pytest.raises(InvalidRequest):
        stop("run", str(pk))


def test_nothing_is_claimed_while_everything_is_stopped(queued):
    pk = queued()
    stop()
    assert claimed() == set()
    resume()
    assert claimed() == {pk}


def test_runs_of_another_agent_and_other_runs_are_claimed(queued):
    first, second, other = queued("agent:main:a"), queued("agent:main:b"), queued("agent:other:c")
    stop("run", str(second))
    stop("agent", "other")
    assert claimed() == {first}
    resume("agent", "other")
    assert claimed() == {other}
    resume("run", str(second))
    assert claimed() == {second}


def test_a_stopped_run_takes_no_place_of_another(queued):
    """It is left out before the room is given away, so that the one behind it is claimed."""
    stopped, free = queued("agent:main:a"), queued("agent:main:b")
    stop("run", str(stopped))
    assert claimed(most=1) == {free}


def test_one_that_waited_for_an_answer_is_not_claimed_either(queued):
    pk = queued()
    with transaction.atomic():
        (held,) = queue.claim_runs("w1", 1).runs
        queue.park_run(held, "approval")
    stop("agent", "main")
    lifecycle.make_runs_ready([pk])
    assert claimed() == set()
    resume("agent", "main")
    assert claimed() == {pk}


def test_the_condition_is_what_keeps_them(queued, monkeypatch):
    """The fault: without it they are claimed."""
    pk = queued()
    stop()
    monkeypatch.setattr(claim_sql, "NOT_FROZEN", "1 = 1")
    assert claimed() == {pk}


def test_a_run_of_a_dead_worker_is_taken_from_it_and_waits(queued):
    pk = queued()
    assert claimed() == {pk}
    stop()
    Run.objects.filter(pk=pk).update(lease_until=1.0)
    with transaction.atomic():
        assert queue.recover_runs("w2", 5) == []
    run = Run.objects.get(pk=pk)
    assert (run.status, run.reason, run.worker) == ("waiting", "frozen", "")
    assert claimed() == set()
    resume()
    assert claimed() == {pk}


def test_without_the_look_a_dead_workers_run_would_be_handed_out(queued, monkeypatch):
    pk = queued()
    claimed()
    stop()
    Run.objects.filter(pk=pk).update(lease_until=1.0)
    monkeypatch.setattr(freezes, "is_frozen", lambda agent, run_pk: False)
    with transaction.atomic():
        assert [each.pk for each in queue.recover_runs("w2", 5)] == [pk]


def test_how_many_still_work_is_counted_for_each_stop(queued):
    mine, other = queued("agent:main:a"), queued("agent:other:b")
    assert claimed() == {mine, other}
    assert freezes.count_still_running([stop("agent", "other")]) == 1
    assert freezes.count_still_running([stop()]) == 2
    assert freezes.count_still_running([]) == 0


def test_people_see_what_stops_them_and_not_whose_runs_are_stopped(queued, user, make_user, operator, make_session):
    run = stop("run", str(queued("agent:main:a")))
    everything = stop()
    stranger = make_user()
    assert freezes.list_visible(stranger) == [everything]
    assert freezes.list_visible(user) == freezes.list_visible(operator) == [everything, run]
    assert freezes.list_for_session(make_session(user, "agent:main:a"), freezes.list_active()) == [everything, run]
    assert freezes.list_for_session(make_session(user, "agent:main:b"), freezes.list_active()) == [everything]


def test_the_database_refuses_a_second_one_in_force():
    from django.db import IntegrityError

    made = stop()
    with pytest.raises(IntegrityError), transaction.atomic():
        Freeze.objects.create(scope="all", reason="x", by_name="x", at=made.at)


class Rival:
    """Stops everything from a connection of its own, while the test is in a transaction."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            stop()
            self.done.set()
        finally:
            connection.close()

    def join(self) -> None:
        self._thread.join(20)


def committed_while_a_start_is_open() -> bool:
    """Whether a stop is committed between the look of a start and its commit."""
    with transaction.atomic():
        freezes.check_not_frozen("main", 1)
        rival = Rival()
        early = rival.done.wait(1.0)
    rival.join()
    assert rival.done.is_set()
    return early


def test_a_stop_waits_for_starts_under_way_so_none_is_committed_after_it():
    assert not committed_while_a_start_is_open()
    with pytest.raises(freezes.RunFrozen, match="stopped by host: it deletes files"), transaction.atomic():
        freezes.check_not_frozen("main", 1)


def test_without_the_lock_a_start_could_be_committed_after_the_stop(monkeypatch):
    """The fault. On SQLite the transaction itself is the lock, so there nothing changes."""
    monkeypatch.setattr(sql, "lock_advisory", lambda number, shared=False: None)
    assert committed_while_a_start_is_open() == (connection.vendor == "postgresql")


def test_starts_do_not_wait_for_each_other():
    with transaction.atomic():
        freezes.check_not_frozen("main", 1)
        passed = threading.Event()

        def another() -> None:
            try:
                if connection.vendor == "postgresql":  # SQLite has one writer at a time
                    with transaction.atomic():
                        freezes.check_not_frozen("main", 2)
                passed.set()
            finally:
                connection.close()

        thread = threading.Thread(target=another)
        thread.start()
        assert passed.wait(20)
    thread.join(20)


def test_doctor_says_what_is_stopped(settings):
    assert database.check_freezes(settings).level == "ok"
    stop("agent", "main")
    found = database.check_freezes(settings)
    assert (found.level, found.text) == ("warn", "frozen: agent main, by host: it deletes files")
