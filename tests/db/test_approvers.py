"""Permission to approve is checked when a request is created, when it is decided, and when the decision or a grant is used."""

import importlib

import pytest
from django.apps import apps
from django.contrib.auth.models import Group
from django.db import transaction

from agents import session_cleanup
from clawsite.gateway.protocol.approvals.records import list_open_records
from clawsite.infra import clock
from clawsite.infra.errors import Forbidden
from clawsite.infra.reasons import Reason
from clawsite.web.approvals import card as approvals_card
from sessions_app.models import Run, Session
from tests.harness.approvals import allow_approval_requests, claim_run, decide_plan, plan_command, request_approval
from tools_app.approvals import approvers, command_decision, grants
from tools_app.approvals import requests as approval_requests
from tools_app.approvals.grants import GrantTerms
from tools_app.models import Approval, ExecRule, Grant

pytestmark = pytest.mark.usefixtures("database")

AGAIN = {"call": "c2"}


@pytest.fixture
def requester(make_user):
    """An approver, who may also approve their own requests unless a rule forbids it."""
    return make_user("Approver", "User", name="rosa")


@pytest.fixture
def claimed(requester, make_session):
    allow_approval_requests()
    return claim_run(requester, make_session(requester))


@pytest.fixture
def question(claimed, tmp_path):
    return request_approval(claimed, tmp_path)


@pytest.fixture
def plan(claimed, question, tmp_path):
    return plan_command(claimed, tmp_path, "touch made")


@pytest.fixture
def security(database):
    yield Group.objects.create(name="Security")
    ExecRule.objects.all().delete()
    Group.objects.exclude(name__in=["User", "Auditor", "Approver", "Operator"]).delete()


def is_switched_off(giver, group):
    giver.is_active = False
    giver.save()


def loses_the_right(giver, group):
    giver.groups.clear()


def may_not_answer_their_own(giver, group):
    allow_approval_requests(exclude_requester=True)


def is_not_of_the_group(giver, group):
    allow_approval_requests().approver_groups.add(group)


def is_one_of_two(giver, group):
    allow_approval_requests(two_people=True)


CHANGES = [is_switched_off, loses_the_right, may_not_answer_their_own, is_not_of_the_group, is_one_of_two]


def start(claimed, plan, decided):
    with transaction.atomic():
        return command_decision.use_approval_or_grants(claimed, plan, decided)


@pytest.fixture
def giver(make_user, requester, request):
    """A user other than the requester, unless the change is about the requester."""
    own = "change" in request.fixturenames and request.getfixturevalue("change") is may_not_answer_their_own
    return requester if own else make_user("Approver", name="ada")


@pytest.mark.parametrize("change", CHANGES)
def test_approval_is_requested_again_after_approver_becomes_ineligible(change, claimed, question, giver, plan, security):
    approval_requests.resolve_approval(question.pk, by=giver, decision="allow-once", reason="go on")
    change(giver, security)
    decided = decide_plan(claimed, plan, why="")
    assert (decided.effect, decided.newly_requested, decided.approval == str(question.pk)) == ("ask", True, False)
    question.refresh_from_db()
    lapse = Reason("approval.two_approvers" if change is is_one_of_two else "approval.lost_permission")
    assert (question.status, question.decided_by, question.reason) == ("void", giver, "go on")
    assert Reason.from_json(question.system_reason) == lapse
    anew = Approval.objects.get(pk=decided.approval)
    assert Reason.from_json(anew.shown["reasons"][0]) == Reason("gate.asked-anew", lapse=lapse)
    assert anew.why == "because", "the agent's words are carried over"


@pytest.mark.parametrize("change", CHANGES)
def test_ineligible_approver_blocks_start_and_model_sees_reason(change, claimed, question, giver, plan, security):
    approval_requests.resolve_approval(question.pk, by=giver, decision="allow-once")
    decided = decide_plan(claimed, plan)
    assert decided.effect == "allow"
    change(giver, security)
    refused = start(claimed, plan, decided)
    question.refresh_from_db()
    assert question.status == "void"
    assert refused == Reason("exec.lapsed", lapse=Reason.from_json(question.system_reason))


def test_approval_stays_valid_if_approver_meets_new_rules(claimed, question, make_user, plan, security):
    ada = make_user("Approver", "Security")
    approval_requests.resolve_approval(question.pk, by=ada, decision="allow-once")
    allow_approval_requests(exclude_requester=True).approver_groups.add(security)
    assert start(claimed, plan, decide_plan(claimed, plan)) is None


def test_both_approvers_must_still_be_eligible_at_start(requester, make_session, make_user, tmp_path):
    allow_approval_requests(two_people=True)
    claimed = claim_run(requester, make_session(requester))
    question = request_approval(claimed, tmp_path)
    ada, ben, cleo = (make_user("Approver") for _ in range(3))
    for who in (ada, ben):
        approval_requests.resolve_approval(question.pk, by=who, decision="allow-once")
    plan = plan_command(claimed, tmp_path, "touch made")
    decided = decide_plan(claimed, plan)
    assert decided.approval == str(question.pk)
    ada.groups.clear()
    assert start(claimed, plan, decided) == Reason("exec.lapsed", lapse=Reason("approval.lost_permission"))
    anew = decide_plan(claimed, plan)
    for who in (ben, cleo):
        approval_requests.resolve_approval(anew.approval, by=who, decision="allow-once")
    assert start(claimed, plan, decide_plan(claimed, plan)) is None


def test_open_request_is_decided_by_current_rules(question, requester, make_user, security):
    ada, ben = make_user("Approver", "Security"), make_user("Approver", "Security")
    rule = allow_approval_requests(two_people=True, exclude_requester=True)
    rule.approver_groups.add(security)
    with pytest.raises(Forbidden, match="own commands"):
        approval_requests.resolve_approval(question.pk, by=requester, decision="allow-once")
    with pytest.raises(Forbidden, match="requires an approver from: Security"):
        approval_requests.resolve_approval(question.pk, by=make_user("Approver"), decision="deny")
    (told,) = list_open_records(ada, limit=5)
    card = approvals_card.build_card(requester, question)
    assert (told["needed"], told["whyNot"], card.needed, "own commands" in card.why_not) == (2, "", 2, True)
    assert approval_requests.resolve_approval(question.pk, by=ada, decision="allow-once").is_open
    answered = approval_requests.resolve_approval(question.pk, by=ben, decision="allow-once")
    assert (answered.status, answered.needed, answered.approver_groups) == ("approved", 2, [[security.pk]])


def test_open_request_keeps_rules_from_creation(requester, make_session, make_user, tmp_path):
    allow_approval_requests(two_people=True)
    question = request_approval(claim_run(requester, make_session(requester)), tmp_path)
    allow_approval_requests(two_people=None)
    assert approval_requests.resolve_approval(question.pk, by=make_user("Approver"), decision="allow-once").is_open


def test_rules_of_forwarding_agents_also_apply(question, claimed, make_user):
    Run.objects.filter(pk=claimed.pk).update(options={"sentBy": {"through": [["other", "s1"]]}})
    allow_approval_requests("agent", "other", two_people=True)
    assert approval_requests.resolve_approval(question.pk, by=make_user("Approver"), decision="allow-once").is_open


def test_quorum_query_count_is_constant(requester, make_session, make_user, security, django_assert_num_queries, tmp_path):
    allow_approval_requests(two_people=True).approver_groups.add(security)
    claimed = claim_run(requester, make_session(requester))
    rows = [request_approval(claimed, tmp_path, call=f"c{n}") for n in range(4)]
    reader = make_user("Approver")
    reader.has_perm("accounts.approve_commands")  # read once per account
    for some in (rows[:1], rows):
        with django_assert_num_queries(5):  # runs, rules, their groups; the reader's groups, the names of all groups
            wanted, candidate = approvers.find_quorums(some), approvers.ApproverCandidate(reader)
            assert all(candidate.why_not(row.requester_id, wanted[row.pk]) for row in some)


def test_renamed_group_keeps_its_place_in_rules(question, make_user, security):
    allow_approval_requests().approver_groups.add(security)
    ada = make_user("Approver", "Security")
    security.name = "Security of old"
    security.save()
    Group.objects.create(name="Security")
    ben = make_user("Approver", "Security")
    with pytest.raises(Forbidden, match="Security of old"):
        approval_requests.resolve_approval(question.pk, by=ben, decision="allow-once")
    assert approval_requests.resolve_approval(question.pk, by=ada, decision="allow-once").status == "approved"


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("session", "agent", "session"),
        ("directory", "agent", "directory"),
        ("agent", "agent", "agent"),
        ("directory", "directory", "directory"),
        ("session", "directory", None),
    ],
)
def test_two_person_grant_covers_only_common_terms(one, other, both, requester, make_session, make_user, tmp_path):
    for first, second in ((one, other), (other, one)):
        narrower = GrantTerms(first, 900).intersect(GrantTerms(second, 900))
        assert (narrower.scope if narrower else None) == both
    allow_approval_requests(two_people=True)
    question = request_approval(claim_run(requester, make_session(requester)), tmp_path)
    for scope in (one, other):
        approval_requests.resolve_approval(
            question.pk, by=make_user("Approver"), decision="allow-for", terms=GrantTerms(scope, 900)
        )
    question.refresh_from_db()
    assert (question.status, question.decision) == ("approved", "allow-for" if both else "allow-once")
    assert list(Grant.objects.values_list("scope", flat=True)) == ([both] if both else [])


@pytest.mark.parametrize("who", [0, 1])
def test_two_person_grant_requires_both_approvers_eligible(who, requester, make_session, make_user, tmp_path):
    allow_approval_requests(two_people=True)
    claimed = claim_run(requester, make_session(requester))
    question, people = request_approval(claimed, tmp_path), [make_user("Approver"), make_user("Approver")]
    for giver in people:
        approval_requests.resolve_approval(question.pk, by=giver, decision="allow-always")
    grant = Grant.objects.get()
    assert [grant.seconded_by, grant.owner] == people
    again = plan_command(claimed, tmp_path, "touch made", **AGAIN)
    assert decide_plan(claimed, again).effect == "allow"
    people[who].groups.clear()
    assert decide_plan(claimed, again).effect == "ask"


@pytest.mark.parametrize("change", [loses_the_right, is_one_of_two])
def test_grant_without_its_request_is_still_checked(change, claimed, question, make_user, make_session, tmp_path, security):
    ada = make_user("Approver")
    approval_requests.resolve_approval(question.pk, by=ada, decision="allow-always")
    other = make_user()
    elsewhere = claim_run(other, make_session(other), "k2")
    while session_cleanup.delete_batch(claimed.session_id):
        pass
    assert (Session.objects.filter(pk=claimed.session_id).count(), Approval.objects.count()) == (0, 0)
    again = plan_command(elsewhere, tmp_path, "touch made", **AGAIN)
    assert decide_plan(elsewhere, again).effect == "allow"
    change(ada, security)
    assert decide_plan(elsewhere, again).effect == "ask"


def test_operator_allowlist_needs_no_approval(claimed, make_user, tmp_path):
    olga = make_user("Operator")
    grants.add_manually(["touch"], by=olga, scope="installation")
    olga.groups.clear()
    allow_approval_requests(two_people=True)
    assert decide_plan(claimed, plan_command(claimed, tmp_path, "touch made")).effect == "allow"


def test_migration_fills_existing_grants_and_approver_groups(claimed, question, make_user, security):
    migration = importlib.import_module("tools_app.migrations.0006_who_agreed_is_kept")
    ada, ben = make_user("Approver"), make_user("Approver")
    approval_requests.resolve_approval(question.pk, by=ada, decision="allow-always")
    question.votes.create(user=ada, at=clock.now())
    question.votes.create(user=ben, at=clock.now())
    shape = [{"pattern": "/usr/bin/ls", "shape": ["-l"]}]
    Grant.objects.create(scope="agent", subject="main", owner=ben, created_at=clock.now(), entries=shape)
    grants.add_manually(["touch"], by=make_user("Operator"), scope="installation")
    Grant.objects.update(from_answer=False, seconded_by=None)
    Approval.objects.update(approver_groups=[["Security", "gone"], ["gone"]])
    migration.keep_who_agreed(apps, None)
    migration.name_groups_by_id(apps, None)
    filled = Grant.objects.order_by("pk").values_list("from_answer", "owner", "seconded_by")
    assert list(filled)[:2] == [(True, ada.pk, ben.pk), (True, ben.pk, None)]
    assert filled[2][0] is False
    assert Approval.objects.get().approver_groups == [[security.pk], []]
    question.refresh_from_db()
    assert "requires an approver from" in approvers.why_may_not_approve(make_user("Approver", "Security"), question), (
        "a name that is gone is nobody"
    )
