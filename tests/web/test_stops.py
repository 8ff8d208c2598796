"""The stop button and the banner: who sees them, their text, and the whole workflow in a browser with a running installation."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import Page, expect

from agents.models import Agent
from clawsite.accounts.models import User
from sessions_app.models import Freeze, Run, Session
from sessions_app.runs import freezes, lifecycle
from sessions_app.sessions.service import ensure_session
from tests.harness.page_source import compact_html
from tests.harness.stack import Stack
from tests.harness.waits import waiting_for
from tests.web.chat_page import TIMEOUT_MS, answers, open_page, send

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def operator(make_user: Callable[..., User]) -> User:
    return staff(make_user("Operator", "User", name="olga"))


def staff(user: User) -> User:
    user.is_staff = True
    user.save()
    return user


@pytest.fixture(autouse=True)
def nothing_is_left_stopped(database: None) -> Iterator[None]:
    yield
    Freeze.objects.all().delete()


def signed_in(user: User, **options: Any) -> Client:
    client = Client(**options)
    client.force_login(user)
    return client


def stop(scope: str = "all", subject: str = "") -> Freeze:
    return freezes.freeze(scope, subject, reason="it <b>deletes</b> files", by=None, by_name="host")[0]


def test_operator_freezes_and_resumes_with_reasons(operator: User) -> None:
    client = signed_in(operator)
    answer = client.post("/stops/stop/", {"scope": "all", "reason": "it deletes files", "next": "/admin/"})
    assert (answer.status_code, answer["Location"]) == (302, "/admin/")
    (made,) = freezes.list_active()
    assert (made.scope, made.by, made.reason) == ("all", operator, "it deletes files")
    page = client.get("/stops/").content.decode()
    assert f'id="stop-{made.pk}"' in page
    assert 'class="remark good"' not in page  # a warning, although the action succeeded
    assert "Everything is frozen." in page
    assert "it deletes files" in page
    assert 'value="all"' in page
    client.post("/stops/resume/", {"scope": "all", "reason": "it was the test data"})
    assert freezes.list_active() == []
    assert "it was the test data" in client.get("/stops/").content.decode()


@pytest.mark.parametrize("address", ["/stops/stop/", "/stops/resume/"])
def test_invalid_or_unauthorized_freeze_requests_are_rejected(operator: User, user: User, address: str) -> None:
    if address.endswith("resume/"):
        stop()
    before = [each.pk for each in freezes.list_active()]
    wish = {"scope": "all", "reason": "because"}
    assert signed_in(operator).post(address, {**wish, "reason": " "}).status_code == 302
    assert signed_in(operator, enforce_csrf_checks=True).post(address, wish).status_code == 403
    assert signed_in(user).post(address, wish).status_code == 403
    assert Client().post(address, wish)["Location"].startswith("/sign-in/")
    assert signed_in(operator).get(address).status_code == 405
    assert [each.pk for each in freezes.list_active()] == before


def test_freeze_page_is_operator_only(user: User) -> None:
    assert signed_in(user).get("/stops/").status_code == 403
    assert Client().get("/stops/").status_code == 302


@pytest.mark.parametrize("elsewhere", ["https://example.com/", "//example.com/", "javascript:alert(1)"])
def test_return_url_never_leaves_the_site(operator: User, elsewhere: str) -> None:
    answer = signed_in(operator).post("/stops/stop/", {"scope": "all", "reason": "x", "next": elsewhere})
    assert answer["Location"] == "/stops/"


def test_dashboard_has_freeze_button_and_shows_active_freezes(operator: User, make_user: Callable[..., User]) -> None:
    client = signed_in(operator)
    page = client.get("/admin/").content.decode()
    assert "Stop everything" in page
    assert "stopped-now" not in page
    made = stop()
    page = client.get("/admin/").content.decode()
    assert "Everything was frozen by host: it" in page
    assert "it &lt;b&gt;deletes&lt;/b&gt; files" in page
    assert f'href="/stops/#stop-{made.pk}"' in page
    now = json.loads(client.get("/admin/dashboard/live/").content)
    health = next(tile for tile in now["tiles"] if tile["key"] == "health")
    assert health["tone"] == "bad"
    assert health["value"] != "ready"
    (told,) = now["stopped"]
    assert (told["words"].startswith("Everything was frozen by host"), told["href"]) == (True, f"/stops/#stop-{made.pk}")
    auditor = signed_in(staff(make_user("Auditor"))).get("/admin/").content.decode()
    assert "Everything was frozen by host" in auditor
    assert "Resume…" not in auditor
    assert "Stop everything" not in auditor


def test_agent_admin_page_has_freeze_button(operator: User) -> None:
    agent = Agent.objects.get(slug="main")
    page = compact_html(signed_in(operator).get(f"/admin/agents/agent/{agent.pk}/change/").content.decode())
    assert "Freeze agent main" in page
    assert '<input type="hidden" name="scope" value="agent"> <input type="hidden" name="subject" value="main">' in page
    assert "css/stops.css" in page
    assert "Freeze agent" not in signed_in(operator).get("/admin/agents/agent/add/").content.decode()


def test_run_page_shows_operator_button_and_public_banner(operator: User, user: User, make_session: Callable[..., Session]) -> None:
    accepted = lifecycle.accept_run(user=user, session=make_session(user), run_id="k1", prompt="hi")
    address = f"/runs/{accepted.pk}/"
    assert "Freeze this run" in signed_in(operator).get(address).content.decode()
    signed_in(operator).post("/stops/stop/", {"scope": "run", "subject": str(accepted.pk), "reason": "in circles"})
    page = signed_in(user).get(address).content.decode()
    assert f"Run {accepted.pk} was frozen by olga: " in page
    assert "Freeze this run" not in page
    assert "Resume…" not in page
    assert "Resume…" in signed_in(operator).get(address).content.decode()


def test_frozen_run_completes_after_resume(page: Page, live: Stack, operator: User) -> None:
    """While a run is active, the button on the dashboard freezes it; the chat shows why; resuming completes the answer."""
    live.sign_in(page, operator)
    key = "agent:main:halted"
    open_page(page, f"{live.url}/#{key.replace(':', '%3A')}")
    send(page, "[[tokens=12 hang_after=4 times=1 tag=story]]")
    expect(answers(page)).to_contain_text("w3", timeout=TIMEOUT_MS)
    board = page.context.new_page()
    board.goto(f"{live.url}/admin/")
    board.get_by_text("Stop everything", exact=True).click()
    board.get_by_label("Reason (shown to people who are waiting)").fill("it <b>deletes</b> files")
    board.get_by_role("button", name="Freeze now").click()
    expect(board.locator(".stopped-now")).to_contain_text("Everything was frozen by olga", timeout=TIMEOUT_MS)
    expect(page.locator("#halted")).to_contain_text("it <b>deletes</b> files", timeout=TIMEOUT_MS)
    expect(page.locator("#halted")).to_contain_text("Frozen by olga")
    expect(page.locator(".ending .note")).to_have_text("Waiting: frozen by an operator", timeout=TIMEOUT_MS)
    expect(answers(page)).to_have_count(0)
    assert waiting_for(Run.objects.get(session=ensure_session(operator, key)).pk) == "frozen"
    page.reload()
    expect(page.locator("#halted")).to_contain_text("Frozen by olga", timeout=TIMEOUT_MS)
    page.locator("#halted a").click()
    page.get_by_label("Reason for resuming").fill("it was the test data")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("Nothing is frozen.")).to_be_visible(timeout=TIMEOUT_MS)
    expect(board.locator(".stopped-now")).to_have_count(0, timeout=TIMEOUT_MS)
    open_page(page, f"{live.url}/#{key.replace(':', '%3A')}")
    expect(answers(page)).to_contain_text("w11", timeout=TIMEOUT_MS)
    expect(page.locator("#halted")).to_be_hidden()
