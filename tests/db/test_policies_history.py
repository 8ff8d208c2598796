"""Policy history and policy tests without a browser: who changed what, restoring versions, and tests that must hold."""

import re
from html import unescape

import pytest
from django.test import Client

from tests.harness.page_source import compact_html
from tests.harness.policies import restore_policy
from tools_app.models import PolicyTest, PolicyVersion
from tools_app.policy_store import policies
from tools_app.policy_store.policy_tests import save_test

pytestmark = pytest.mark.usefixtures("database", "surroundings")


@pytest.fixture
def surroundings(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    with restore_policy():
        yield


@pytest.fixture
def operator(make_user) -> Client:
    client = Client()
    client.force_login(make_user("Operator", name="olga"))
    return client


def text_of(response) -> str:
    return compact_html(response.content.decode())


def test_restore_is_rejected_after_concurrent_change(operator):
    policies.save_policy(scope="agent", subject="main", profile="full")
    page = text_of(operator.get("/policies/history/1/", secure=True))
    assert re.search(r'class="removed">.*?<code>full</code>', page)
    policies.save_policy(scope="agent", subject="scout", profile="full")
    answer = operator.post("/policies/history/1/restore/", {"seen": 2}, secure=True)
    assert answer.status_code == 409
    assert "it is at version 3, not 2" in text_of(answer)
    assert operator.post("/policies/history/1/restore/", {"seen": 3}, secure=True).status_code == 302
    assert policies.current_rules().row("agent", "main").profile == "coding"
    assert policies.current_rules().version == 4
    assert operator.post("/policies/history/99/restore/", {"seen": 4}, secure=True).status_code == 404


def test_only_operators_can_restore_version_from_list(operator, make_user):
    policies.save_policy(scope="agent", subject="main", profile="full")
    page = text_of(operator.get("/policies/history/", secure=True))
    (form,) = re.findall(r'<form method="post" action="/policies/history/(\d+)/restore/">.*?name="seen" value="(\d+)"', page)
    assert form == ("1", "2")
    assert operator.post(f"/policies/history/{form[0]}/restore/", {"seen": form[1]}, secure=True).status_code == 302
    assert policies.current_rules().row("agent", "main").profile == "coding"
    auditor = Client()
    auditor.force_login(make_user("Auditor"))
    assert "/restore/" not in text_of(auditor.get("/policies/history/", secure=True))


def test_history_is_paginated_and_shows_changes(operator):
    for number in range(30):
        policies.save_policy(scope="agent", subject="main", deny=["exec"] if number % 2 else ["write"])
    first = text_of(operator.get("/policies/history/", secure=True))
    assert re.findall(r'id="v(\d+)"', first) == [str(number) for number in range(31, 6, -1)]
    second = text_of(operator.get("/policies/history/?before=7", secure=True))
    assert re.findall(r'id="v(\d+)"', second) == ["6", "5", "4", "3", "2", "1"]
    assert operator.get("/policies/history/?before=x", secure=True).status_code == 404


def test_policy_test_can_be_created_changed_and_deleted(operator):
    fields = {"name": "main never fetches", "expected": "never", "tool": "web_fetch", "agent": "main"}
    assert operator.post("/policies/tests/new/", fields, secure=True).status_code == 302
    test = PolicyTest.objects.get()
    assert "All tests pass" in text_of(operator.get("/policies/tests/", secure=True))
    assert operator.post(f"/policies/tests/{test.pk}/", {**fields, "tool": "Group:Web"}, secure=True).status_code == 302
    test.refresh_from_db()
    assert test.tool == "group:web"
    assert operator.post(f"/policies/tests/{test.pk}/delete/", secure=True).status_code == 302
    assert not PolicyTest.objects.exists()
    history = unescape(text_of(operator.get("/policies/history/", secure=True)))
    assert history.count("No rule changes.") == 3
    told = re.findall(
        r'class="(added|removed)">(?:<span.*?</span>)+ <code>main never fetches · main never gets (.*?)</code>', history
    )
    assert told == [("removed", "group:web"), ("removed", "web_fetch"), ("added", "group:web"), ("added", "web_fetch")]
    changed = [(each.change, each.changed_by.username) for each in PolicyVersion.objects.filter(number__gt=1)]
    assert changed == [(f"{word} test “main never fetches”", "olga") for word in ("deleted", "saved", "saved")]


def test_concurrent_test_edit_is_reported_and_input_is_kept(operator):
    test = save_test(name="main never fetches", expected="never", agent="main", tool="web_fetch")
    page = text_of(operator.get(f"/policies/tests/{test.pk}/", secure=True))
    seen = re.search(r'name="seen_version" value="(\d+)"', page)[1]
    save_test(test.pk, name=test.name, expected="never", agent="main", tool="group:web")
    fields = {"name": test.name, "expected": "never", "tool": "web_search", "agent": "main"}
    answer = operator.post(f"/policies/tests/{test.pk}/", {**fields, "seen_version": seen}, secure=True)
    assert answer.status_code == 400
    assert "The policy was changed while you were editing" in text_of(answer)
    assert 'value="web_search"' in text_of(answer)
    gone = operator.post(f"/policies/tests/{test.pk}/delete/", {"seen": seen}, secure=True)
    assert "it is at version 3, not 2" in text_of(operator.get(gone["Location"], secure=True))
    assert PolicyTest.objects.get().tool == "group:web"


def test_restoring_version_keeps_current_tests(operator):
    save_test(name="main never fetches", expected="never", agent="main", tool="web_fetch")
    policies.save_policy(scope="agent", subject="scout", profile="full")
    assert operator.post("/policies/history/1/restore/", {"seen": 3}, secure=True).status_code == 302
    assert PolicyTest.objects.get().name == "main never fetches"


def test_version_without_recorded_tests_shows_no_test_changes(operator):
    save_test(name="main never fetches", expected="never", agent="main", tool="web_fetch")
    PolicyVersion.objects.filter(number=1).update(tests=None)
    assert "main never gets web_fetch" not in text_of(operator.get("/policies/history/", secure=True))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tool": "wriet"}, "is not a tool"),
        ({"tool": "read"}, "This test fails now"),
        ({"channel": "telegram"}, "both a channel and a group"),
        ({"agent": "No Slug"}, "is not a valid agent ID"),
    ],
)
def test_invalid_or_failing_policy_test_is_rejected(operator, wrong, words):
    fields = {"name": "t", "expected": "never", "tool": "web_fetch", "agent": "main"} | wrong
    answer = operator.post("/policies/tests/new/", fields, secure=True)
    assert answer.status_code == 400
    assert words in unescape(text_of(answer))
    assert not PolicyTest.objects.exists()


def test_failing_policy_test_is_shown_in_list(operator):
    PolicyTest.objects.create(name="main never reads", expected="never", tool="read", agent="main")
    page = text_of(operator.get("/policies/tests/", secure=True))
    assert "1 test is failing" in page
    assert "Policy test “main never reads” would fail" in page
