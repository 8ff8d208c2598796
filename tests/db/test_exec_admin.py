"""Exec rules, grants and approval requests in the admin: who can edit what, and the messages for denied edits."""

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import ProtectedError
from django.test import Client
from django.urls import reverse

from clawsite.infra import clock
from clawsite.infra.errors import Conflict, Forbidden, InvalidRequest
from clawsite.infra.models import AuditEntry
from tests.harness.approvals import allow_approval_requests, claim_run, create_approval, decide_plan, plan_command
from tools_app.approvals import grants, rule_document
from tools_app.approvals.command_decision import use_approval_or_grants
from tools_app.exec.rules import delete_rule, enable_asking, rules_for, save_rule
from tools_app.models import Approval, ExecRule, Grant

pytestmark = pytest.mark.usefixtures("database", "plain_static_files")

RULES = "admin:tools_app_execrule"
GRANTS = "admin:tools_app_grant"


def browser(user: Any) -> Client:
    user.is_staff = True
    user.save()
    client = Client()
    client.force_login(user)
    return client


def form(**given: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("subject", "security", "ask", "ask_fallback", "expires_seconds", "timeout_seconds", "sandbox_mode"), "")
    empty |= dict.fromkeys(("sandbox_scope", "workspace_access", "minimum_level", "seen_version"), "")
    tristate = dict.fromkeys(("exclude_requester", "two_people", "network", "unsafe_without_isolation"), "unknown")
    return {"scope": "installation", **empty, **tristate, **given}


def noted(action: str) -> list[AuditEntry]:
    """Return the entries of an action, newest first; entries of earlier tests are never deleted."""
    return list(AuditEntry.objects.filter(action=action).order_by("-pk")[:5])


@pytest.fixture
def olga(make_user):
    return make_user("Operator", name="olga")


def test_operator_creates_and_changes_rule(olga):
    client = browser(olga)
    made = client.post(reverse(f"{RULES}_add"), form(scope="agent", subject="main", security="allowlist", two_people="true"))
    assert made.status_code == 302
    rule = ExecRule.objects.get()
    assert (rule.security, rule.two_people, rule.network, rule.version, rule.updated_by) == ("allowlist", True, None, 1, olga)
    changed = client.post(reverse(f"{RULES}_change", args=[rule.pk]), form(security="deny", seen_version=1))
    assert changed.status_code == 302
    rule.refresh_from_db()
    assert (rule.scope, rule.subject, rule.security, rule.version) == ("agent", "main", "deny", 2)


def test_concurrent_rule_change_gets_conflict(olga, make_user):
    rule = ExecRule.objects.create(scope="installation", security="deny")
    assert (
        browser(make_user("Operator"))
        .post(reverse(f"{RULES}_change", args=[rule.pk]), form(security="full", seen_version=1))
        .status_code
        == 302
    )
    late = browser(olga).post(reverse(f"{RULES}_change", args=[rule.pk]), form(security="allowlist", seen_version=1))
    assert late.status_code == 200
    assert "Another user changed this rule" in late.content.decode()
    assert ExecRule.objects.get().security == "full"


def test_service_checks_rule_version_independently_of_form(olga):
    rule = ExecRule.objects.create(scope="installation", security="deny", version=4)
    with pytest.raises(Conflict):
        save_rule(rule, by=olga, expected_version=3)
    with pytest.raises(Conflict):
        save_rule(ExecRule(scope="installation", security="full"), by=olga, expected_version=None)


def test_rule_delete_checks_version_and_logs_content(olga, make_user):
    rule = ExecRule.objects.create(scope="agent", subject="main", security="deny", two_people=True, version=3)
    address = reverse(f"{RULES}_delete", args=[rule.pk])
    client = browser(olga)
    seen = client.get(address)["Location"]
    assert seen == f"{address}?seen=3"
    assert (
        browser(make_user("Operator"))
        .post(reverse(f"{RULES}_change", args=[rule.pk]), form(security="full", seen_version=3))
        .status_code
        == 302
    )
    for unseen in (seen, address):
        assert "Another user changed this rule" in client.post(unseen, {"post": "yes"}, follow=True).content.decode()
    assert ExecRule.objects.get().security == "full"
    before = AuditEntry.objects.latest("pk").pk
    assert client.post(client.get(address)["Location"], {"post": "yes"}).status_code == 302
    assert not ExecRule.objects.exists()
    (entry,) = AuditEntry.objects.filter(pk__gt=before)
    assert (entry.action, entry.actor_name, entry.subject_kind, entry.subject_id) == (
        "exec_rules.changed", "olga", "exec rule", str(rule),
    )  # fmt: skip
    assert entry.details == {"change": "deleted", "version": 4, "was": {"security": "full", "approver_groups": []}}


def test_rule_deletion_requires_permission_and_logs_approver_groups(olga, make_user):
    rule = ExecRule.objects.create(scope="installation", security="deny", two_people=True)
    rule.approver_groups.set([Group.objects.get(name="Approver")])
    for other in (make_user("Approver"), make_user("Auditor")):
        assert browser(other).get(reverse(f"{RULES}_delete", args=[rule.pk])).status_code == 403
        with pytest.raises(Forbidden):
            delete_rule(rule, by=other, expected_version=1)
    with pytest.raises(Conflict):
        delete_rule(rule, by=olga, expected_version=None)
    delete_rule(rule, by=olga, expected_version=1)
    assert noted("exec_rules.changed")[0].details["was"] == {
        "security": "deny", "two_people": True, "approver_groups": ["Approver"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("scope", "subject", "words"),
    [
        ("installation", "main", "Leave this blank"),
        ("agent", "", "Enter an agent or session."),
        ("session", "nonsense", "Session not found"),
    ],
)
def test_nonexistent_rule_subject_is_rejected_with_field_error(olga, scope, subject, words):
    page = browser(olga).post(reverse(f"{RULES}_add"), form(scope=scope, subject=subject, security="full"))
    assert page.status_code == 200
    assert words in page.content.decode()
    assert not ExecRule.objects.exists()


def test_only_operators_edit_rules_and_history_is_read_only(olga, make_user, make_session):
    ada = make_user(name="ada")
    question = create_approval(ada, make_session(ada))
    for groups in (("Approver",), ("User",), ("Auditor",)):
        client = browser(make_user(*groups))
        assert client.post(reverse(f"{RULES}_add"), form(security="full")).status_code == 403
    for user in (olga, make_user("Operator", "Approver", "Auditor")):
        client = browser(user)
        address = reverse("admin:tools_app_approval_change", args=[question.pk])
        assert client.get(address).status_code == 200
        assert client.post(address, {"status": "approved"}).status_code == 403
        assert not any(
            user.has_perm(f"tools_app.{act}_{name}")
            for act in ("add", "change", "delete")
            for name in ("approval", "approvalvote", "command")
        )
        assert not user.has_perm("tools_app.delete_grant")
    assert Approval.objects.get().status == "pending"


def test_operator_cannot_read_commands_in_admin(olga, make_user, make_session):
    ada = make_user(name="ada")
    question = create_approval(ada, make_session(ada), "cat my-diary.txt", why="my secret thoughts")
    address = reverse("admin:tools_app_approval_change", args=[question.pk])
    seen = browser(olga).get(address).content.decode()
    assert "my-diary" not in seen
    assert "secret thoughts" not in seen
    assert "my-diary" in browser(make_user("Operator", "Auditor")).get(address).content.decode()


def test_operator_adds_and_revokes_allowlist_entry(olga):
    client = browser(olga)
    given = {
        "scope": "agent",
        "subject": "main",
        "programs": "git\n/usr/bin/python3*\n",
        "agent": "",
        "uses_left": "",
        "note": "daily",
    }
    assert client.post(reverse(f"{GRANTS}_add"), {**given, "days": "7"}).status_code == 302
    grant = Grant.objects.get()
    assert [entry["pattern"] for entry in grant.entries] == ["git", "/usr/bin/python3*"]
    assert grant.expires_at is not None
    assert (grant.owner, grant.note, round((grant.expires_at - clock.now()).total_seconds() / 86400)) == (olga, "daily", 7)
    action = {"action": "revoke", "_selected_action": grant.pk}
    assert "Will be revoked" in client.post(reverse(f"{GRANTS}_changelist"), action).content.decode()
    client.post(reverse(f"{GRANTS}_changelist"), {**action, "confirmed": "yes"})
    grant.refresh_from_db()
    assert grant.revoked_by == olga
    assert client.post(reverse(f"{GRANTS}_delete", args=[grant.pk]), {"post": "yes"}).status_code == 403


@pytest.mark.parametrize("pattern", ["*", "/*", "py*", "bin/ls", "a b", "ls\u200b", ""])
def test_catch_all_program_pattern_is_rejected(olga, pattern):
    with pytest.raises(InvalidRequest):
        grants.add_manually([pattern], by=olga, scope="installation")
    page = browser(olga).post(reverse(f"{GRANTS}_add"), {"scope": "installation", "programs": pattern})
    assert page.status_code == 200
    assert not Grant.objects.exists()


def test_approvers_and_service_accounts_cannot_change_rules(make_user):
    approver, robot = make_user("Approver"), make_user("Operator")
    robot.is_service = True
    robot.save()
    for account in (approver, robot):
        with pytest.raises(Forbidden):
            enable_asking("main", account)
        with pytest.raises(Forbidden):
            grants.add_manually(["ls"], by=account, scope="installation")


def test_enabling_approval_requests_keeps_other_rule_settings(olga):
    ExecRule.objects.create(scope="agent", subject="main", two_people=True, ask="always")
    enable_asking("main", olga)
    rules = rules_for("main", "")
    assert (rules.security, rules.ask, rules.two_people) == ("allowlist", "always", True)
    assert ExecRule.objects.get().version == 2
    assert ExecRule.objects.get().updated_at <= clock.now()


def test_group_named_by_rule_cannot_be_deleted(olga, make_user):
    rule = ExecRule.objects.create(scope="installation")
    group = Group.objects.create(name="Security")
    rule.approver_groups.add(group)
    with pytest.raises(ProtectedError, match="exec rule installation"):
        group.delete()
    root = make_user(name="root")
    root.is_superuser = root.is_staff = True
    root.save()
    address = reverse("admin:auth_group_delete", args=[group.pk])
    page = browser(root).post(address, {"post": "yes"})
    assert page.status_code == 403 or "installation" in page.content.decode()
    assert Group.objects.filter(pk=group.pk).exists()
    rule.approver_groups.clear()
    group.delete()
    assert not Group.objects.filter(name="Security").exists()


def test_approver_groups_are_recorded_with_rule(olga):
    group = Group.objects.create(name="Security")
    given = form(security="allowlist", ask="on-miss", approver_groups=[group.pk])
    assert browser(olga).post(reverse(f"{RULES}_add"), given).status_code == 302
    assert [entry.details.get("approver_groups") for entry in noted("exec_rules.changed")[:2]] == [["Security"], None]
    ExecRule.objects.all().delete()
    group.delete()


def test_use_of_unlimited_grant_is_recorded(olga, user, make_session, tmp_path):
    allow_approval_requests()
    made = grants.add_manually(["ls"], by=olga, scope="installation")
    claimed = claim_run(user, make_session(user))
    plan = plan_command(claimed, tmp_path, "ls")
    decided = decide_plan(claimed, plan)
    assert (decided.effect, decided.grants) == ("allow", (made.pk,))
    with transaction.atomic():
        assert use_approval_or_grants(claimed, plan, decided) is None
    assert noted("grant.used")[0].subject_id == str(made.pk)
    made.refresh_from_db()
    assert (made.uses, made.uses_left) == (1, None)


def test_rule_document_is_recorded_with_levels_and_lists(olga):
    document = {"version": 1, "defaults": {"security": "allowlist"}, "agents": {"main": {"ask": "always", "allowlist": ["ls"]}}}
    rule_document.replace_rules(document, base_hash=rule_document.hash_document(rule_document.current_document()), by=olga)
    said = noted("exec_rules.changed")[0].details
    assert (said["defaults"], said["agents"]) == ({"security": "allowlist"}, {"main": {"ask": "always"}})
    made = noted("grant.made")[0]
    assert made.details["programs"] == [{"pattern": "ls", "shape": None}]
    emptied = {"version": 1, "defaults": {}, "agents": {}}
    rule_document.replace_rules(emptied, base_hash=rule_document.hash_document(rule_document.current_document()), by=olga)
    assert noted("grant.revoked")[0].subject_id == made.subject_id


@pytest.mark.parametrize(("page", "table"), [("approvals", "admin:tools_app_approval"), ("stops", "admin:sessions_app_freeze")])
def test_menu_has_single_entries_for_approvals_and_freezes(page, table, make_user):
    def menu(user: Any) -> list[str]:
        shown = browser(user).get(reverse("admin:index")).content.decode()
        return [address for address in (reverse(page), reverse(f"{table}_changelist")) if f'href="{address}"' in shown]

    assert menu(make_user("Operator", "Auditor")) == [reverse(page)]
    assert len(menu(make_user("Auditor"))) == 1  # the page, or the table for users who can't open the page
