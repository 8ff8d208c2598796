"""The footer of a message, its actions, and changes made by other users."""

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from tests.web.chat_page import NOW, answers, end_run, finish_message, start_run, stored_message, stored_turn, user_messages
from tests.web.fake_gateway import KEY, FakeGateway, Refused


def test_conversation_notices_are_shown(stored: Callable[..., Page]) -> None:
    page = stored(
        [
            {"role": "notice", "notice": "reset", "messageId": "n1", "timestamp": NOW, "content": []},
            *stored_turn(1, "Hi", "Hello"),
            {"role": "notice", "notice": "compaction", "messageId": "n2", "timestamp": NOW, "content": [], "text": "a summary"},
            {"role": "notice", "notice": "fallback", "messageId": "n4", "timestamp": NOW, "content": [], "model": "groq/fast"},
            stored_message("user", "Again", 2),
            {
                "role": "notice",
                "notice": "failed",
                "errorKind": "rate_limit",
                "runId": "r2",
                "messageId": "n3",
                "content": [],
                "text": "429",
            },
        ]
    )
    expect(page.locator(".notice")).to_have_text(
        [re.compile("was reset"), re.compile("summarized"), "Another model answered: groq/fast"]
    )
    expect(page.locator(".ending:visible .note")).to_have_text("Failed: 429")
    expect(page.locator(".ending:visible .hint")).to_contain_text("choose another model")


def test_messages_show_time_model_and_cost(stored: Callable[..., Page]) -> None:
    page = stored(stored_turn(1, "Hi", "Hello", durationMs=3400))
    foot = page.locator(".message.assistant footer")
    expect(foot).to_contain_text("openai/gpt-5 · 1,200 input, 56 output · $0.0031 · 3.4 s")
    expect(foot.get_by_role("link")).to_have_attribute("href", "#agent%3Amain%3Amain/a1")
    page.locator(".message.user [data-act=copy]").focus()
    page.wait_for_function("() => getComputedStyle(document.querySelector('.message.user footer')).opacity === '1'")


def test_regenerating_replaces_the_last_message(stored: Callable[..., Page], gateway: FakeGateway) -> None:
    page = stored([*stored_turn(1, "First", "One"), *stored_turn(2, "Second", "Two")])
    page.get_by_role("button", name="Regenerate").last.click()
    (sent,) = gateway.wait_for_calls("chat.send")
    assert (sent["message"], sent["replaces"]) == ("Second", "u2")
    expect(page.locator(".message.user > .text")).to_have_text(["First", "Second"])
    expect(answers(page)).to_have_count(1)


def test_message_is_edited_in_place(stored: Callable[..., Page], gateway: FakeGateway) -> None:
    page = stored(stored_turn(1, "First", "One"))
    edit = page.get_by_role("button", name="Edit and resend")
    edit.click()
    field = page.locator(".editor textarea")
    expect(field).to_have_value("First")
    field.press("Escape")
    expect(page.locator(".editor")).to_have_count(0)
    expect(edit).to_be_focused()
    edit.press("Enter")
    field.fill("Better")
    field.press("Enter")
    (sent,) = gateway.wait_for_calls("chat.send")
    assert (sent["message"], sent["replaces"]) == ("Better", "u1")
    expect(page.locator(".message.user > .text")).to_have_text(["Better"])


def test_just_sent_message_can_be_regenerated(opened: Page, gateway: FakeGateway) -> None:
    gateway.send_event("r1", "lifecycle", phase="accepted", prompt="Live one")
    gateway.send_event("r1", "lifecycle", phase="start", startedAt=1, messageId="u1")
    finish_message(gateway, "Answer")
    end_run(gateway)
    opened.get_by_role("button", name="Regenerate").click()
    (sent,) = gateway.wait_for_calls("chat.send")
    assert (sent["message"], sent["replaces"]) == ("Live one", "u1")


def test_regenerating_earlier_message_warns_about_replaced_messages(stored: Callable[..., Page], gateway: FakeGateway) -> None:
    page = stored([*stored_turn(1, "First", "One"), *stored_turn(2, "Second", "Two")])
    page.get_by_role("button", name="Regenerate").first.click()
    expect(page.locator(".editor")).to_contain_text("everything after it will be replaced")
    assert gateway.calls("chat.send") == []
    page.locator(".editor textarea").press("Enter")
    (sent,) = gateway.wait_for_calls("chat.send")
    assert (sent["message"], sent["replaces"]) == ("First", "u1")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()


def test_rejected_replacement_changes_nothing(stored: Callable[..., Page], gateway: FakeGateway) -> None:
    def busy(params: dict[str, Any]) -> dict[str, Any]:
        raise Refused("CONFLICT", "the session has an unfinished run; stop it first")

    gateway.answers["chat.send"] = busy
    page = stored(stored_turn(1, "First", "One"))
    page.get_by_role("button", name="Regenerate").click()
    expect(page.get_by_role("alert").first).to_contain_text("stop it first")
    expect(answers(page)).to_have_text("One")


def test_messages_cannot_be_replaced_during_a_run(stored: Callable[..., Page], gateway: FakeGateway) -> None:
    page = stored(stored_turn(1, "First", "One"))
    start_run(gateway, "r9", "Another")
    page.get_by_role("button", name="Regenerate").click()
    expect(page.locator("#toast")).to_contain_text("Stop it first")
    assert gateway.calls("chat.send") == []


def test_fork_opens_in_the_current_window(stored: Callable[..., Page], gateway: FakeGateway) -> None:
    gateway.answers["sessions.fork"] = lambda params: {"ok": True, "key": "agent:main:fork", "sessionId": "g9", "entry": {}}
    page = stored([*stored_turn(1, "First", "One"), *stored_turn(2, "Second", "Two")])
    page.locator(".message.assistant").first.get_by_role("button", name="Fork from here").click()
    assert gateway.wait_for_calls("sessions.fork") == [{"key": KEY, "messageId": "a1"}]
    page.wait_for_url("**/#agent%3Amain%3Afork")


def test_forked_messages_can_be_regenerated(stored: Callable[..., Page], gateway: FakeGateway) -> None:
    copied = [*stored_turn(1, "First", "One"), *stored_turn(2, "Second", "Two")]
    for message in copied:
        del message["runId"]
    page = stored(copied)
    expect(page.locator(".message.user > .text")).to_have_text(["First", "Second"])
    page.get_by_role("button", name="Regenerate").nth(1).click()
    (sent,) = gateway.wait_for_calls("chat.send")
    assert (sent["message"], sent["replaces"]) == ("Second", "u2")
    expect(page.locator(".message.user > .text")).to_have_text(["First", "Second"])
    expect(answers(page)).to_have_text(["One"])


def tell_session(gateway: FakeGateway, change: str, **more: Any) -> None:
    gateway.cursor += 1
    payload = {"sessionKey": KEY, "sessionId": "g1", "cursor": gateway.cursor, "ts": 1, "change": change, **more}
    gateway.send({"type": "event", "event": "session", "payload": payload})


def test_rewind_in_another_window_removes_messages(stored: Callable[..., Page], gateway: FakeGateway) -> None:
    page = stored([*stored_turn(1, "First", "One"), *stored_turn(2, "Second", "Two"), *stored_turn(3, "Third", "Three")])
    tell_session(gateway, "rewind", keepThrough="a1")
    start_run(gateway, "r9", "Second, better")
    expect(page.locator(".message.user > .text")).to_have_text(["First", "Second, better"])
    tell_session(gateway, "rewind", keepThrough=None)
    expect(page.locator(".message")).to_have_count(0)


def test_rewind_to_unloaded_message_reloads_history(stored: Callable[..., Page], gateway: FakeGateway) -> None:
    page = stored(stored_turn(2, "Second", "Two"))
    gateway.answers["chat.history"] = lambda params: gateway.history(stored_turn(1, "First", "One"))
    tell_session(gateway, "rewind", keepThrough="t-unknown")
    expect(page.locator(".message.user > .text")).to_have_text(["First"])


def test_very_long_message_is_collapsed(stored: Callable[..., Page]) -> None:
    page = stored(stored_turn(1, "\n".join(f"line {n}" for n in range(200)), "Read."))
    text = page.locator(".message.user > .text")
    folded = text.bounding_box()
    page.get_by_role("button", name="Show all").click()
    expect(page.get_by_role("button", name="Show less")).to_have_attribute("aria-expanded", "true")
    whole = text.bounding_box()
    assert folded and whole
    assert whole["height"] > 5 * folded["height"]


def test_message_stopped_before_start_can_be_resent(stored: Callable[..., Page], gateway: FakeGateway) -> None:
    ended = {"role": "notice", "notice": "aborted", "runId": "r9", "messageId": "run-9-end", "content": [], "prompt": "Never begun"}
    page = stored([*stored_turn(1, "First", "One"), ended])
    expect(page.locator(".ending:visible .note")).to_have_text("Stopped before the agent answered.")
    page.get_by_role("button", name="Try again").click()
    (sent,) = gateway.wait_for_calls("chat.send")
    assert (sent["message"], "replaces" in sent) == ("Never begun", False)
    assert gateway.wait_for_calls("chat.abort") == [{"sessionKey": KEY, "runId": "r9", "withdraw": True}]
    assert user_messages(page) == ["First", "Never begun"]
