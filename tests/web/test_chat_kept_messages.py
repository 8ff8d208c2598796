"""Messages that the server has not accepted yet: they survive a reload, and are not sent without the user's knowledge."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.web.chat_page import STORED_ANSWER, answers, open_page, send, sign_in
from tests.web.fake_gateway import KEY, FakeGateway, Refused


def away(params: dict[str, Any]) -> dict[str, Any]:
    raise Refused("UNAVAILABLE", "starting", retryable=True, retryAfterMs=500)


def kept(page: Page) -> list[str]:
    names: list[str] = page.evaluate("Object.keys(localStorage).filter((name) => name.startsWith('clawsite.unsent.'))")
    return names


def test_offline_message_is_marked_and_survives_reload(opened: Page, gateway: FakeGateway) -> None:
    hello, note = gateway.answers["connect"], opened.locator(".run .note")
    gateway.answers["connect"] = away
    gateway.disconnect()
    expect(opened.locator("#connection")).not_to_have_text("Connected")
    send(opened, "Later")
    expect(note).to_have_text("Not sent yet: no connection")
    (name,) = kept(opened)
    opened.reload()
    expect(opened.locator(".message.user .text")).to_have_text("Later")
    expect(note).to_have_text("Not sent yet: no connection")
    assert gateway.calls("chat.send") == []
    gateway.answers["connect"] = hello
    expect(note).to_have_text("Queued")
    (sent,) = gateway.wait_for_calls("chat.send")
    assert sent == {"sessionKey": KEY, "message": "Later", "idempotencyKey": name.rsplit(".", 1)[-1]}
    assert kept(opened) == []


def test_message_delivered_before_reload_is_shown_once(opened: Page, gateway: FakeGateway) -> None:
    answered, gateway.answers["chat.send"] = gateway.answers["chat.send"], None
    send(opened, "Hi")
    (sent,) = gateway.wait_for_calls("chat.send")
    expect(opened.locator(".run .note")).to_have_text("Sending…")
    stored = [
        {"role": "user", "messageId": "u1", "runId": sent["idempotencyKey"], "content": "Hi"},
        {**STORED_ANSWER, "runId": sent["idempotencyKey"], "stopReason": "stop", "model": "m", "usage": {}},
    ]
    gateway.answers["chat.history"] = lambda params: gateway.history(stored)
    gateway.answers["chat.send"] = answered
    opened.reload()
    expect(answers(opened)).to_have_text("Hello")
    expect(opened.locator(".message.user")).to_have_count(1)
    expect(opened.locator("#stop")).to_be_hidden()
    assert {params["idempotencyKey"] for params in gateway.calls("chat.send")} == {sent["idempotencyKey"]}
    assert kept(opened) == []


def test_rejected_unsent_message_returns_to_composer(opened: Page, gateway: FakeGateway) -> None:
    def full(params: dict[str, Any]) -> dict[str, Any]:
        raise Refused("QUEUE_FULL", "you have 100 unfinished runs")

    gateway.answers["chat.send"] = None
    send(opened, "One more")
    gateway.wait_for_calls("chat.send")
    gateway.answers["chat.send"] = full
    opened.reload()
    expect(opened.get_by_role("alert")).to_have_text("Not sent: you have 100 unfinished runs")
    expect(opened.get_by_label("Message", exact=True)).to_have_value("One more")
    assert kept(opened) == []


def test_unsent_message_is_not_sent_by_another_account(opened: Page, gateway: FakeGateway, site: str, make_user: Any) -> None:
    gateway.answers["chat.send"] = None
    send(opened, "Mine alone")
    gateway.wait_for_calls("chat.send")
    sign_in(opened, site, make_user())
    open_page(opened, site)
    expect(opened.locator("#welcome")).to_be_visible()
    assert len(gateway.calls("chat.send")) == 1
    assert len(kept(opened)) == 1


def age(page: Page, hours: float) -> None:
    """Backdate the stored messages."""
    page.evaluate(
        """(ms) => Object.entries(localStorage).forEach(([name, text]) => {
          if (!name.startsWith("clawsite.unsent.")) return;
          const kept = JSON.parse(text);
          localStorage.setItem(name, JSON.stringify({ ...kept, at: kept.at - ms }));
        })""",
        hours * 3_600_000,
    )


def keep(page: Page, gateway: FakeGateway, text: str, *, hours: float) -> str:
    """Store a message that the server never answered, written this long ago, and reload the page. Return its key."""
    answered, gateway.answers["chat.send"] = gateway.answers["chat.send"], None
    send(page, text)
    (sent,) = gateway.wait_for_calls("chat.send")
    gateway.answers["chat.send"] = answered
    gateway.requests.clear()
    age(page, hours)
    page.reload()
    expect(page.locator("#connection")).to_have_text("Connected")
    expect(page.locator(".message.user .text, .kept .text")).to_have_text(text)
    return str(sent["idempotencyKey"])


def test_recent_unsent_message_is_sent_automatically(opened: Page, gateway: FakeGateway) -> None:
    key = keep(opened, gateway, "Good morning", hours=23)
    assert [params["idempotencyKey"] for params in gateway.wait_for_calls("chat.send")] == [key]


def test_old_unsent_message_needs_confirmation(opened: Page, gateway: FakeGateway) -> None:
    key = keep(opened, gateway, "Good morning", hours=25)
    expect(opened.locator(".kept .state")).to_have_text("Not sent: written offline more than a day ago.")
    expect(opened.locator("#stop")).to_be_hidden()
    gateway.wait_for_calls("chat.history")
    assert gateway.calls("chat.send") == []
    opened.locator(".kept").get_by_role("button", name="Send").click()
    assert gateway.wait_for_calls("chat.send") == [{"sessionKey": KEY, "message": "Good morning", "idempotencyKey": key}]
    expect(opened.locator(".run .note")).to_have_text("Queued")
    expect(opened.locator(".kept")).to_have_count(0)
    assert kept(opened) == []


def test_old_unsent_message_can_be_discarded(opened: Page, gateway: FakeGateway) -> None:
    keep(opened, gateway, "Good morning", hours=25)
    opened.get_by_role("button", name="Discard").click()
    expect(opened.locator(".kept")).to_have_count(0)
    assert kept(opened) == []
    opened.reload()
    expect(opened.locator("#welcome")).to_be_visible()
    assert gateway.calls("chat.send") == []


def test_message_aging_on_open_page_is_not_auto_sent(opened: Page, gateway: FakeGateway) -> None:
    opened.clock.install()
    hello, gateway.answers["connect"] = gateway.answers["connect"], away
    gateway.disconnect()
    expect(opened.locator("#connection")).not_to_have_text("Connected")
    send(opened, "Good morning")
    expect(opened.locator(".run .note")).to_have_text("Not sent yet: no connection")
    gateway.answers["connect"] = hello
    opened.clock.fast_forward(25 * 3_600_000)
    expect(opened.locator("#connection")).to_have_text("Connected")
    expect(opened.locator(".kept .state")).to_have_text("Not sent: written offline more than a day ago.")
    assert gateway.calls("chat.send") == []


def test_unsent_message_sent_elsewhere_appears_as_run(opened: Page, gateway: FakeGateway) -> None:
    key = keep(opened, gateway, "Good morning", hours=25)
    expect(opened.locator(".kept")).to_be_visible()
    gateway.send_event(key, "lifecycle", phase="accepted", prompt="Good morning")
    expect(opened.locator(".run .note")).to_have_text("Queued")
    expect(opened.locator(".kept")).to_have_count(0)
    expect(opened.locator(".message.user")).to_have_count(1)
    assert kept(opened) == []


def test_typed_stop_command_aborts_and_is_never_stored(opened: Page, gateway: FakeGateway) -> None:
    send(opened, "/stop")
    assert gateway.wait_for_calls("chat.abort") == [{"sessionKey": KEY}]
    gateway.answers["connect"] = away
    gateway.disconnect()
    expect(opened.locator("#connection")).not_to_have_text("Connected")
    send(opened, " /Stop ")
    expect(opened.get_by_role("alert")).to_have_text("Could not stop: No connection.")
    expect(opened.locator(".message.user")).to_have_count(0)
    assert kept(opened) == []
    assert gateway.calls("chat.send") == []
