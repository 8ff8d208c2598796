"""Views shown instead of a chat, or above it; and the page on a phone."""

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.web.chat_page import answers, open_page, sign_in, stored_message, stored_turn
from tests.web.fake_gateway import KEY, FakeGateway, Refused


def log(page: Page) -> Locator:
    return page.locator("#log")


def test_loading_indicator_appears_only_when_slow(chat: Page, gateway: FakeGateway, site: str) -> None:
    gateway.answers["chat.history"] = None
    open_page(chat, site)
    expect(chat.locator("#skeleton")).to_be_visible()
    expect(log(chat)).to_have_attribute("aria-busy", "true")
    expect(chat.locator("#welcome")).to_be_hidden()
    gateway.answers["chat.history"] = lambda params: gateway.history(stored_turn(1, "Hi", "Hello"))
    gateway.disconnect()
    expect(answers(chat)).to_have_text("Hello")
    expect(chat.locator("#skeleton")).to_be_hidden()


def test_webhook_message_is_not_shown_as_own_message(chat: Page, gateway: FakeGateway, site: str) -> None:
    brought = stored_message("user", "The backup failed", 1, hook="news")
    gateway.answers["chat.history"] = lambda params: gateway.history([brought, *stored_turn(2, "And now?", "It is mended")])
    open_page(chat, site)
    expect(chat.locator(".message.user.of-other .author")).to_have_text("Webhook news")
    expect(chat.locator(".message.user:not(.of-other)")).to_have_count(1)


def test_load_failure_shows_advice(chat: Page, gateway: FakeGateway, site: str) -> None:
    def broken(params: dict[str, Any]) -> dict[str, Any]:
        raise Refused("INVALID_REQUEST", "no such agent")

    gateway.answers["chat.history"] = broken
    open_page(chat, site)
    expect(chat.locator("#trouble")).to_contain_text("no such agent")
    gateway.answers["chat.history"] = lambda params: gateway.history(stored_turn(1, "Hi", "Hello"))
    chat.locator("#trouble").get_by_role("button", name="Retry now").click()
    expect(answers(chat)).to_have_text("Hello")
    expect(chat.locator("#trouble")).to_be_hidden()


def test_conversation_deleted_elsewhere_can_be_restored(stored: Callable[..., Page], gateway: FakeGateway) -> None:
    page = stored(stored_turn(1, "Hi", "Hello"))
    payload = {"sessionKey": KEY, "sessionId": "g1", "reason": "deleted", "ts": 1}
    gateway.send({"type": "event", "event": "sessions.changed", "payload": payload})
    expect(page.locator("#trouble")).to_contain_text("was deleted")
    expect(page.locator(".message")).to_have_count(0)
    gateway.answers["sessions.restore"] = lambda params: {"ok": True}
    page.get_by_role("button", name="Restore").click()
    assert gateway.wait_for_calls("sessions.restore") == [{"sessionId": "g1"}]
    expect(answers(page)).to_have_text("Hello")


def test_lost_connection_banner_offers_immediate_retry(opened: Page, gateway: FakeGateway) -> None:
    hello = gateway.answers["connect"]

    def away(params: dict[str, Any]) -> dict[str, Any]:
        raise Refused("UNAVAILABLE", "starting", retryable=True, retryAfterMs=60_000)

    gateway.answers["connect"] = away
    gateway.disconnect()
    expect(opened.locator("#banner")).to_contain_text(re.compile(r"Retrying in [3-6]\d s"))
    gateway.answers["connect"] = hello
    opened.get_by_role("button", name="Retry now").click()
    expect(opened.locator("#connection")).to_have_text("Connected")
    expect(opened.locator("#banner")).to_be_hidden()


def test_skip_link_focuses_current_conversation(opened: Page, gateway: FakeGateway) -> None:
    opened.locator(".skip").focus()
    opened.locator(".skip").press("Enter")
    expect(opened.locator("#main")).to_be_focused()
    assert "#" not in opened.url
    assert len(gateway.calls("chat.history")) == 1


def test_phone_layout_fits_with_large_touch_targets(gateway: FakeGateway, browser: Any, site: str, user: Any) -> None:

    context = browser.new_context(viewport={"width": 390, "height": 780}, has_touch=True, is_mobile=True)
    page = context.new_page()
    phone = FakeGateway(page)
    messages = [*stored_turn(1, "Hi", "```py\nx = 1\n```\n"), *stored_turn(2, "Second", "Two")]
    phone.answers["chat.history"] = lambda params: phone.history(messages)
    sign_in(page, site, user)
    open_page(page, site)
    expect(answers(page)).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    small = page.evaluate(
        """() => [...document.querySelectorAll('#main button, .bar button, #main footer a')]
          .filter(e => e.checkVisibility({visibilityProperty: true, opacityProperty: true}) && !e.closest('.hidden'))
          .map(e => [e.id || e.dataset.act || e.dataset.code || e.className, e.getBoundingClientRect()])
          .filter(([, box]) => box.height > 0 && box.height < 43.5).map(([name]) => name)"""
    )
    context.close()
    assert small == []
