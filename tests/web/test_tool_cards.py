"""Thinking, tools and files of a message on the page."""

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from tests.web.chat_page import start_run, stored_message
from tests.web.fake_gateway import FakeGateway


def test_thinking_shows_timer_then_duration(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.send_event("r1", "thinking", messageId="m1", attempt=1, delta="Hm", offset=0)
    summary = opened.locator(".thinking summary")
    expect(summary).to_have_text(re.compile(r"Thinking\s+[1-9] s"))
    frame = gateway.record_event("r1", "assistant", messageId="m1", attempt=1, delta="So", offset=0)
    frame["payload"]["ts"] = 1 + 4200
    gateway.send(frame)
    expect(summary).to_have_text(re.compile(r"Thought for\s+4\.2 s"))


def test_manual_tool_call_shows_no_error_or_retry(stored: Callable[..., Page]) -> None:
    """Nothing failed, so there is nothing to retry."""
    call = {"type": "toolCall", "id": "c1", "name": "glob", "arguments": {"pattern": "*"}}
    asked = stored_message("assistant", "", 1, content=[call], stopReason="invoked")
    page = stored([stored_message("user", "Run the tool `glob`", 1), asked])
    expect(page.locator(".tool")).to_be_visible()
    expect(page.locator(".ending .note")).to_have_text("")
    expect(page.locator(".ending button")).to_be_hidden()


def test_tool_output_streams_then_collapses(opened: Page, gateway: FakeGateway) -> None:
    lines = [f"line {n}" for n in range(100)]
    start_run(gateway)
    gateway.send_event("r1", "tool", phase="start", name="exec", toolCallId="c1", args={"command": "make", "env": {"A": 1}})
    card = opened.locator(".tool")
    expect(card.locator(".about")).to_have_text("make")
    gateway.send_event("r1", "tool", phase="update", name="exec", toolCallId="c1", partialResult="\n".join(lines[:50]))
    expect(card.locator(".result pre")).to_be_visible()
    expect(card.locator(".result pre")).to_contain_text("line 49")
    expect(card.locator(".result pre")).not_to_contain_text("line 9\n")
    result = {"content": [{"type": "text", "text": "\n".join(lines)}], "details": {}}
    frame = gateway.record_event(
        "r1", "tool", phase="result", name="exec", toolCallId="c1", isError=False, result=result, meta={"verdict": "allowed"}
    )
    frame["payload"]["ts"] = 1 + 2300
    gateway.send(frame)
    expect(card.locator("h3")).to_have_text(re.compile(r"exec\s+make\s+completed\s+allowed\s+2\.3 s"))
    expect(card.locator(".result")).to_be_hidden()
    card.locator("summary").press("Enter")
    expect(card.locator(".arguments")).to_contain_text('"A": 1')
    expect(card.locator(".result pre")).not_to_contain_text("line 60")
    card.get_by_role("button", name="Show all 100 lines").click()
    expect(card.locator(".result pre")).to_contain_text("line 99")


def test_denied_call_names_its_layer_and_reason(stored: Callable[..., Page]) -> None:
    call = {"type": "toolCall", "id": "c1", "name": "exec", "arguments": {"command": "rm"}}
    refused = {
        "verdict": {"allowed": False, "layer": "agent", "why": "denied"},
        "isError": True,
        "toolCallId": "c1",
        "toolName": "exec",
    }
    page = stored(
        [
            stored_message("user", "Hi", 1),
            {**stored_message("assistant", "", 1), "content": [call]},
            {**stored_message("toolResult", "exec is not allowed here: the agent may not", 1), **refused},
        ]
    )
    expect(page.locator(".tool .verdict")).to_have_text("denied by policy layer agent")
    expect(page.locator(".tool .why")).to_be_visible()
    expect(page.locator(".tool .why")).to_contain_text("the agent may not")


def call_of(name: str, result: str, **more: Any) -> list[dict[str, Any]]:
    """A question, a call and its stored result."""
    call = {"type": "toolCall", "id": "c1", "name": name, "arguments": {"path": "a/rather/long/path/of/a/file.txt"}}
    return [
        stored_message("user", "Hi", 1),
        {**stored_message("assistant", "", 1), "content": [call]},
        {**stored_message("toolResult", result, 1), "toolCallId": "c1", "toolName": name, **more},
    ]


def test_unavailable_tool_call_names_no_layer(stored: Callable[..., Page]) -> None:
    verdict = {"allowed": False, "layer": "toolset", "rule": "there is no such tool in this run", "why": "unavailable in this run"}
    page = stored(call_of("teleport", "tool_not_allowed: there is no such tool", verdict=verdict, isError=True))
    expect(page.locator(".tool .verdict")).to_have_text("unavailable in this run")
    expect(page.locator(".tool .why")).to_contain_text("there is no such tool")


def test_expanded_phone_card_shows_verdict(stored: Callable[..., Page], chat: Page) -> None:
    chat.set_viewport_size({"width": 390, "height": 844})
    verdict = {"allowed": True, "layer": "agent_provider", "why": "allowed by layer agent_provider"}
    page = stored(call_of("weather__forecast_of_the_week", "sun", verdict=verdict, durationMs=61_000))
    card = page.locator(".tool")
    expect(card.locator(".verdict")).to_be_hidden()  # the collapsed card has no room for the verdict
    card.locator("summary").click()
    expect(card.locator(".verdict")).to_have_text("allowed by agent_provider")
    expect(card.locator(".verdict")).to_be_visible()
    assert card.evaluate("card => card.querySelector('.state').getBoundingClientRect().right <= card.getBoundingClientRect().right")
    card.locator("summary").click()
    expect(card.locator(".verdict")).to_be_hidden()


MOVING = "() => document.getAnimations().filter((each) => each.playState === 'running').length"


def test_reduced_motion_disables_animations(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.send_event("r1", "thinking", messageId="m1", attempt=1, delta="Hm", offset=0)
    gateway.send_event("r1", "tool", phase="start", name="exec", toolCallId="c1", args={"command": "make"})
    expect(opened.locator(".tool")).to_contain_text("running")
    opened.wait_for_function(f"() => ({MOVING})() > 0")  # the page has something to hold its position
    opened.emulate_media(reduced_motion="reduce")
    assert opened.evaluate(MOVING) == 0
    gateway.send_event("r1", "tool", phase="start", name="read", toolCallId="c2", args={})
    expect(opened.locator(".tool")).to_have_count(2)
    assert opened.evaluate(MOVING) == 0


def test_images_are_shown_and_files_are_linked(stored: Callable[..., Page], chat: Page) -> None:
    chat.route("**/attachments/a1/", lambda route: route.fulfill(status=200, content_type="image/png", body=b""))
    question = stored_message("user", "Look", 1)
    question["content"] += [
        {"type": "image", "attachmentId": "a1", "mimeType": "image/png", "name": "cat.png", "size": 10},
        {"type": "file", "attachmentId": "a2", "mimeType": "application/pdf", "name": "report.pdf", "size": 183_000},
        {"type": "image", "attachmentId": "a3", "mimeType": "image/svg+xml", "name": "x.svg", "size": 10},
    ]
    page = stored([question])
    expect(page.get_by_role("img", name="cat.png")).to_have_attribute("src", re.compile(r"/attachments/a1/$"))
    expect(page.get_by_role("link", name="report.pdf 183 kB")).to_have_attribute("href", "/attachments/a2/")
    expect(page.get_by_role("link", name="x.svg")).to_be_visible()  # never displayed, only downloadable
    assert page.locator("#log img").count() == 1
