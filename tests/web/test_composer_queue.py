"""Queued messages are displayed above the composer and can be recalled until their run starts."""

from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.web.chat_page import end_run, send, start_run
from tests.web.fake_gateway import KEY, FakeGateway, Refused


def queued(page: Page) -> Locator:
    return page.locator("#queue .text")


def wait_in_line(page: Page, gateway: FakeGateway, *texts: str) -> list[str]:
    """Send messages that are queued behind run r1; return their runs."""
    start_run(gateway)
    for number, text in enumerate(texts, 1):
        send(page, text)
        run_id = gateway.wait_for_calls("chat.send", number)[-1]["idempotencyKey"]
        gateway.send_event(run_id, "lifecycle", phase="accepted", prompt=text)
    expect(queued(page)).to_have_text(list(texts))
    return [params["idempotencyKey"] for params in gateway.calls("chat.send")]


def field(page: Page) -> Locator:
    return page.get_by_label("Message", exact=True)


def test_first_message_is_shown_and_later_ones_queue(opened: Page, gateway: FakeGateway) -> None:
    send(opened, "First")
    expect(opened.locator("#queue")).to_be_hidden()
    expect(opened.locator(".message.user").first).to_be_visible()
    first = gateway.wait_for_calls("chat.send")[0]["idempotencyKey"]
    gateway.send_event(first, "lifecycle", phase="accepted", prompt="First")
    gateway.send_event(first, "lifecycle", phase="start", startedAt=1)
    send(opened, "Second")
    expect(queued(opened)).to_have_text("Second")
    expect(opened.locator(".message.user .text").filter(has_text="Second")).to_be_hidden()
    second = gateway.wait_for_calls("chat.send", 2)[1]["idempotencyKey"]
    gateway.send_event(second, "lifecycle", phase="accepted", prompt="Second")
    expect(opened.locator("#queue .state")).to_have_text("Queued")
    gateway.send_event(first, "lifecycle", phase="end")
    gateway.send_event(second, "lifecycle", phase="start", startedAt=2)
    expect(opened.locator("#queue")).to_be_hidden()
    expect(opened.locator(".message.user .text").filter(has_text="Second")).to_be_visible()


def test_queued_message_can_be_removed(opened: Page, gateway: FakeGateway) -> None:
    two, three = wait_in_line(opened, gateway, "Two", "Three")
    opened.get_by_role("button", name="Remove", exact=True).first.click()
    assert gateway.wait_for_calls("chat.abort") == [{"sessionKey": KEY, "runId": two, "withdraw": True}]
    gateway.send_event(two, "lifecycle", phase="end", aborted=True, stopReason="withdrawn")
    expect(queued(opened)).to_have_text(["Three"])
    expect(opened.locator(".message.user .text").filter(has_text="Two")).to_have_count(0)
    expect(opened.locator("#stop")).to_be_visible()
    assert three


def test_queued_message_can_be_recalled_and_edited(opened: Page, gateway: FakeGateway) -> None:
    (two,) = wait_in_line(opened, gateway, "Tow")
    field(opened).fill("beside it")
    opened.get_by_role("button", name="Recall and edit").click()
    gateway.wait_for_calls("chat.abort")
    gateway.send_event(two, "lifecycle", phase="end", aborted=True, stopReason="withdrawn")
    expect(field(opened)).to_have_value("beside it\nTow")
    expect(field(opened)).to_be_focused()
    expect(opened.locator("#queue")).to_be_hidden()


def test_arrow_up_recalls_queued_message_before_editing_sent(opened: Page, gateway: FakeGateway) -> None:
    _, three = wait_in_line(opened, gateway, "Two", "Three")
    field(opened).press("ArrowUp")
    assert gateway.wait_for_calls("chat.abort") == [{"sessionKey": KEY, "runId": three, "withdraw": True}]
    expect(field(opened)).to_have_value("Three")


def test_unrecallable_message_stays_queued(opened: Page, gateway: FakeGateway) -> None:
    def away(params: dict[str, Any]) -> dict[str, Any]:
        raise Refused("UNAVAILABLE", "the database is busy")

    wait_in_line(opened, gateway, "Two")
    gateway.answers["chat.abort"] = away
    opened.get_by_role("button", name="Remove", exact=True).click()
    expect(opened.get_by_role("alert")).to_have_text("Action failed: the database is busy")
    expect(queued(opened)).to_have_text("Two")
    expect(opened.get_by_role("button", name="Remove", exact=True)).to_be_enabled()


def test_queue_survives_reload_and_truncated_text_is_locked(opened: Page, gateway: FakeGateway) -> None:
    active = {"runId": "r1", "seq": 2, "messageId": None, "text": "", "thinking": "", "status": "running"}
    waiting = [
        {"runId": "r2", "text": "Two", "acceptedAt": 2},
        {"runId": "r3", "text": "x" * 1000, "truncated": True, "acceptedAt": 3},
    ]
    gateway.answers["chat.history"] = lambda params: gateway.history([], queued=waiting, activeRun=active)
    opened.reload()
    expect(queued(opened)).to_have_text(["Two", "x" * 1000])
    expect(opened.get_by_role("button", name="Recall and edit")).to_have_count(1)
    expect(opened.get_by_role("button", name="Remove", exact=True)).to_have_count(2)


def test_queued_message_is_shown_only_in_its_conversation(opened: Page, gateway: FakeGateway) -> None:
    wait_in_line(opened, gateway, "Two")
    opened.evaluate("location.hash = 'agent:main:other'")
    expect(opened.locator("#queue")).to_be_hidden()
    end_run(gateway)


def test_offline_queued_message_can_be_discarded(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    expect(opened.locator("#stop")).to_be_visible()
    gateway.answers["connect"] = None
    gateway.disconnect()
    expect(opened.locator("#connection")).not_to_have_text("Connected")
    send(opened, "Later")
    expect(opened.locator("#queue .state")).to_have_text("Not sent yet: no connection")
    opened.get_by_role("button", name="Remove", exact=True).click()
    expect(opened.locator("#queue")).to_be_hidden()
    assert opened.evaluate("Object.keys(localStorage).filter((name) => name.includes('unsent'))") == []
