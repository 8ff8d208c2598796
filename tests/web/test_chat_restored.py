"""The chat page after a database restore: it does not continue in a different event log."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.web.chat_page import STORED_ANSWER, answers, open_page, start_run
from tests.web.fake_gateway import FakeGateway


def test_changed_epoch_reloads_the_history(chat: Page, gateway: FakeGateway, site: str) -> None:
    epochs = ["e1"]

    def missed(params: dict[str, Any]) -> dict[str, Any]:
        same = params["epoch"] == epochs[-1]
        return gateway.missed(params) if same else {"resync_required": True, "reason": "restored", "epoch": epochs[-1]}

    gateway.answers["sessions.history"] = missed
    gateway.answers["chat.history"] = lambda params: gateway.history([], epoch=epochs[-1])
    opened = open_page(chat, site)
    start_run(gateway)
    gateway.stream_text("r1", "Hel", 0)
    gateway.disconnect()
    expect(opened.locator("#connection")).to_have_text("Connected")
    assert [params["epoch"] for params in gateway.wait_for_calls("sessions.history")] == ["e1"]
    expect(answers(opened)).to_have_text("Hel")
    epochs.append("e2")
    gateway.answers["chat.history"] = lambda params: gateway.history([STORED_ANSWER], epoch=epochs[-1])
    gateway.disconnect()
    expect(answers(opened)).to_have_text("Hello")
    gateway.disconnect()
    asked = gateway.wait_for_calls("sessions.history", times=3)
    assert [params["epoch"] for params in asked] == ["e1", "e1", "e2"]


def test_recreated_session_is_reloaded(chat: Page, gateway: FakeGateway, site: str) -> None:
    gateway.answers["chat.history"] = lambda params: gateway.history([STORED_ANSWER])
    opened = open_page(chat, site)
    expect(answers(opened)).to_have_text("Hello")
    gateway.answers["chat.history"] = lambda params: gateway.history([])
    payload = {"sessionKey": "agent:main:main", "sessionId": "g1", "reason": "deleted", "ts": 1}
    gateway.send({"type": "event", "event": "sessions.changed", "payload": payload})
    expect(answers(opened)).to_have_count(0)
