"""The page's connection to the gateway: reconnecting, what is displayed meanwhile, and unanswered requests."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.web.chat_page import answers, end_run, finish_message, open_page, send, start_run
from tests.web.fake_gateway import FakeGateway, Refused

DELAYS = """async (random) => {
  const { retryDelay } = await import("/static/js/shared/gateway.js");
  return [0, 1, 2, 3, 4, 5, 6, 7, 40].map((tries) => retryDelay(tries, random));
}"""


@pytest.mark.parametrize(
    ("random", "delays"),
    [
        (0, [125, 500, 1000, 2000, 4000, 7500, 7500, 7500, 7500]),
        (1, [250, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000, 15_000]),
    ],
    ids=["soonest", "latest"],
)
def test_retry_delay_backs_off_with_half_jitter(opened: Page, random: int, delays: list[int]) -> None:
    assert opened.evaluate(DELAYS, random) == delays


def test_retry_delays_are_spread_across_clients(opened: Page) -> None:
    draws = """async () => {
      const { retryDelay } = await import("/static/js/shared/gateway.js");
      return [...Array(50)].map(() => retryDelay(3));
    }"""
    drawn = opened.evaluate(draws)
    assert len(set(drawn)) > 40
    assert all(2000 <= delay <= 4000 for delay in drawn)


def test_offline_page_counts_down_and_reconnects_when_online(opened: Page, gateway: FakeGateway) -> None:
    hello = gateway.answers["connect"]

    def away(params: dict[str, Any]) -> dict[str, Any]:
        raise Refused("UNAVAILABLE", "starting", retryable=True, retryAfterMs=60_000)

    gateway.answers["connect"] = away
    opened.context.set_offline(True)
    gateway.disconnect()
    expect(opened.locator("#connection")).to_have_text("Offline")
    told = opened.locator("#banner .text")
    expect(told).to_have_text(re.compile(r"Retrying in [3-6]\d s"))
    before = told.text_content()
    expect(told).not_to_have_text(before or "")  # the countdown is running
    gateway.answers["connect"] = hello
    opened.context.set_offline(False)  # without waiting a minute for it
    expect(opened.locator("#connection")).to_have_text("Connected")
    expect(opened.locator("#banner")).to_be_hidden()


def test_slow_catch_up_is_shown(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.stream_text("r1", "First", 0)
    expect(answers(opened)).to_have_text("First")
    missed = gateway.answers["sessions.history"]
    assert missed
    gateway.answers["sessions.history"] = None
    gateway.disconnect()
    for word in (" and", " second"):
        gateway.record_event("r1", "assistant", messageId="m1", attempt=1, delta=word, offset=5 if word == " and" else 9)
    banner = opened.locator("#banner")
    gateway.wait_for_calls("sessions.history")
    expect(banner).to_have_text(re.compile("Syncing…"))
    expect(opened.locator("#connection")).to_have_text("Connected")
    gateway.respond_late("sessions.history", missed)
    expect(answers(opened)).to_have_text("First and second")
    expect(banner).to_be_hidden()


def test_unconfirmed_message_is_resent_with_same_key(chat: Page, gateway: FakeGateway, site: str) -> None:
    gateway.tick_ms = 600_000  # so that silence alone does not make it reconnect, which would send it too
    gateway.answers["chat.send"] = None
    chat.clock.install()
    open_page(chat, site)
    send(chat, "Are you there?")
    gateway.wait_for_calls("chat.send")
    chat.clock.fast_forward(15_000)  # a few seconds more on a slow machine, because the page's clock continues
    assert len(gateway.calls("chat.send")) == 1
    chat.clock.fast_forward(16_000)
    first, second = gateway.wait_for_calls("chat.send", 2)
    assert first == second
    assert first["idempotencyKey"]
    assert gateway.connections == 1
    gateway.respond_late("chat.send", lambda params: {"runId": params["idempotencyKey"], "status": "started"})
    expect(chat.locator(".run .note")).to_have_text("Queued")
    expect(chat.locator(".message.user")).to_have_count(1)
    run = first["idempotencyKey"]
    start_run(gateway, run, "Are you there?")
    finish_message(gateway, "Yes.", run=run)
    end_run(gateway, run)
    expect(answers(chat)).to_have_text(["Yes."])


def test_unanswered_command_is_returned_to_composer(chat: Page, gateway: FakeGateway, site: str) -> None:
    """A command only makes sense immediately, so it is not sent twice."""
    gateway.tick_ms = 600_000
    gateway.answers["commands.list"] = lambda params: {"commands": [{"name": "status", "description": "Tell"}]}
    gateway.answers["chat.send"] = None
    chat.clock.install()
    open_page(chat, site)
    chat.get_by_label("Message", exact=True).press_sequentially("/sta")
    expect(chat.locator("#suggestion-list")).to_contain_text("/status")
    send(chat, "/status")
    gateway.wait_for_calls("chat.send")
    chat.clock.fast_forward(31_000)
    expect(chat.get_by_role("alert")).to_contain_text("The server did not respond in time.")
    expect(chat.get_by_label("Message", exact=True)).to_have_value("/status")
    assert len(gateway.calls("chat.send")) == 1
