"""History and tests of the policy without a browser: who changed what, the way back, and what must stay true."""

import re
from html import unescape

import pytest
from django.test import Client

from tests.policies import policy_restored
from tools_app import policies
from tools_app.models import PolicyTest

pytestmark = pytest.mark.usefixtures("database", "surroundings")


@pytest.fixture
def surroundings(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    with policy_restored():
        yield


@pytest.fixture
def operator(person) -> Client:
    client = Client()
    client.force_login(person("Operator", name="olga"))
    return client


def text_of(response) -> str:
    return response.content.decode()


def test_a_version_is_restored_unless_something_changed_meanwhile(operator):
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


def test_the_history_has_pages_and_each_version_its_change(operator):
    for number in range(30):
        policies.save_policy(scope="agent", subject="main", deny=["exec"] if number % 2 else ["write"])
    first = text_of(operator.get("/policies/history/", secure=True))
    assert re.findall(r'id="v(\d+)"', first) == [str(number) for number in range(31, 6, -1)]
    second = text_of(operator.get("/policies/history/?before=7", secure=True))
    assert re.findall(r'id="v(\d+)"', second) == ["6", "5", "4", "3", "2", "1"]
    assert operator.get("/policies/history/?before=x", secure=True).status_code == 404


def test_a_test_is_written_changed_and_deleted(operator):
    fields = {"name": "main never fetches", "expected": "never", "tool": "web_fetch", "agent": "main"}
    assert operator.post("/policies/tests/new/", fields, secure=True).status_code == 302
    test = PolicyTest.objects.get()
    assert "All tests hold" in text_of(operator.get("/policies/tests/", secure=True))
    assert operator.post(f"/policies/tests/{test.pk}/", {**fields, "tool": "Group:Web"}, secure=True).status_code == 302
    test.refresh_from_db()
    assert test.tool == "group:web"
    assert operator.post(f"/policies/tests/{test.pk}/delete/", secure=True).status_code == 302
    assert not PolicyTest.objects.exists()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tool": "wriet"}, "is no tool"),
        ({"tool": "read"}, "This does not hold now"),
        ({"channel": "telegram"}, "both a channel and a group"),
        ({"agent": "No Slug"}, "is no agent"),
    ],
)
def test_a_test_that_means_nothing_or_does_not_hold_is_refused(operator, wrong, words):
    fields = {"name": "t", "expected": "never", "tool": "web_fetch", "agent": "main"} | wrong
    answer = operator.post("/policies/tests/new/", fields, secure=True)
    assert answer.status_code == 400
    assert words in unescape(text_of(answer))
    assert not PolicyTest.objects.exists()


def test_a_broken_test_is_told_in_the_list(operator):
    PolicyTest.objects.create(name="main never reads", expected="never", tool="read", agent="main")
    page = text_of(operator.get("/policies/tests/", secure=True))
    assert "1 test is broken now" in page
    assert "Policy test “main never reads” would fail" in page
