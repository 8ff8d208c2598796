"""Actions on the chat page, and what to look for on it."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import Locator, Page, expect

from clawsite.accounts.models import User
from tests.harness.users import session_cookie
from tests.web.fake_gateway import FakeGateway
from tests.web.sample_data import SIZES

TIMEOUT_MS = 60_000  # long, because a loaded machine starts a run late
OpenChat = Callable[..., Page]
NOW = 1_700_000_000_000
# Both sizes where the layout matters; behavior is tested once, by default on the desktop.
on_desk_and_phone = pytest.mark.parametrize("size", SIZES)
on_phone = pytest.mark.parametrize("size", ["phone"])
STORED_ANSWER = {"role": "assistant", "messageId": "m1", "runId": "r1", "content": [{"type": "text", "text": "Hello"}]}


def sign_in(page: Page, site: str, user: User) -> None:
    page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session_cookie(user), "url": site}])


def open_page(page: Page, site: str) -> Page:
    page.goto(site)
    expect(page.locator("#connection")).to_have_text("Connected")
    return page


def is_phone(page: Page) -> bool:
    return bool(page.evaluate("matchMedia('(hover: none) and (pointer: coarse)').matches"))


def message_field(page: Page) -> Locator:
    return page.get_by_label("Message", exact=True)


def send(page: Page, text: str) -> None:
    """Send with Enter, or with the button on phones, where Enter starts a new line."""
    message_field(page).fill(text)
    if is_phone(page):
        page.locator("#send").click()
    else:
        message_field(page).press("Enter")


def show_chat_list(page: Page) -> None:
    """Show the list of chats, which is a drawer on phones."""
    toggle = page.locator("#toggle-sessions")
    if toggle.is_visible() and toggle.get_attribute("aria-expanded") == "false":
        toggle.click()
    expect(page.locator("#sessions")).to_be_visible()


def wait_until(page: Page, condition: Callable[[], bool]) -> None:
    """Wait for a condition outside the page."""
    for _ in range(TIMEOUT_MS // 50):
        if condition():
            return
        page.wait_for_timeout(50)
    raise AssertionError("condition not met in time")


def answers(page: Page) -> Locator:
    return page.locator(".message.assistant .answer")


def answer_texts(page: Page) -> list[str]:
    """Return the answers without the trailing line break that formatting adds at some point."""
    return [text.strip() for text in answers(page).all_text_contents()]


def start_run(gateway: FakeGateway, run_id: str = "r1", prompt: str = "Hi") -> None:
    gateway.send_event(run_id, "lifecycle", phase="accepted", prompt=prompt)
    gateway.send_event(run_id, "lifecycle", phase="start", startedAt=1)


def end_run(gateway: FakeGateway, run_id: str = "r1", aborted: bool = False) -> None:
    gateway.send_event(run_id, "lifecycle", phase="end", aborted=aborted)


def finish_message(gateway: FakeGateway, text: str, message: str = "m1", run: str = "r1") -> None:
    content = {"content": [{"type": "text", "text": text}], "model": "openai/gpt-5", "usage": {"input": 10, "output": 2}}
    gateway.send_event(run, "assistant", messageId=message, attempt=1, final=True, message=content)


def stored_message(role: str, text: str, number: int, **more: Any) -> dict[str, Any]:
    """Return a message of the history. In the first turn, the user's is u1 and the agent's a1, in run r1."""
    return {
        "role": role,
        "messageId": f"{role[0]}{number}",
        "runId": f"r{number}",
        "timestamp": NOW + number * 1000,
        "position": number,
        "content": [{"type": "text", "text": text}],
        **more,
    }


def stored_turn(number: int, question: str, answer: str, **more: Any) -> list[dict[str, Any]]:
    whole = {"model": "openai/gpt-5", "usage": {"input": 1200, "output": 56, "costUsd": 0.0031}, "stopReason": "stop", **more}
    return [stored_message("user", question, number), stored_message("assistant", answer, number, **whole)]


def user_messages(page: Page) -> list[str]:
    return page.locator(".message.user > .text").all_text_contents()
