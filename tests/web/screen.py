"""What a test does with the chat page and looks for on it."""

from django.conf import settings
from django.test import Client
from playwright.sync_api import Locator, Page, expect

from clawsite.accounts.models import User
from tests.web.fake_gateway import FakeGateway

STORED_ANSWER = {"role": "assistant", "messageId": "m1", "runId": "r1", "content": [{"type": "text", "text": "Hello"}]}


def sign_in(page: Page, site: str, user: User) -> None:
    client = Client()
    client.force_login(user)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": site}])


def open_page(page: Page, site: str) -> Page:
    page.goto(site)
    expect(page.locator("#connection")).to_have_text("Connected")
    return page


def send(page: Page, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.get_by_label("Message").press("Enter")


def answers(page: Page) -> Locator:
    return page.locator(".message.assistant .answer")


def begin(gateway: FakeGateway, run_id: str = "r1", prompt: str = "Hi") -> None:
    gateway.tell(run_id, "lifecycle", phase="accepted", prompt=prompt)
    gateway.tell(run_id, "lifecycle", phase="start", startedAt=1)


def end(gateway: FakeGateway, run_id: str = "r1", aborted: bool = False) -> None:
    gateway.tell(run_id, "lifecycle", phase="end", aborted=aborted)
