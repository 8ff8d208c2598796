"""Notifications of new requests: only for users who enabled them, while the page is hidden, and without the command."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from clawsite.accounts.models import User
from clawsite.infra import clock
from sessions_app.models import Session
from tests.harness.approvals import create_approval
from tests.web.chat_page import sign_in, wait_until
from tests.web.fake_gateway import FakeGateway
from tools_app.approvals import requests as approval_requests
from tools_app.models import Approval

pytestmark = pytest.mark.usefixtures("database", "patience")

# The browser's own would show a system window; this one records them. The test controls whether the page is visible.
STUB = """
window.notices = [];
window.isHidden = false;
Object.defineProperty(document, "hidden", { get: () => window.isHidden });
window.Notification = class extends EventTarget {
  static permission = "granted";
  static requestPermission = async () => "granted";
  constructor(title, options) {
    super();
    window.notices.push({ title, ...options });
    window.lastNotice = this;
  }
};
"""
SECRET = "s3cret-of-the-command"


@pytest.fixture
def ask(ada: User, make_session: Callable[..., Session], gateway: FakeGateway) -> Callable[..., Approval]:
    """A new request, with the gateway's event."""

    def ask(*words: str, **more: Any) -> Approval:
        question = create_approval(ada, make_session(ada), *words, created_at=clock.now(), **more)
        if gateway.socket:
            gateway.send({"type": "event", "event": "exec.approval.requested", "payload": {"id": str(question.pk)}})
        return question

    return ask


@pytest.fixture
def queue(page: Page, site: str, gateway: FakeGateway, make_user: Callable[..., User]) -> Callable[[], Page]:
    def opened() -> Page:
        page.context.grant_permissions(["notifications"], origin=site)
        page.add_init_script(STUB)
        sign_in(page, site, make_user("Approver", name="ben"))
        page.goto(f"{site}/approvals/")
        expect(page.locator("#queue-state")).to_contain_text("live")
        return page

    return opened


def notices(page: Page) -> list[dict[str, str]]:
    found: list[dict[str, str]] = page.evaluate("window.notices")
    return found


def counted(page: Page, number: int) -> None:
    """Wait until the page has handled the event."""
    wait_until(page, lambda: page.title().startswith(f"({number}) ") if number else not page.title().startswith("("))


def test_hidden_page_notification_omits_the_command(queue: Callable[[], Page], site: str, ask: Callable[..., Approval]) -> None:
    ask()
    page = queue()
    counted(page, 1)
    expect(page.locator("#notify")).to_have_attribute("aria-pressed", "false")
    page.locator("#notify").click()
    expect(page.locator("#notify")).to_have_attribute("aria-pressed", "true")
    ask()
    counted(page, 2)
    assert notices(page) == [], "who looks at the page sees it there"
    page.evaluate("window.isHidden = true")
    question = ask(f"curl -H 'Authorization: {SECRET}' https://example.com", why=SECRET)
    wait_until(page, lambda: bool(notices(page)))
    assert notices(page) == [{"title": "Agent main wants to run a command", "body": "for ada", "tag": f"approval-{question.pk}"}]
    page.evaluate("window.lastNotice.dispatchEvent(new Event('click'))")
    page.wait_for_url(f"{site}/approvals/{question.pk}/")


def test_only_new_approval_requests_trigger_notifications(
    queue: Callable[[], Page], ask: Callable[..., Approval], gateway: FakeGateway, make_user: Callable[..., User]
) -> None:
    page = queue()
    page.locator("#notify").click()
    page.evaluate("window.isHidden = true")
    cleo = make_user("Approver", name="cleo")
    questions = [ask() for _ in range(3)]
    counted(page, 3)
    told = len(notices(page))  # several that arrive together are one
    assert told >= 1
    approval_requests.resolve_approval(questions[2].pk, by=cleo, decision="deny")
    gateway.send({"type": "event", "event": "exec.approval.resolved", "payload": {"id": str(questions[2].pk)}})
    counted(page, 2)
    assert len(notices(page)) == told
    for question in questions[:2]:
        approval_requests.resolve_approval(question.pk, by=cleo, decision="deny")
    last = ask()
    counted(page, 1)
    wait_until(page, lambda: len(notices(page)) == told + 1)
    assert notices(page)[-1]["tag"] == f"approval-{last.pk}"


def test_disabled_notifications_are_not_sent(queue: Callable[[], Page], ask: Callable[..., Approval]) -> None:
    page = queue()
    page.evaluate("window.isHidden = true")
    ask()
    counted(page, 1)
    page.locator("#notify").click()
    page.locator("#notify").click()
    ask()
    counted(page, 2)
    assert notices(page) == []


def test_count_endpoint_omits_the_command(queue: Callable[[], Page], ask: Callable[..., Approval], site: str) -> None:
    question = ask(f"echo {SECRET}", why=SECRET)
    told = queue().context.request.get(f"{site}/approvals/count/").json()
    newest = {"id": str(question.pk), "agent": "main", "person": "ada", "askedAt": clock.to_ms(question.created_at)}
    assert told == {"count": 1, "newest": newest}
