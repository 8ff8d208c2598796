"""Freezes as rows: who can create them, what they cover, what is still claimed, and that no call starts after the commit."""

import threading

import pytest
from django.db import connection, transaction

from clawsite.cli.doctor import database
from clawsite.infra import sql
from clawsite.infra.errors import Forbidden, InvalidRequest, NotFound
from sessions_app.models import Freeze, Run
from sessions_app.runs import claim_sql, freezes, lifecycle, queue, waiting
from tests.harness.waits import park, waiting_for

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


@pytest.fixture
def operator(make_user):
    return make_user("Operator", name="olga")


@pytest.fixture
def queued(user, make_session):
    """Create queued runs: queued("agent:main:a")."""

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


def test_freeze_and_resume_record_user_time_and_reason(operator):
    made = stop(by=operator)
    assert (made.scope, made.subject, made.by, made.by_name, made.reason) == ("all", "", operator, "olga", "it deletes files")
    assert freezes.list_active() == [made]
    lifted = resume(by=operator, reason="  it was\n a mistake ")
    assert (lifted.lifted_by, lifted.lifted_by_name, lifted.lifted_reason) == (operator, "olga", "it was a mistake")
    assert lifted.lifted_at >= lifted.at
    assert freezes.list_active() == []


def test_repeated_freeze_keeps_first_reason():
    first, made = freezes.freeze("all", reason="one", by=None, by_name="host")
    second, made_again = freezes.freeze("all", reason="two", by=None, by_name="host")
    assert (made, made_again, second, second.reason) == (True, False, first, "one")
    resume()
    with pytest.raises(NotFound):
        resume()


@pytest.mark.parametrize("group", ["User", "Approver", "Auditor"])
def test_only_gateway_admins_can_freeze(make_user, group):
    with pytest.raises(Forbidden):
        stop(by=make_user(group))
    stop()
    with pytest.raises(Forbidden):
        resume(by=make_user(group))
    assert len(freezes.list_active()) == 1


def test_service_account_can_never_freeze(operator):
    operator.is_service = True
    with pytest.raises(Forbidden):
        stop(by=operator)


@pytest.mark.parametrize(
    ("scope", "subject", "reason"),
    [("all", "", "  "), ("agent", "", "why"), ("world", "", "why"), ("agent", "x" * 65, "why")],
    ids=["no reason", "no agent", "unknown scope", "too long"],
)
def test_invalid_freeze_arguments_are_rejected(scope, subject, reason):
    with pytest.raises(InvalidRequest):
        stop(scope, subject, reason)


@pytest.mark.parametrize("subject", ["0", "k1", "-1", "٣", "9" * 30])
def test_missing_run_cannot_be_frozen(subject):
    with pytest.raises(NotFound):
        stop("run", subject)


def test_ended_run_cannot_be_frozen(queued, user):
    pk = queued()
    Run.objects.filter(pk=pk).update(status="completed")
    with pytest.raises(InvalidRequest):
        stop("run", str(pk))


def test_no_run_is_claimed_during_global_freeze(queued):
    pk = queued()
    stop()
    assert claimed() == set()
    resume()
    assert claimed() == {pk}


def test_runs_outside_freeze_scope_are_claimed(queued):
    first, second, other = queued("agent:main:a"), queued("agent:main:b"), queued("agent:other:c")
    stop("run", str(second))
    stop("agent", "other")
    assert claimed() == {first}
    resume("agent", "other")
    assert claimed() == {other}
    resume("run", str(second))
    assert claimed() == {second}


def test_frozen_run_does_not_occupy_claim_slot(queued):
    """Frozen runs are left out before slots are assigned, so the next run is claimed."""
    stopped, free = queued("agent:main:a"), queued("agent:main:b")
    stop("run", str(stopped))
    assert claimed(most=1) == {free}


def test_frozen_run_is_not_claimed_after_approval(queued):
    pk = queued()
    with transaction.atomic():
        (held,) = queue.claim_runs("w1", 1).runs
        park(held)
    stop("agent", "main")
    waiting.make_ready([pk])
    assert claimed() == set()
    resume("agent", "main")
    assert claimed() == {pk}


def test_removing_claim_condition_lets_frozen_runs_through(queued, monkeypatch):
    """Deliberate fault: without the condition they are claimed."""
    pk = queued()
    stop()
    monkeypatch.setattr(claim_sql, "FREEZE_HOLDS_RUN", "1 = 0")
    assert claimed() == {pk}


def test_frozen_run_of_dead_worker_is_recovered_and_waits(queued):
    pk = queued()
    assert claimed() == {pk}
    stop()
    Run.objects.filter(pk=pk).update(lease_until=1.0)
    with transaction.atomic():
        assert queue.recover_runs("w2", 5) == []
    run = Run.objects.get(pk=pk)
    assert (run.status, waiting_for(pk), run.worker) == ("waiting", "frozen", "")
    assert claimed() == set()
    resume()
    assert claimed() == {pk}


def test_removing_freeze_check_hands_out_recovered_run(queued, monkeypatch):
    pk = queued()
    claimed()
    stop()
    Run.objects.filter(pk=pk).update(lease_until=1.0)
    monkeypatch.setattr(freezes, "is_frozen", lambda agent, run_pk: False)
    with transaction.atomic():
        assert [each.pk for each in queue.recover_runs("w2", 5)] == [pk]


def test_still_running_runs_are_counted_per_freeze(queued):
    mine, other = queued("agent:main:a"), queued("agent:other:b")
    assert claimed() == {mine, other}
    assert freezes.count_still_running([stop("agent", "other")]) == 1
    assert freezes.count_still_running([stop()]) == 2
    assert freezes.count_still_running([]) == 0


def test_users_see_only_freezes_that_affect_them(queued, user, make_user, operator, make_session):
    run = stop("run", str(queued("agent:main:a")))
    everything = stop()
    stranger = make_user()
    assert freezes.list_visible(stranger) == [everything]
    assert freezes.list_visible(user) == freezes.list_visible(operator) == [everything, run]
    assert freezes.list_for_session(make_session(user, "agent:main:a"), freezes.list_active()) == [everything, run]
    assert freezes.list_for_session(make_session(user, "agent:main:b"), freezes.list_active()) == [everything]


def test_database_rejects_second_active_freeze():
    from django.db import IntegrityError

    made = stop()
    with pytest.raises(IntegrityError), transaction.atomic():
        Freeze.objects.create(scope="all", reason="x", by_name="x", at=made.at)


class Rival:
    """Freeze everything on a separate connection, while the test is in a transaction."""

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
    """Return whether a freeze can commit between the check of a tool start and its commit."""
    with transaction.atomic():
        freezes.check_not_frozen("main", 1)
        rival = Rival()
        early = rival.done.wait(1.0)
    rival.join()
    assert rival.done.is_set()
    return early


def test_freeze_waits_for_command_starts_in_progress():
    assert not committed_while_a_start_is_open()
    with pytest.raises(freezes.RunFrozen, match="stopped by host: it deletes files"), transaction.atomic():
        freezes.check_not_frozen("main", 1)


def test_missing_lock_lets_start_commit_after_freeze(monkeypatch):
    """Deliberate fault. On SQLite the transaction itself is the lock, so there it changes nothing."""
    monkeypatch.setattr(sql, "lock_advisory", lambda number, shared=False: None)
    assert committed_while_a_start_is_open() == (connection.vendor == "postgresql")


def test_concurrent_starts_do_not_block_each_other():
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


def test_doctor_reports_active_freezes(settings):
    assert database.check_freezes(settings).level == "ok"
    stop("agent", "main")
    found = database.check_freezes(settings)
    assert (found.level, found.text) == ("warn", "frozen: agent main, by host: it deletes files")
