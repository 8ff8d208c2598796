"""Exec rules, grants and questions in the admin: who edits what, and what is refused in words."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from clawsite.infra import clock
from clawsite.infra.errors import Conflict, Forbidden, InvalidRequest
from tests.approvals import asked
from tools_app.execution import grants
from tools_app.execution.rules import let_ask, rules_for, save_rule
from tools_app.models import Approval, ExecRule, Grant

pytestmark = pytest.mark.usefixtures("database", "plain_static_files")

RULES = "admin:tools_app_execrule"
GRANTS = "admin:tools_app_grant"


@pytest.fixture
def plain_static_files(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


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


@pytest.fixture
def olga(person):
    return person("Operator", name="olga")


def test_an_operator_writes_a_rule_and_changes_it(olga):
    client = browser(olga)
    made = client.post(reverse(f"{RULES}_add"), form(scope="agent", subject="main", security="allowlist", two_people="true"))
    assert made.status_code == 302
    rule = ExecRule.objects.get()
    assert (rule.security, rule.two_people, rule.network, rule.version, rule.updated_by) == ("allowlist", True, None, 1, olga)
    changed = client.post(reverse(f"{RULES}_change", args=[rule.pk]), form(security="deny", seen_version=1))
    assert changed.status_code == 302
    rule.refresh_from_db()
    assert (rule.scope, rule.subject, rule.security, rule.version) == ("agent", "main", "deny", 2)


def test_the_second_of_two_operators_gets_a_conflict(olga, person):
    rule = ExecRule.objects.create(scope="installation", security="deny")
    assert (
        browser(person("Operator"))
        .post(reverse(f"{RULES}_change", args=[rule.pk]), form(security="full", seen_version=1))
        .status_code
        == 302
    )
    late = browser(olga).post(reverse(f"{RULES}_change", args=[rule.pk]), form(security="allowlist", seen_version=1))
    assert late.status_code == 200
    assert "Somebody else has changed this rule" in late.content.decode()
    assert ExecRule.objects.get().security == "full"


def test_the_service_checks_the_version_whatever_a_form_did(olga):
    rule = ExecRule.objects.create(scope="installation", security="deny", version=4)
    with pytest.raises(Conflict):
        save_rule(rule, by=olga, expected_version=3)
    with pytest.raises(Conflict):
        save_rule(ExecRule(scope="installation", security="full"), by=olga, expected_version=None)


@pytest.mark.parametrize(
    ("scope", "subject", "words"),
    [
        ("installation", "main", "leave it empty"),
        ("agent", "", "name the agent or the session"),
        ("session", "nonsense", "there is no such session"),
    ],
)
def test_a_place_that_does_not_exist_is_refused_beside_its_field(olga, scope, subject, words):
    page = browser(olga).post(reverse(f"{RULES}_add"), form(scope=scope, subject=subject, security="full"))
    assert page.status_code == 200
    assert words in page.content.decode()
    assert not ExecRule.objects.exists()


def test_only_operators_reach_rules_and_nobody_edits_what_happened(olga, person, session_of):
    ada = person(name="ada")
    question = asked(ada, session_of(ada))
    for groups in (("Approver",), ("User",), ("Auditor",)):
        client = browser(person(*groups))
        assert client.post(reverse(f"{RULES}_add"), form(security="full")).status_code == 403
    for user in (olga, person("Operator", "Approver", "Auditor")):
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


def test_an_operator_does_not_read_along_in_the_admin(olga, person, session_of):
    ada = person(name="ada")
    question = asked(ada, session_of(ada), "cat my-diary.txt", why="my secret thoughts")
    address = reverse("admin:tools_app_approval_change", args=[question.pk])
    seen = browser(olga).get(address).content.decode()
    assert "my-diary" not in seen
    assert "secret thoughts" not in seen
    assert "my-diary" in browser(person("Operator", "Auditor")).get(address).content.decode()


def test_an_operator_adds_to_the_list_and_takes_it_back(olga):
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
    assert "does not count any more" in client.post(reverse(f"{GRANTS}_changelist"), action).content.decode()
    client.post(reverse(f"{GRANTS}_changelist"), {**action, "confirmed": "yes"})
    grant.refresh_from_db()
    assert grant.revoked_by == olga
    assert client.post(reverse(f"{GRANTS}_delete", args=[grant.pk]), {"post": "yes"}).status_code == 403


@pytest.mark.parametrize("pattern", ["*", "/*", "py*", "bin/ls", "a b", "ls\u200b", ""])
def test_a_program_that_could_be_any_is_refused(olga, pattern):
    with pytest.raises(InvalidRequest):
        grants.add_by_hand([pattern], by=olga, scope="installation")
    page = browser(olga).post(reverse(f"{GRANTS}_add"), {"scope": "installation", "programs": pattern})
    assert page.status_code == 200
    assert not Grant.objects.exists()


def test_neither_an_approver_nor_a_program_changes_rules_or_lists(person):
    approver, robot = person("Approver"), person("Operator")
    robot.is_service = True
    robot.save()
    for account in (approver, robot):
        with pytest.raises(Forbidden):
            let_ask("main", account)
        with pytest.raises(Forbidden):
            grants.add_by_hand(["ls"], by=account, scope="installation")


def test_letting_ask_keeps_what_the_agents_rule_says_besides(olga):
    ExecRule.objects.create(scope="agent", subject="main", two_people=True, ask="always")
    let_ask("main", olga)
    rules = rules_for("main", "")
    assert (rules.security, rules.ask, rules.two_people) == ("allowlist", "always", True)
    assert ExecRule.objects.get().version == 2
    assert ExecRule.objects.get().updated_at <= clock.now()
