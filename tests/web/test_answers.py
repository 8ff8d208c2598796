"""Answers on the page: how their text grows, is rendered, and can be used. With a fake gateway."""

import re
import time
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.web.chat_page import answers, end_run, finish_message, start_run, stored_turn
from tests.web.fake_gateway import FakeGateway, Refused


def log(page: Page) -> Locator:
    return page.locator("#log")


def test_each_closed_block_is_rendered_once(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    parts = ["Some **bold** words.\n\n", "```py\nx = 1\n", "```\n\n", "And the *rest*"]
    offset = 0
    for part in parts:
        gateway.stream_text("r1", part, offset)
        offset += len(part)
        opened.wait_for_timeout(50)
    answer = answers(opened)
    expect(answer.locator("strong")).to_have_text("bold")
    expect(answer.locator("pre .m")).to_have_text("1")  # highlighted
    expect(answer.locator(".plain")).to_have_text("And the *rest*")
    finish_message(gateway, "".join(parts))
    end_run(gateway)
    expect(answer.locator("em")).to_have_text("rest")
    expect(answer.locator(".plain")).to_have_count(0)
    asked = [block for params in gateway.calls("chat.render") for block in params["blocks"]]
    assert asked == ["Some **bold** words.\n", "```py\nx = 1\n```\n", "And the *rest*\n"]


def test_incomplete_code_block_already_has_its_box(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.stream_text("r1", "```python\nx = 1\ny", 0)
    box = answers(opened).locator(".code-block")
    expect(box.locator(".language")).to_have_text("python")
    expect(box.locator("code")).to_have_text("x = 1\ny")
    before = box.bounding_box()
    gateway.stream_text("r1", "\n```\n", 17)
    expect(box.locator("pre.code")).to_have_count(1)
    after = box.bounding_box()
    assert before and after
    assert after["y"] == before["y"]
    assert abs(after["height"] - before["height"]) < 2


def test_text_stays_readable_when_rendering_fails(opened: Page, gateway: FakeGateway) -> None:
    def broken(params: dict[str, Any]) -> dict[str, Any]:
        raise Refused("UNAVAILABLE", "no renderer")

    gateway.answers["chat.render"] = broken
    start_run(gateway)
    gateway.stream_text("r1", "One **two**.\n\nThree", 0)
    finish_message(gateway, "One **two**.\n\nThree")
    end_run(gateway)
    expect(answers(opened)).to_have_text(re.compile(r"One \*\*two\*\*\..*Three", re.S))


def test_blocks_are_rendered_after_reconnect(opened: Page, gateway: FakeGateway) -> None:
    gateway.answers["chat.render"] = None
    start_run(gateway)
    gateway.stream_text("r1", "Some **bold** words.\n\n", 0)
    gateway.wait_for_calls("chat.render")
    gateway.answers["chat.render"] = lambda params: {"html": ["<p>rendered</p>" for _ in params["blocks"]]}
    gateway.disconnect()
    expect(answers(opened)).to_have_text("rendered")


def test_reference_links_defined_at_the_end_work(opened: Page, gateway: FakeGateway) -> None:
    text = "See [the page][1].\n\n[1]: https://example.org/\n"
    start_run(gateway)
    gateway.stream_text("r1", text, 0)
    finish_message(gateway, text)
    end_run(gateway)
    link = answers(opened).get_by_role("link", name="the page")
    expect(link).to_have_attribute("href", "https://example.org/")
    expect(link).to_have_attribute("rel", re.compile("noopener"))


def test_history_is_prerendered_without_render_requests(stored: Callable[..., Page], gateway: FakeGateway) -> None:
    message = stored_turn(1, "Hi", "x")
    message[1]["content"] = [{"type": "text", "text": "**x**", "html": "<p><strong>x</strong></p>"}]
    page = stored(message)
    expect(answers(page).locator("strong")).to_have_text("x")
    assert gateway.calls("chat.history")[0].items() >= {"html": True, "notices": True}.items()
    assert gateway.calls("chat.render") == []


TABLE = "| " + " | ".join(f"column number {n}" for n in range(20)) + " |\n|" + " --- |" * 20 + "\n"


def test_wide_tables_and_code_scroll_independently(stored: Callable[..., Page], chat: Page) -> None:
    chat.set_viewport_size({"width": 390, "height": 780})
    page = stored(stored_turn(1, "Hi", f"{TABLE}\n\n```\n{'x' * 500}\n```\n"))
    expect(answers(page).locator(".scroll table")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert log(page).evaluate("e => e.scrollWidth <= e.clientWidth")
    assert answers(page).locator(".scroll").evaluate("e => e.scrollWidth > e.clientWidth")
    wrap = page.get_by_role("button", name="Wrap long lines")
    wrap.click()
    expect(wrap).to_have_attribute("aria-pressed", "true")
    assert answers(page).locator("pre").evaluate("e => e.scrollWidth <= e.clientWidth")


def test_code_and_messages_are_copied_verbatim(stored: Callable[..., Page], chat: Page) -> None:
    chat.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = stored(stored_turn(1, "Hi", "**Code**:\n\n```py\nx = 1\n```\n"))
    page.get_by_role("button", name="Copy code").click()
    expect(page.locator("#toast")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "x = 1\n"
    page.locator(".message.assistant [data-act=copy]").click()
    page.wait_for_function("async () => (await navigator.clipboard.readText()).startsWith('**Code**')")


def test_finished_answer_is_announced_once(opened: Page, gateway: FakeGateway) -> None:
    opened.evaluate(
        """() => { window.said = []; new MutationObserver(() => said.push(document.getElementById('announce').textContent))
          .observe(document.getElementById('announce'), { childList: true, characterData: true, subtree: true }) }"""
    )
    start_run(gateway)
    for n in range(20):
        gateway.stream_text("r1", "word ", n * 5)
    finish_message(gateway, "word " * 20)
    end_run(gateway)
    opened.wait_for_function("() => said.some((text) => text.includes('Agent: word'))")
    said = [text for text in opened.evaluate("said") if "word" in text]
    assert len(said) == 1


COUNT_CHANGES = """() => {
  window.changes = 0;
  const isText = ({ type }) => type === "characterData";
  const count = new MutationObserver((list) => { changes += list.filter(isText).length });
  count.observe(document.getElementById("messages"), { characterData: true, subtree: true });
}"""


def test_events_within_one_frame_are_batched(opened: Page, gateway: FakeGateway) -> None:
    """One write per frame: many events between two frames are one text change."""
    start_run(gateway)
    opened.evaluate(COUNT_CHANGES)
    started = time.monotonic()
    for n in range(300):
        gateway.stream_text("r1", "word ", n * 5)
    expect(answers(opened)).to_have_text("word " * 300)
    frames = (time.monotonic() - started) * 60 + 10
    assert opened.evaluate("changes") <= min(300, frames)
