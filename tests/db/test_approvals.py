"""Approval requests: created, decided once, expired, extended, canceled, used."""

import datetime as dt
import threading
from dataclasses import replace

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction

from agents import run_store
from clawsite.infra import clock
from clawsite.infra.errors import Conflict, Forbidden, InvalidRequest, NotFound
from clawsite.infra.models import AuditEntry
from clawsite.infra.reasons import Reason
from sessions_app.models import Event, Run
from sessions_app.runs import lifecycle, queue, waiting
from sessions_app.sessions import service as session_service
from tests.harness.approvals import (
    allow_approval_requests,
    claim_run,
    decide_plan,
    plan_command,
    request_approval,
    with_other_executable,
)
from tools_app.approvals import expiry, external, grants
from tools_app.approvals import requests as approval_requests
from tools_app.approvals.command_decision import use_approval_or_grants
from tools_app.approvals.grants import GrantTerms
from tools_app.exec.plan import ExecPlan, PlannedCommand
from tools_app.models import Approval, ApprovalVote, Grant

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


@pytest.fixture
def claimed(user, make_session):
    allow_approval_requests()
    return claim_run(user, make_session(user))


@pytest.fixture
def question(claimed, tmp_path):
    return request_approval(claimed, tmp_path)


@pytest.fixture
def approver(make_user):
    return make_user("Approver", "User", name="ada")


def parked(claimed):
    with transaction.atomic():
        waiting.park(claimed, "approval", approval_requests.list_waits(claimed.pk))


def may_start(claimed, plan):
    with transaction.atomic():
        return use_approval_or_grants(claimed, plan, decide_plan(claimed, plan))


def test_approval_request_holds_all_details_needed_to_decide(question, claimed, user, tmp_path):
    assert question.plan["line"] == "touch made"
    assert (question.plan["cwd"], question.plan["run"]) == (str(tmp_path.resolve()), claimed.pk)
    assert [each["realpath"] for each in question.plan["executables"]] == ["/usr/bin/touch"]
    assert (question.requester, question.why, len(question.plan_hash)) == (user, "because", 64)
    assert question.shown["reasons"]
    assert {part["kind"] for part in question.shown["parts"]} >= {"program", "argument"}


def test_repeated_policy_check_creates_no_second_request(claimed, question, tmp_path):
    again = decide_plan(claimed, plan_command(claimed, tmp_path, "touch made"))
    assert (again.effect, again.approval, again.newly_requested) == ("ask", str(question.pk), False)
    assert Approval.objects.count() == 1


def test_allow_once_is_used_once(claimed, question, approver, tmp_path):
    parked(claimed)
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    run = Run.objects.get(pk=claimed.pk)
    assert (run.status, run.ready_at is not None) == ("waiting", True)
    plan = plan_command(claimed, tmp_path, "touch made")
    decided = decide_plan(claimed, plan)
    assert (decided.effect, decided.approval) == ("allow", str(question.pk))
    with transaction.atomic():
        assert use_approval_or_grants(claimed, plan, decided) is None
    question.refresh_from_db()
    assert (question.status, question.decided_by) == ("used", approver)
    with transaction.atomic():
        assert use_approval_or_grants(claimed, plan, decided) == Reason("exec.approval_invalid")
    assert decide_plan(claimed, plan).effect == "deny"


def test_deny_reason_reaches_the_model(claimed, question, approver, tmp_path):
    approval_requests.resolve_approval(question.pk, by=approver, decision="deny", reason="use the staging host")
    decided = decide_plan(claimed, plan_command(claimed, tmp_path, "touch made"))
    assert decided.effect == "deny"
    assert decided.reason == Reason("exec.denied_because", reason="use the staging host")
    assert decided.message == "exec_denied: An approver denied the command: use the staging host. It did not run."


def test_concurrent_decisions_have_one_winner(question, make_user):
    people = [make_user("Approver", name=f"approver-{n}") for n in range(50)]
    won, told = [], []

    def answer(who):
        try:
            won.append(approval_requests.resolve_approval(question.pk, by=who, decision="allow-once").decided_by)
        except Conflict as late:
            told.append(late)
        finally:
            connection.close()

    threads = [threading.Thread(target=answer, args=[who]) for who in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert len(told) == 49
    assert {late.details["decidedBy"] for late in told} == {won[0].get_username()}


def test_missing_compare_and_set_lets_two_decisions_win(question, make_user, monkeypatch):
    """Deliberate fault: reading first and writing later lets both decisions win."""
    one, two = make_user("Approver"), make_user("Approver")

    def careless(approval, to, decision, *, by, reason=""):
        Approval.objects.filter(pk=approval.pk).update(status=to, decided_by=by, decision=decision, decided_at=clock.now())
        return approval

    monkeypatch.setattr(approval_requests, "close_approval", careless)
    monkeypatch.setattr(approval_requests, "_check_run_active", lambda approval: None)
    approval_requests.resolve_approval(question.pk, by=one, decision="allow-once")
    approval_requests.resolve_approval(question.pk, by=two, decision="deny")
    question.refresh_from_db()
    assert (question.status, question.decided_by) == ("denied", two)


@pytest.mark.parametrize("groups", [("User",), ("Operator",), ("Auditor",)])
def test_approving_requires_its_own_permission(question, make_user, groups):
    with pytest.raises((Forbidden, NotFound)):
        approval_requests.resolve_approval(question.pk, by=make_user(*groups), decision="allow-once")
    question.refresh_from_db()
    assert question.is_open


def test_service_account_can_never_approve(question, make_user):
    robot = make_user("Approver", "Operator")
    robot.is_service = True
    robot.save()
    with pytest.raises(Forbidden):
        approval_requests.resolve_approval(question.pk, by=robot, decision="allow-once")


def test_approval_request_of_another_user_is_not_found(question, make_user):
    with pytest.raises(NotFound):
        approval_requests.find_approval(make_user(), question.pk)


def test_requester_can_be_excluded_by_rule(user, make_session, tmp_path):
    allow_approval_requests(exclude_requester=True)
    user.groups.add(Group.objects.get(name="Approver"))
    question = request_approval(claim_run(user, make_session(user)), tmp_path)
    with pytest.raises(Forbidden, match="own commands"):
        approval_requests.resolve_approval(question.pk, by=user, decision="allow-once")


def test_rule_can_name_approver_groups(user, make_session, make_user, tmp_path):
    rule = allow_approval_requests()
    rule.approver_groups.add(Group.objects.create(name="Security"))
    question = request_approval(claim_run(user, make_session(user)), tmp_path)
    plain, chosen = make_user("Approver"), make_user("Approver", "Security")
    with pytest.raises(Forbidden, match="Security"):
        approval_requests.resolve_approval(question.pk, by=plain, decision="allow-once")
    assert approval_requests.resolve_approval(question.pk, by=chosen, decision="allow-once").status == "approved"
    rule.delete()
    Group.objects.filter(name="Security").delete()


def test_two_approvals_are_required_but_one_denial_suffices(user, make_session, make_user, tmp_path):
    allow_approval_requests(two_people=True)
    question = request_approval(claim_run(user, make_session(user)), tmp_path)
    ada, ben = make_user("Approver"), make_user("Approver")
    assert approval_requests.resolve_approval(question.pk, by=ada, decision="allow-once").is_open
    assert approval_requests.resolve_approval(question.pk, by=ada, decision="allow-once").is_open, (
        "the same person twice is one person"
    )
    assert approval_requests.resolve_approval(question.pk, by=ben, decision="allow-once").status == "approved"


def test_narrower_of_two_grant_terms_applies(user, make_session, make_user, tmp_path):
    allow_approval_requests(two_people=True)
    question = request_approval(claim_run(user, make_session(user)), tmp_path)
    ada, ben = make_user("Approver"), make_user("Approver")
    approval_requests.resolve_approval(question.pk, by=ada, decision="allow-for", terms=GrantTerms("agent", 8 * 3600, 50))
    approval_requests.resolve_approval(question.pk, by=ben, decision="allow-for", terms=GrantTerms("session", 900, None))
    grant = Grant.objects.get()
    assert (grant.scope, grant.uses_left) == ("session", 50)
    assert grant.expires_at - grant.created_at == dt.timedelta(minutes=15)


def test_vote_of_user_without_permission_is_ignored(user, make_session, make_user, tmp_path):
    allow_approval_requests(two_people=True)
    question = request_approval(claim_run(user, make_session(user)), tmp_path)
    ada, ben = make_user("Approver"), make_user("Approver")
    approval_requests.resolve_approval(question.pk, by=ada, decision="allow-once")
    ada.groups.clear()
    assert approval_requests.resolve_approval(question.pk, by=ben, decision="allow-once").is_open
    assert ApprovalVote.objects.count() == 2


def test_decision_on_different_plan_is_rejected(question, approver):
    with pytest.raises(Conflict, match="not the one that would run"):
        approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once", seen_hash="0" * 64)
    assert (
        approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once", seen_hash=question.plan_hash).status
        == "approved"
    )


def test_undecided_request_expires_and_run_continues(claimed, question, approver, tmp_path):
    parked(claimed)
    Approval.objects.update(expires_at=clock.now() - dt.timedelta(seconds=1))
    with pytest.raises(Conflict, match="expired"):
        approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    assert expiry.has_due_approvals()
    with transaction.atomic():
        assert expiry.expire_and_warn() == 1
    assert Run.objects.get(pk=claimed.pk).ready_at is not None
    decided = decide_plan(claimed, plan_command(claimed, tmp_path, "touch made"))
    assert decided.effect == "deny"
    assert decided.reason == Reason("exec.expired")
    assert not expiry.has_due_approvals()


def test_request_can_be_extended_and_warns_before_expiry(question, approver):
    Approval.objects.update(created_at=clock.now() - dt.timedelta(hours=1), expires_at=clock.now() + dt.timedelta(minutes=2))
    assert expiry.has_due_approvals()
    with transaction.atomic():
        assert expiry.expire_and_warn() == 0
    question.refresh_from_db()
    assert question.warned_at is not None
    longer = approval_requests.extend_approval(question.pk, by=approver)
    assert longer.expires_at > clock.now() + dt.timedelta(minutes=50)
    assert longer.warned_at is None


def test_stopping_run_voids_request_and_ignores_late_approval(claimed, question, approver, user):
    parked(claimed)
    lifecycle.request_abort(user=user, session=question.session)
    question.refresh_from_db()
    assert question.status == "void"
    with pytest.raises(Conflict):
        approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    last = Event.objects.filter(run=claimed.pk).order_by("-seq")[:2]
    assert [event.data["phase"] for event in last] == ["end", "result"]


def test_session_reset_voids_open_requests(claimed, question, user, approver):
    parked(claimed)
    session_service.reset_session(user, question.session)
    question.refresh_from_db()
    assert question.status == "void"


def test_request_of_ended_run_cannot_be_decided(claimed, question, approver):
    Run.objects.filter(pk=claimed.pk).update(status="aborted")
    with pytest.raises(Conflict, match="stopped"):
        approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")


def test_executable_changed_after_approval_voids_it(claimed, question, approver, tmp_path):
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    changed = with_other_executable(plan_command(claimed, tmp_path, "touch made"))
    decided = decide_plan(claimed, changed)
    assert decided.effect == "deny"
    assert (decided.reason.code, "a program it would start" in str(decided.reason.params["fields"])) == ("exec.changed", True)
    question.refresh_from_db()
    assert question.status == "void"


def store_as_earlier_version(question, codes, shown=None):
    """Store a request in the format of earlier versions, which hashed and stored the reasons' texts."""
    plan = replace(ExecPlan.from_json(question.plan), analysis_hash="0" * 64)
    reasons = [{"code": code, "words": "text of an earlier version"} for code in codes]
    Approval.objects.filter(pk=question.pk).update(
        plan=plan.to_json(), plan_hash=plan.hash, shown={**question.shown, "reasons": reasons, **(shown or {})}
    )


def test_approval_of_earlier_version_still_counts(claimed, question, approver, tmp_path):
    store_as_earlier_version(question, ["not-allowlisted"])
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    plan = plan_command(claimed, tmp_path, "touch made")
    assert decide_plan(claimed, plan).effect == "allow"
    assert may_start(claimed, plan) is None
    question.refresh_from_db()
    assert (question.status, question.plan_hash) == ("used", plan.plan.hash)


@pytest.mark.parametrize(
    ("codes", "shown", "command", "standing", "code"),
    [
        (["ask-always"], {}, "touch made", False, "exec.not_comparable"),
        (["not-allowlisted"], {}, "touch other", False, "exec.changed"),
        ([], {}, "touch made", False, "exec.changed"),
        (["not-allowlisted"], {"parts": []}, "touch made", False, "exec.not_comparable"),
        (["not-allowlisted"], {"writes": ["elsewhere"]}, "touch made", False, "exec.not_comparable"),
        (["not-allowlisted"], {}, "touch made", True, "exec.not_comparable"),
    ],
)
def test_approval_of_earlier_version_is_void_unless_the_command_is_the_same(
    claimed, question, approver, tmp_path, codes, shown, command, standing, code
):
    store_as_earlier_version(question, codes, shown)
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    planned = plan_command(claimed, tmp_path, command)
    if standing:
        about_files = (Reason("gate.ask-always"),)  # any reason will do
        programs = tuple(replace(each, standing=about_files) for each in planned.analysis.programs)
        planned = replace(planned, analysis=replace(planned.analysis, programs=programs))
    decided = decide_plan(claimed, planned)
    assert (decided.effect, decided.reason.code) == ("deny", code)
    question.refresh_from_db()
    assert (question.status, question.system_reason["code"]) == ("void", code)


def test_deny_rule_added_after_approval_wins(claimed, question, approver, tmp_path):
    plan = plan_command(claimed, tmp_path, "touch made")
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    decided = decide_plan(claimed, plan)
    allow_approval_requests(security="deny")
    with transaction.atomic():
        assert use_approval_or_grants(claimed, plan, decided).code == "exec.disabled"
    question.refresh_from_db()
    assert question.status == "void"


def test_unrelated_rule_change_keeps_approval_valid(claimed, question, approver, tmp_path):
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    allow_approval_requests("agent", "other", security="deny")
    allow_approval_requests(ask="always")
    assert may_start(claimed, plan_command(claimed, tmp_path, "touch made")) is None


def test_session_writer_can_cancel_command(claimed, question, user, tmp_path):
    parked(claimed)
    approval_requests.skip_approval(question.pk, by=user)
    decided = decide_plan(claimed, plan_command(claimed, tmp_path, "touch made"))
    assert decided.effect == "deny"
    assert decided.reason == Reason("exec.skipped")


def test_other_user_cannot_cancel_command(question, approver):
    with pytest.raises(Forbidden):
        approval_requests.skip_approval(question.pk, by=approver)


def test_disabled_account_runs_no_approved_command(claimed, question, approver, user, tmp_path):
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    user.is_active = False
    user.save()
    assert decide_plan(claimed, plan_command(claimed, tmp_path, "touch made")).reason == Reason("exec.account_disabled")


def test_timed_grant_covers_later_commands_in_session(claimed, question, approver, make_user, make_session, tmp_path):
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-for", terms=GrantTerms("session", 900, 2))
    plan = plan_command(claimed, tmp_path, "touch made", call="c2")
    assert may_start(claimed, plan) is None
    assert Grant.objects.get().uses_left == 1
    other = make_user()
    elsewhere = claim_run(other, make_session(other), "k9")
    assert decide_plan(elsewhere, plan_command(elsewhere, tmp_path, "touch made")).effect == "ask"
    assert may_start(claimed, plan_command(claimed, tmp_path, "touch made", call="c3")) is None
    assert decide_plan(claimed, plan_command(claimed, tmp_path, "touch made", call="c4")).effect == "ask", "both uses are gone"


def test_revoked_or_expired_grant_allows_nothing(claimed, question, approver, tmp_path):
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-for", terms=GrantTerms("agent", 900, None))
    plan = plan_command(claimed, tmp_path, "touch made", call="c2")
    decided = decide_plan(claimed, plan)
    assert decided.effect == "allow"
    grants.revoke_grant(Grant.objects.get().pk, by=approver)
    with transaction.atomic():
        assert use_approval_or_grants(claimed, plan, decided) == Reason("exec.grant_revoked")
    with pytest.raises(Conflict):
        grants.revoke_grant(Grant.objects.get().pk, by=approver)
    Grant.objects.update(revoked_at=None, expires_at=clock.now() - dt.timedelta(seconds=1))
    assert decide_plan(claimed, plan_command(claimed, tmp_path, "touch made", call="c3")).effect == "ask"


def test_always_grant_is_narrow_and_expires(claimed, question, approver, tmp_path):
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-always")
    grant = Grant.objects.get()
    assert (grant.scope, grant.subject, [entry["pattern"] for entry in grant.entries]) == ("agent", "main", ["/usr/bin/touch"])
    assert grant.expires_at is not None
    assert decide_plan(claimed, plan_command(claimed, tmp_path, "touch made", call="c2")).effect == "allow"
    assert decide_plan(claimed, plan_command(claimed, tmp_path, "rm made", call="c3")).effect == "ask"


def test_shell_can_never_be_allowed_always(claimed, approver, tmp_path):
    question = request_approval(claimed, tmp_path, "bash -c 'echo hi'")
    assert "allow-always" not in question.shown["may"]
    with pytest.raises(InvalidRequest):
        approval_requests.resolve_approval(question.pk, by=approver, decision="allow-always")


def test_always_ask_rule_permits_no_longer_grants(user, make_session, approver, tmp_path):
    allow_approval_requests(ask="always")
    question = request_approval(claim_run(user, make_session(user)), tmp_path)
    assert question.shown["may"] == ["allow-once", "deny"]
    with pytest.raises(InvalidRequest):
        approval_requests.resolve_approval(question.pk, by=approver, decision="allow-for", terms=GrantTerms("session", 900, None))


def test_grant_terms_are_bounded():
    for wish in (GrantTerms(), GrantTerms(seconds=5), GrantTerms(seconds=9 * 3600), GrantTerms(uses=0), GrantTerms(uses=1000)):
        with pytest.raises(InvalidRequest):
            wish.checked()


def test_every_command_needs_approval_without_isolation(claimed, approver, tmp_path):
    Grant.objects.create(
        scope="agent", subject="main", entries=[{"pattern": "/usr/bin/touch", "shape": None}], created_at=clock.now()
    )
    plan = plan_command(claimed, tmp_path, "touch made")
    assert decide_plan(claimed, plan).effect == "allow"
    bare = PlannedCommand(replace(plan.plan, level=0, call="c2"), plan.analysis)
    assert decide_plan(claimed, bare).effect == "ask"
    allow_approval_requests(unsafe_without_isolation=True)
    assert decide_plan(claimed, PlannedCommand(replace(bare.plan, call="c3"), plan.analysis)).effect == "allow"
    allow_approval_requests(unsafe_without_isolation=True, minimum_level=2)
    assert decide_plan(claimed, PlannedCommand(replace(bare.plan, call="c4"), plan.analysis)).reason.code == "exec.isolation"


def test_denial_without_exec_rule_explains_remedy(user, make_session, tmp_path):
    claimed = claim_run(user, make_session(user))
    decided = decide_plan(claimed, plan_command(claimed, tmp_path, "ls"))
    assert decided.effect == "deny"
    assert (decided.reason, decided.code) == (Reason("exec.no_rule"), "exec_no_rule")


def test_audit_log_records_every_step_with_plan(claimed, question, approver, tmp_path):
    approval_requests.resolve_approval(
        question.pk, by=approver, decision="allow-for", terms=GrantTerms("session", 900, 3), reason="go on"
    )
    assert may_start(claimed, plan_command(claimed, tmp_path, "touch made")) is None
    steps = AuditEntry.objects.filter(subject_kind="approval", subject_id=str(question.pk)).order_by("id")
    assert list(steps.values_list("action", "actor_kind")) == [
        ("approval.requested", "agent"),
        ("approval.decided", "person"),
        ("approval.used", "agent"),
    ]
    assert {step.details["plan"] for step in steps} == {question.plan_hash}
    assert AuditEntry.objects.filter(action="grant.made", actor_name="ada").exists()


def test_stopping_run_is_neither_approved_nor_parked(claimed, question, approver, user):
    lifecycle.request_abort(user=user, session=question.session)
    with pytest.raises(Conflict, match="stopped"):
        approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    with transaction.atomic():
        run_store._park_run(claimed, "approval")
    assert Run.objects.get(pk=claimed.pk).status == "aborted"
    question.refresh_from_db()
    assert question.status == "void"


def test_poisoned_run_voids_its_open_request(claimed, question):
    with transaction.atomic():
        queue.end_run(claimed, Run.Status.FAILED, "poisoned", Reason.of("its worker died too often"))
    question.refresh_from_db()
    assert question.status == "void"


def test_extended_request_does_not_expire_concurrently(question, approver, monkeypatch):
    Approval.objects.update(expires_at=clock.now() - dt.timedelta(seconds=1))
    held = approval_requests.lock_session

    def extended_meanwhile(approval):
        Approval.objects.update(expires_at=clock.now() + dt.timedelta(hours=1))
        held(approval)

    monkeypatch.setattr(approval_requests, "lock_session", extended_meanwhile)
    with transaction.atomic():
        assert expiry.expire_and_warn() == 0
    question.refresh_from_db()
    assert question.is_open


def test_changed_script_invalidates_its_grant(claimed, approver, tmp_path):
    script = tmp_path / "deploy.sh"
    script.write_text("#!/bin/bash\necho one\n")
    script.chmod(0o755)
    question = request_approval(claimed, tmp_path, "./deploy.sh")
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-for", terms=GrantTerms("session", 900, None))
    assert Grant.objects.get().line == "./deploy.sh"
    assert decide_plan(claimed, plan_command(claimed, tmp_path, "./deploy.sh", call="c2")).effect == "allow"
    script.write_text("#!/bin/bash\nrm -rf all\n")
    assert decide_plan(claimed, plan_command(claimed, tmp_path, "./deploy.sh", call="c3")).effect == "ask"


def test_single_person_grant_is_ignored_under_two_person_rule(claimed, question, approver, tmp_path):
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-for", terms=GrantTerms("agent", 900, None))
    again = plan_command(claimed, tmp_path, "touch made", call="c2")
    assert decide_plan(claimed, again).effect == "allow"
    allow_approval_requests("session", str(claimed.session_id), two_people=True)
    assert decide_plan(claimed, again).effect == "ask"


def test_grant_of_user_without_permission_is_ignored(claimed, question, approver, tmp_path):
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-for", terms=GrantTerms("agent", 900, None))
    approver.groups.clear()
    assert decide_plan(claimed, plan_command(claimed, tmp_path, "touch made", call="c2")).effect == "ask"


def test_only_the_needed_grant_is_counted(claimed, approver, tmp_path):
    for name in ("/usr/bin/touch", "/usr/bin/mkdir"):
        Grant.objects.create(
            scope="agent", subject="main", entries=[{"pattern": name, "shape": None}], uses_left=5, created_at=clock.now()
        )
    assert may_start(claimed, plan_command(claimed, tmp_path, "touch made", call="c2")) is None
    assert list(Grant.objects.order_by("id").values_list("uses_left", flat=True)) == [4, 5]


def test_grant_with_different_arguments_is_not_counted(claimed, approver, tmp_path):
    for entry in ({"pattern": "touch", "shape": ["other"]}, {"pattern": "touch", "shape": None}):
        Grant.objects.create(scope="agent", subject="main", entries=[entry], created_at=clock.now())
    assert may_start(claimed, plan_command(claimed, tmp_path, "touch made", call="c2")) is None
    assert list(Grant.objects.order_by("id").values_list("uses", flat=True)) == [0, 1]


def test_excluded_requester_cannot_use_own_grants(user, make_user, make_session, tmp_path):
    allow_approval_requests()
    user.groups.add(Group.objects.get(name="Approver"))
    ben = make_user("User")
    other = claim_run(ben, make_session(ben))
    question = request_approval(other, tmp_path)
    approval_requests.resolve_approval(question.pk, by=user, decision="allow-for", terms=GrantTerms("agent", 3600, None))
    mine = claim_run(user, make_session(user), "k2")
    assert decide_plan(mine, plan_command(mine, tmp_path, "touch made")).effect == "allow"
    allow_approval_requests(exclude_requester=True)
    assert decide_plan(mine, plan_command(mine, tmp_path, "touch made")).effect == "ask"


def test_rule_removing_network_blocks_plan_that_needs_it(claimed, tmp_path):
    allow_approval_requests(network=True)
    plan = plan_command(claimed, tmp_path, "touch made")
    assert plan.plan.network
    allow_approval_requests(network=False)
    decided = decide_plan(claimed, plan)
    assert (decided.effect, decided.reason) == ("deny", Reason("exec.no_network"))


def test_allowlist_fallback_runs_listed_command_after_expiry(claimed, make_user, tmp_path):
    grants.add_manually(["touch"], by=make_user("Operator"), scope="installation")
    for fallback, effect in (("deny", "deny"), ("allowlist", "allow")):
        allow_approval_requests(ask="always", ask_fallback=fallback)
        question = request_approval(claimed, tmp_path, call=fallback)
        Approval.objects.filter(pk=question.pk).update(status="expired")
        plan = plan_command(claimed, tmp_path, "touch made", call=fallback)
        decided = decide_plan(claimed, plan)
        assert decided.effect == effect
    with transaction.atomic():
        assert use_approval_or_grants(claimed, plan, decided) is None


def test_external_request_goes_to_approvers_named_by_rules(make_user):
    rule = allow_approval_requests(two_people=True)
    group = Group.objects.create(name="Security")
    rule.approver_groups.add(group)
    told = {"name": "q1", "command": "ls", "agent": "main", "seconds": 60}
    by = make_user("User")
    question = external.request_external_approval(by=by, cwd="/a", **told)
    assert (question.needed, question.approver_groups) == (2, [[group.pk]])
    assert external.request_external_approval(by=by, cwd="/a", **told).pk == question.pk
    with pytest.raises(InvalidRequest, match="directory"):
        external.request_external_approval(by=by, cwd="/b", **told)
    rule.delete()
    group.delete()
