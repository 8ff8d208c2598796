"""What parked runs wait for: rows that are settled before or after the park, in alternatives, with deadlines and freezes."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib import admin
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from agents import run_store
from clawsite.infra import sql
from clawsite.infra.admin.display import EMPTY
from clawsite.infra.reasons import Reason
from sessions_app.admin.sessions import RunAdmin
from sessions_app.models import Run, RunWait, Session
from sessions_app.runs import freezes, lifecycle, queue, waiting
from sessions_app.runs.end_reasons import end_reason
from sessions_app.runs.types import ClaimedRun
from sessions_app.runs.waiting import Wait, WaitKind
from sessions_app.sessions import service as session_service
from sessions_app.transcript.history import read_history
from tests.harness.approvals import allow_approval_requests, request_approval
from tests.harness.waits import waiting_for
from tools_app.approvals import requests as approval_requests
from tools_app.models import Approval

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]

Kind = RunWait.Kind


@pytest.fixture
def start(user, make_session) -> Callable[..., ClaimedRun]:
    """Start a run in a new session."""

    def make(run_id: str = "k1", **options) -> ClaimedRun:
        lifecycle.accept_run(user=user, session=make_session(user), run_id=run_id, prompt="hi", **options)
        with transaction.atomic():
            (claimed,) = queue.claim_runs("w1", 1).runs
        return claimed

    return make


@transaction.atomic
def park(claimed: ClaimedRun, *waits: Wait) -> None:
    waiting.park(claimed, waits[0].kind if waits else "approval", waits)


@transaction.atomic
def end(claimed: ClaimedRun) -> None:
    queue.end_run(claimed, Run.Status.ABORTED, "rpc")


def settle_due() -> None:
    waiting.settle_due(waiting.list_due())


def ready(claimed: ClaimedRun) -> bool:
    return Run.objects.get(pk=claimed.pk).ready_at is not None


def answer(reference: str, alternative: int = 0, deadline: float | None = None) -> Wait:
    return Wait(Kind.ANSWER, reference, deadline, alternative)


@pytest.mark.parametrize("first", ["decision", "park"])
def test_approved_run_becomes_ready_in_either_order(start, make_user, tmp_path, first):
    allow_approval_requests()
    claimed, approver = start(), make_user("Approver", "User", name="ada")
    request = request_approval(claimed, tmp_path)
    waits = approval_requests.list_waits(claimed.pk)
    steps = [
        lambda: approval_requests.resolve_approval(request.pk, by=approver, decision="allow-once"),
        lambda: park(claimed, *waits),
    ]
    for step in steps if first == "decision" else reversed(steps):
        assert not ready(claimed)
        step()
    assert ready(claimed)
    assert not RunWait.objects.exists()


@pytest.mark.parametrize("first", ["end", "park"])
def test_parent_becomes_ready_when_its_child_ends_in_either_order(start, first):
    parent, child = start("parent"), start("child", lane="nested")
    steps = [lambda: end(child), lambda: park(parent, Wait(Kind.CHILD, str(child.pk)))]
    for step in steps if first == "end" else reversed(steps):
        settle_due()
        assert not ready(parent)
        step()
    settle_due()
    assert ready(parent)
    assert not RunWait.objects.exists()


def test_run_becomes_ready_when_all_waits_of_one_alternative_are_settled(start):
    claimed = start()
    park(claimed, answer("a1"), answer("a2"), answer("b1", 1), answer("b2", 1))
    for reference, is_ready in (("a1", False), ("b1", False), ("unknown", False), ("a2", True)):
        waiting.settle(Kind.ANSWER, reference)
        assert ready(claimed) == is_ready, reference


def test_any_of_several_waits_is_enough(start):
    claimed = start()
    park(claimed, answer("a"), answer("b", 1))
    waiting.settle(Kind.ANSWER, "b")
    assert ready(claimed)
    assert not RunWait.objects.exists()


def test_wait_settled_while_the_run_still_runs_keeps_its_other_waits(start):
    claimed = start()
    waiting.add_waits(claimed.pk, [answer("a"), answer("b", 1)])
    waiting.settle(Kind.ANSWER, "b")
    assert list(RunWait.objects.values_list("reference", flat=True)) == ["a"]


def test_admin_shows_the_wait_of_parked_runs_only(start):
    claimed = start()
    waiting.add_waits(claimed.pk, [answer("a")])
    pages = RunAdmin(Run, admin.site)
    assert pages.waits_for(Run.objects.get(pk=claimed.pk)) == EMPTY
    park(claimed, answer("a"))
    assert pages.waits_for(Run.objects.get(pk=claimed.pk)) == "A user’s answer"


def test_one_reference_wakes_every_run_that_waits_for_it(start):
    runs = [start("k1"), start("k2")]
    for claimed in runs:
        park(claimed, answer("a"))
    waiting.settle(Kind.ANSWER, "a")
    assert all(map(ready, runs))


def test_run_parked_without_waits_is_ready(start):
    claimed = start()
    park(claimed)
    assert ready(claimed)


def test_parking_again_replaces_the_waits(start):
    claimed = start()
    park(claimed, answer("a"), answer("b", 1))
    waiting.settle(Kind.ANSWER, "a")
    with transaction.atomic():
        (claimed,) = queue.claim_runs("w1", 1).runs
    park(claimed, answer("c"))
    assert list(RunWait.objects.values_list("reference", flat=True)) == ["c"]
    waiting.settle(Kind.ANSWER, "b")
    assert not ready(claimed)


def test_wait_recorded_before_the_run_parks_keeps_it_running(start):
    claimed = start()
    waiting.add_waits(claimed.pk, [answer("a")])
    waiting.settle(Kind.ANSWER, "a")
    run = Run.objects.get(pk=claimed.pk)
    assert (run.status, run.ready_at) == ("running", None)


def test_deadline_expires_the_referenced_row_and_wakes_the_run(start, monkeypatch):
    expired: list[str] = []
    kind = WaitKind(find_settled=lambda references: set(references) & {"settled"}, expire=expired.append)
    monkeypatch.setitem(waiting._kinds, Kind.ANSWER, kind)
    now, runs = sql.db_now(), [start("k1"), start("k2"), start("k3")]
    for claimed, wait in zip(
        runs, (answer("late", deadline=now), answer("early", deadline=now + 3600), answer("open")), strict=True
    ):
        park(claimed, wait)
    settle_due()
    assert [ready(claimed) for claimed in runs] == [True, False, False]
    assert expired == ["late"]
    settle_due()
    assert expired == ["late"]


def fail(references: object) -> list[str]:
    raise OSError("the owner is broken")


@pytest.mark.parametrize("fails", ["find_settled", "expire"])
def test_failing_owner_stops_neither_deadlines_nor_other_kinds(start, monkeypatch, caplog, fails):
    broken = WaitKind(**{"find_settled": lambda references: set(), "polled": True, fails: fail})
    monkeypatch.setattr(waiting, "_kinds", {Kind.BUDGET: broken, **waiting._kinds})
    late, patient, parent, child = start("k1"), start("k2"), start("k3"), start("k4", lane="nested")
    park(parent, Wait(Kind.CHILD, str(child.pk)))
    end(child)
    for claimed, deadline in ((late, sql.db_now()), (patient, None)):
        with transaction.atomic():
            waiting.add_waits(claimed.pk, [Wait(Kind.BUDGET, "a", deadline)])
            waiting._commit_park(claimed, "budget", [])
    settle_due()
    settle_due()
    assert [ready(claimed) for claimed in (late, patient, parent)] == [True, False, True]
    assert caplog.text.count("waits of kind budget could not be checked") == 1


def test_kind_has_one_owner(monkeypatch):
    monkeypatch.setattr(waiting, "_kinds", dict(waiting._kinds))
    waiting.register_kind(Kind.APPROVAL, waiting._kinds[Kind.APPROVAL])
    with pytest.raises(ValueError, match="already registered by tools_app"):
        waiting.register_kind(Kind.APPROVAL, WaitKind(fail))


def test_wait_for_a_lifted_freeze_is_deleted(start):
    claimed = start()
    park(claimed, answer("a"))
    freezes.freeze("all", reason="it deletes files", by=None, by_name="host")
    row = RunWait.objects.get(kind=Kind.FREEZE)
    waiting.refresh_freezes()
    assert RunWait.objects.filter(pk=row.pk).exists()
    freezes.resume("all", reason="all is well", by=None, by_name="host")
    row.save(force_insert=True)  # recorded by a transaction that did not see the change
    waiting.refresh_freezes()
    assert list(RunWait.objects.values_list("kind", flat=True)) == ["answer"]


def test_extended_deadline_is_kept(start):
    claimed = start()
    park(claimed, answer("a", deadline=sql.db_now()))
    due = waiting.list_due()
    RunWait.objects.update(deadline=sql.db_now() + 3600)
    waiting.settle_due(due)
    assert not ready(claimed)


def test_lifting_a_freeze_settles_no_other_wait(start):
    claimed = start()
    park(claimed, answer("a"))
    freezes.freeze("all", reason="it deletes files", by=None, by_name="host")
    assert (waiting_for(claimed.pk), RunWait.objects.filter(run=claimed.pk).count()) == ("answer", 2)
    freezes.resume("all", reason="all is well", by=None, by_name="host")
    assert (waiting_for(claimed.pk), ready(claimed)) == ("answer", False)
    with transaction.atomic():
        assert queue.claim_runs("w1", 1).runs == []


@pytest.mark.parametrize("frozen_first", [True, False])
def test_settled_run_waits_for_the_freeze_that_covers_it(start, frozen_first):
    claimed = start()
    if frozen_first:
        freezes.freeze("agent", "main", reason="it deletes files", by=None, by_name="host")
    park(claimed, answer("a"))
    if not frozen_first:
        freezes.freeze("agent", "main", reason="it deletes files", by=None, by_name="host")
    waiting.settle(Kind.ANSWER, "a")
    assert (waiting_for(claimed.pk), ready(claimed)) == ("frozen", True)
    with transaction.atomic():
        assert queue.claim_runs("w1", 1).runs == []
    freezes.resume("agent", "main", reason="all is well", by=None, by_name="host")
    assert waiting_for(claimed.pk) is None
    with transaction.atomic():
        assert [run.pk for run in queue.claim_runs("w1", 1).runs] == [claimed.pk]


def test_freeze_lifted_while_the_run_parks_leaves_it_ready(start):
    claimed = start()
    freezes.freeze("all", reason="it deletes files", by=None, by_name="host")
    freezes.resume("all", reason="all is well", by=None, by_name="host")
    with transaction.atomic():
        waiting.park_frozen(claimed)
    assert (waiting_for(claimed.pk), ready(claimed)) == (None, True)


def test_parking_frozen_run_keeps_its_other_waits(start):
    claimed = start()
    waiting.add_waits(claimed.pk, [answer("a")])
    freezes.freeze("run", str(claimed.pk), reason="it deletes files", by=None, by_name="host")
    with transaction.atomic():
        waiting.park_frozen(claimed)
    assert sorted(RunWait.objects.values_list("kind", flat=True)) == ["answer", "frozen"]


def by_stop(claimed: ClaimedRun, session: Session) -> None:
    lifecycle.request_abort(user=session.owner, session=session)


def by_reset(claimed: ClaimedRun, session: Session) -> None:
    session_service.reset_session(session.owner, session)


def by_deletion(claimed: ClaimedRun, session: Session) -> None:
    session_service.delete_session(session.owner, session)


@pytest.mark.parametrize("ending", [by_stop, by_reset, by_deletion])
def test_ended_run_waits_for_nothing(start, ending):
    claimed = start()
    park(claimed, answer("a"), answer("b", 1))
    freezes.freeze("run", str(claimed.pk), reason="it deletes files", by=None, by_name="host")
    ending(claimed, Session.objects.get(pk=claimed.session_id))
    assert Run.objects.get(pk=claimed.pk).status == "aborted"
    assert not RunWait.objects.exists()


def test_poisoned_run_waits_for_nothing(start, settings):
    claimed = start()
    waiting.add_waits(claimed.pk, [answer("a")])
    Run.objects.filter(pk=claimed.pk).update(lease_until=1.0, rescues=settings.MAX_RESCUES)
    with transaction.atomic():
        assert queue.recover_runs("w2", 1) == []
    assert Run.objects.get(pk=claimed.pk).reason == "poisoned"
    assert not RunWait.objects.exists()


def test_run_without_waits_costs_no_extra_statement(start):
    """From claim to end, no statement is only about waits."""
    with CaptureQueriesContext(connection) as statements:
        end(start())
    about_waits = [each["sql"] for each in statements if "sessions_app_runwait" in each["sql"]]
    assert len(about_waits) == 1
    assert about_waits[0].lstrip().startswith("UPDATE sessions_app_run SET")


def test_history_and_health_name_the_wait(start):
    claimed = start()
    park(claimed, answer("a"))
    session = Session.objects.get(pk=claimed.session_id)
    active = read_history(session, limit=5).active
    assert active
    assert active["waitingFor"] == "answer"
    assert RunWait.objects.count_runs() == {"answer": 1}


def test_voided_approval_wakes_its_run(start, tmp_path):
    allow_approval_requests()
    claimed = start()
    request_approval(claimed, tmp_path)
    park(claimed, *approval_requests.list_waits(claimed.pk))
    with transaction.atomic():
        approval_requests.void_approvals(Approval.objects.all(), Reason("approval.skipped"))
    assert ready(claimed)


def test_run_that_ends_locks_its_session_before_its_approvals(start, tmp_path):
    allow_approval_requests()
    claimed = start()
    request_approval(claimed, tmp_path)
    with transaction.atomic(), CaptureQueriesContext(connection) as statements:
        run_store._end_run(claimed, Run.Status.ABORTED, "rpc", None, (), None)
    changed = [match[1] for each in statements if (match := re.match(r'\s*UPDATE "?(\w+)', each["sql"]))]
    assert changed.index("sessions_app_session") < changed.index("tools_app_approval")
    assert Approval.objects.get().status == "void"


@pytest.mark.parametrize("kind", Kind.values)
def test_every_kind_has_texts(kind):
    """On server-rendered pages, and in the texts of the scripts."""
    assert end_reason(kind).code == f"run.{kind}"
    page = Path(__file__).parents[2] / "templates/shared/_reason_texts.html"
    assert f"data-waits-{kind}=" in page.read_text()
