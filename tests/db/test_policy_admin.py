"""Policies, their tests and versions in the admin: every scope, errors at their field, concurrent edits."""

import re
from html import unescape

import pytest
from django.test import Client

from tests.harness.policies import restore_policy
from tools_app.admin import policy_forms
from tools_app.models import PolicyTest, PolicyVersion, ToolPolicy
from tools_app.policy.rules import LIST_FIELDS, SCOPE_FIELDS
from tools_app.policy_store import policies
from tools_app.policy_store.policy_tests import save_test

pytestmark = pytest.mark.usefixtures("database", "surroundings")

ADD = "/admin/tools_app/toolpolicy/add/"
FINDINGS = "/admin/tools_app/toolpolicy/findings/"
EMPTY = dict.fromkeys((*SCOPE_FIELDS, "profile", *LIST_FIELDS), "")


@pytest.fixture
def surroundings(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    with restore_policy():
        yield


def staff(someone) -> Client:
    someone.is_staff = True
    someone.save()
    client = Client()
    client.force_login(someone)
    return client


@pytest.fixture
def operator(make_user) -> Client:
    return staff(make_user("Operator", name="olga"))


def change(policy: ToolPolicy) -> str:
    return f"/admin/tools_app/toolpolicy/{policy.pk}/change/"


def main_policy() -> ToolPolicy:
    return ToolPolicy.objects.get(scope="agent", subject="main")


def said(response) -> str:
    assert response.status_code == 200, "it was saved"
    return unescape(response.content.decode())


def messages_of(client: Client, response) -> str:
    assert response.status_code == 302, unescape(response.content.decode())
    return unescape(client.get(response["Location"], secure=True).content.decode())


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"scope": "global", "provider": "OpenAI", "deny": "exec"}, "global@openai"),
        ({"scope": "agent", "subject": "scout", "provider": "openai/gpt-5", "profile": "full"}, "agent:scout@openai/gpt-5"),
        (
            {"scope": "group", "channel": "telegram", "group": "-100", "sender": "@Anna", "allow": "read"},
            "group:telegram/-100#anna",
        ),
        ({"scope": "sandbox", "subject": "main", "deny": "exec, process"}, "sandbox:main"),
        ({"scope": "subagent", "deny": "group:web"}, "subagent"),
    ],
)
def test_row_of_every_scope_can_be_created(operator, row, key):
    assert operator.post(ADD, EMPTY | row | {"seen_version": 1}, secure=True).status_code == 302
    assert key in {each.key for each in policies.current_rules().rows}
    newest = PolicyVersion.objects.first()
    assert (newest.changed_by.username, newest.change) == ("olga", f"saved {key}")
    assert key in operator.get("/admin/tools_app/toolpolicy/", secure=True).content.decode()


def test_error_is_shown_at_field_and_input_is_kept(operator):
    page = said(
        operator.post(ADD, EMPTY | {"scope": "group", "channel": "telegram", "deny": "wriet", "allow": "read"}, secure=True)
    )
    assert "Entry “wriet” is not a tool" in page
    assert "A group rule needs a group" in page
    assert re.search(r'<textarea[^>]*name="allow"[^>]*>\s*read</textarea>', page)


def test_ineffective_rule_is_saved_with_warning(operator):
    saved = operator.post(
        change(main_policy()),
        {"profile": "coding", "deny": "exec", "allow": "exec\nread", "also_allow": "", "seen_version": 1},
        secure=True,
    )
    assert "“exec” has no effect" in messages_of(operator, saved)


def test_concurrent_edit_is_reported_and_input_is_kept(operator):
    policy = main_policy()
    form = {"profile": "coding", "deny": "write", "allow": "", "also_allow": "", "seen_version": 1}
    policies.save_policy(scope="agent", subject="main", profile="coding", deny=["grep"])
    answer = operator.post(change(policy), form, secure=True)
    page = said(answer)
    assert "The policy was changed while you were editing (2: saved agent:main, System)" in page
    assert re.search(r'<textarea[^>]*name="deny"[^>]*>\s*write</textarea>', page)
    assert policies.current_rules().row("agent", "main").deny == ("grep",)
    renewed = re.search(r'name="seen_version" value="(\d+)"', page)[1]
    assert operator.post(change(policy), form | {"seen_version": renewed}, secure=True).status_code == 302
    assert policies.current_rules().row("agent", "main").deny == ("write",)


def test_change_between_validation_and_save_is_reported(operator, monkeypatch):
    policies.save_policy(scope="agent", subject="main", profile="coding", deny=["grep"])
    real, looks = policy_forms.check_version, []

    def too_early(form, seen):
        looks.append(seen)
        if len(looks) > 1:
            real(form, seen)

    monkeypatch.setattr(policy_forms, "check_version", too_early)
    form = {"profile": "coding", "deny": "write", "allow": "", "also_allow": "", "seen_version": 1}
    page = said(operator.post(change(main_policy()), form, secure=True))
    assert "The policy was changed while you were editing" in page
    assert re.search(r'<textarea[^>]*name="deny"[^>]*>\s*write</textarea>', page)
    assert policies.current_rules().row("agent", "main").deny == ("grep",)


def test_row_that_breaks_policy_test_is_rejected(operator):
    save_test(name="main never fetches", expected="never", agent="main", tool="web_fetch")
    form = {"profile": "full", "deny": "", "allow": "", "also_allow": "", "seen_version": 2}
    assert "Policy test “main never fetches” would fail" in said(operator.post(change(main_policy()), form, secure=True))
    save_test(name="main reads", expected="allowed", agent="main", tool="read")
    answer = operator.post(f"/admin/tools_app/toolpolicy/{main_policy().pk}/delete/", {"post": "yes"}, secure=True)
    assert "Policy test “main reads” would fail" in messages_of(operator, answer)
    assert main_policy()


def test_deleting_row_records_version(operator):
    assert operator.post(f"/admin/tools_app/toolpolicy/{main_policy().pk}/delete/", {"post": "yes"}, secure=True).status_code == 302
    assert PolicyVersion.objects.first().change == "deleted agent:main"


def test_changed_row_is_not_deleted(operator):
    address = f"/admin/tools_app/toolpolicy/{main_policy().pk}/delete/"
    asked = operator.get(address, secure=True)["Location"]
    assert asked == f"{address}?seen=1"
    assert operator.get(asked, secure=True).status_code == 200
    policies.save_policy(scope="agent", subject="main", profile="coding", deny=["exec"])
    told = messages_of(operator, operator.post(asked, {"post": "yes"}, secure=True))
    assert "The policy has changed: it is at version 2, not 1. Review it again." in told
    assert main_policy().deny == ["exec"]
    again = operator.get(address, secure=True)["Location"]
    assert operator.post(again, {"post": "yes"}, secure=True).status_code == 302
    assert PolicyVersion.objects.first().change == "deleted agent:main"


def test_findings_are_returned_while_typing(operator):
    def findings(**fields):
        return operator.get(FINDINGS, fields, secure=True).json()["findings"]

    assert [(each["field"], each["level"]) for each in findings(scope="agent", subject="No Slug", deny="wriet")] == [
        ("subject", "error"),
        ("deny", "error"),
    ]
    assert findings(scope="agent", subject="main", deny="nothing_*")[0]["words"] == "“nothing_*” matches no existing tool."
    assert findings(scope="agent", subject="main", profile="coding", deny="exec") == []


def test_findings_require_view_permission(make_user):
    answer = staff(make_user("User")).get(FINDINGS, {"scope": "global"}, secure=True)
    assert answer.status_code == 403
    assert Client().get(FINDINGS, {"scope": "global"}, secure=True).status_code == 302


def test_tools_groups_and_plugins_are_suggested(operator):
    page = operator.get(ADD, secure=True).content.decode()
    assert '<option value="group:runtime" label="exec, process"></option>' in page
    assert '<option value="web_fetch" label="web"></option>' in page


def test_passing_test_is_saved_and_failing_test_is_rejected(operator):
    add = "/admin/tools_app/policytest/add/"
    fields = {"name": "main never fetches", "expected": "never", "tool": "web_fetch", "agent": "main"}
    assert operator.post(add, fields, secure=True).status_code == 302
    broken = said(operator.post(add, fields | {"name": "main never reads", "tool": "read"}, secure=True))
    assert "This test fails now, so it would block every change" in broken
    assert "is not a tool" in said(operator.post(add, fields | {"name": "x", "tool": "wriet"}, secure=True))
    assert list(PolicyTest.objects.values_list("name", flat=True)) == ["main never fetches"]
    PolicyTest.objects.create(name="main never writes", expected="never", tool="write", agent="main")
    listed = operator.get("/admin/tools_app/policytest/", secure=True).content.decode()
    assert len(re.findall(r">\s*(passes|fails)\s*<", listed)) == 2


def test_changed_policy_test_is_neither_overwritten_nor_deleted(operator):
    test = save_test(name="main never fetches", expected="never", agent="main", tool="web_fetch")
    address = f"/admin/tools_app/policytest/{test.pk}/"
    fields = {"name": test.name, "expected": "never", "tool": "web_search", "agent": "main", "seen_version": 2}
    deleting = operator.get(f"{address}delete/", secure=True)["Location"]
    save_test(test.pk, name=test.name, expected="never", agent="main", tool="group:web")
    page = said(operator.post(f"{address}change/", fields, secure=True))
    assert "The policy was changed while you were editing (3: saved test “main never fetches”, System)" in page
    assert 'value="web_search"' in page
    assert "it is at version 3, not 2" in messages_of(operator, operator.post(deleting, {"post": "yes"}, secure=True))
    assert PolicyTest.objects.get().tool == "group:web"
    assert operator.post(f"{address}change/", fields | {"seen_version": 3}, secure=True).status_code == 302
    newest = PolicyVersion.objects.first()
    assert (newest.number, newest.changed_by.username, newest.tests[0]["tool"]) == (4, "olga", "web_search")


def test_restore_action_shows_changes_first(operator, make_user):
    policies.save_policy(scope="agent", subject="main", profile="full")
    old = PolicyVersion.objects.get(number=1)
    chosen = {"action": "restore", "_selected_action": [old.pk]}
    answer = operator.post("/admin/tools_app/policyversion/", chosen, secure=True)
    assert answer["Location"] == "/policies/history/1/#restore"
    both = {"action": "restore", "_selected_action": [each.pk for each in PolicyVersion.objects.all()]}
    assert "Choose one version" in messages_of(operator, operator.post("/admin/tools_app/policyversion/", both, secure=True))
    assert policies.current_rules().version == 2
    auditor = staff(make_user("Auditor"))
    assert b'value="restore"' not in auditor.get("/admin/tools_app/policyversion/", secure=True).content


def test_policy_admin_rejects_unknown_lookups(operator):
    assert operator.get("/admin/tools_app/toolpolicy/?scope=agent&subject=main", secure=True).status_code == 200
    assert operator.get("/admin/tools_app/policyversion/?changed_by__password__startswith=p", secure=True).status_code == 400
