"""Reading a chat: following the answer, scrolling up, older messages, a linked message."""

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.web.chat_page import answers, end_run, finish_message, open_page, start_run, stored_turn, user_messages
from tests.web.fake_gateway import FakeGateway, Refused


def log(page: Page) -> Locator:
    return page.locator("#log")


def top(page: Page) -> float:
    position: float = log(page).evaluate("e => e.scrollTop")
    return position


def from_end(page: Page) -> float:
    distance: float = log(page).evaluate("e => e.scrollHeight - e.scrollTop - e.clientHeight")
    return distance


def scroll_up(page: Page, by: int) -> None:
    log(page).hover()
    page.mouse.wheel(0, -by)
    page.wait_for_function("() => document.getElementById('jump').hidden === false")


LONG = "\n\n".join(f"Paragraph {n} of a long answer, with enough words in it to fill a line or so." for n in range(60))


def test_view_at_the_end_follows_new_text(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.stream_text("r1", LONG, 0)
    expect(answers(opened)).to_contain_text("Paragraph 59")
    opened.wait_for_function("() => { const e = document.getElementById('log'); return e.scrollHeight > 2 * e.clientHeight }")
    opened.wait_for_function(
        "() => { const e = document.getElementById('log'); return e.scrollHeight - e.scrollTop - e.clientHeight < 2 }"
    )
    expect(opened.locator("#jump")).to_be_hidden()


def test_scrolled_up_view_stays_and_offers_jump(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.stream_text("r1", LONG, 0)
    expect(answers(opened).locator("p")).to_have_count(59)
    scroll_up(opened, 900)
    opened.wait_for_timeout(200)  # the wheel's momentum
    place = top(opened)
    gateway.stream_text("r1", "\n\n" + LONG, len(LONG))
    finish_message(gateway, LONG + "\n\n" + LONG)
    end_run(gateway)
    start_run(gateway, "r2", "And?")
    gateway.stream_text("r2", "Another **answer**", 0, message="m2")
    jump = opened.get_by_role("button", name="2 new messages")
    expect(jump).to_be_visible()
    assert top(opened) == place
    jump.click()
    expect(opened.locator("#jump")).to_be_hidden()
    assert from_end(opened) < 2
    gateway.stream_text("r2", "\n\n" + LONG, 18, message="m2")
    expect(answers(opened).last).to_contain_text("Paragraph 59")
    opened.wait_for_function(
        "() => { const e = document.getElementById('log'); return e.scrollHeight - e.scrollTop - e.clientHeight < 2 }"
    )


def page_of(params: dict[str, Any], count: int) -> tuple[int, int]:
    if "around" in params:
        middle = int(params["around"][1:])
        return max(1, middle - 10), min(count, middle + 10)
    if "after" in params:
        return params["after"] + 1, min(count, params["after"] + 20)
    last = params.get("before", count + 1) - 1
    return max(1, last - 19), last


def long_history(gateway: FakeGateway, count: int) -> None:
    """A chat of this many turns, of which a page holds twenty."""

    def history(params: dict[str, Any]) -> dict[str, Any]:
        first, last = page_of(params, count)
        messages = [message for n in range(first, last + 1) for message in stored_turn(n, f"Question {n}", f"Answer {n}\n\n" * 3)]
        newer = {"newerCursor": last} if last < count else {}
        return gateway.history(messages, nextCursor=first if first > 1 else None, **newer)

    gateway.answers["chat.history"] = history


def test_scrolling_up_loads_older_messages_without_jumping(chat: Page, gateway: FakeGateway, site: str) -> None:
    long_history(gateway, 200)
    open_page(chat, site)
    expect(chat.locator(".run")).to_have_count(20)
    for pages in range(2, 6):
        log(chat).hover()
        chat.mouse.wheel(0, -1)
        place = chat.evaluate(FIRST_SEEN, 1200)
        expect(chat.locator(".run")).to_have_count(20 * pages)
        assert abs(chat.evaluate(PLACE_OF, place["id"]) - place["top"]) < 2
    assert user_messages(chat) == [f"Question {n}" for n in range(101, 201)]  # in order, without gaps or duplicates


# Scroll so that this much is above, and return the first message on the screen and its position.
FIRST_SEEN = """async (above) => {
  const log = document.getElementById("log");
  log.scrollTop = above;
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const edge = log.getBoundingClientRect().top;
  const first = [...document.querySelectorAll(".message")].find((each) => each.getBoundingClientRect().top >= edge);
  return { id: first.dataset.messageId, top: first.getBoundingClientRect().top };
}"""
PLACE_OF = """(id) => document.querySelector(`[data-message-id="${id}"]`).getBoundingClientRect().top"""


def test_five_thousand_messages_are_laid_out_lazily(chat: Page, gateway: FakeGateway, site: str) -> None:
    messages = [message for n in range(1, 2501) for message in stored_turn(n, f"Question {n}", f"Answer {n}\n\nmore")]
    for message in messages:
        message["content"][0]["html"] = f"<p>{message['content'][0]['text']}</p>"
    gateway.answers["chat.history"] = lambda params: gateway.history(messages)
    open_page(chat, site)
    expect(chat.locator(".run")).to_have_count(2500, timeout=60_000)
    assert from_end(chat) < 2
    laid_out = chat.evaluate(
        "() => [...document.querySelectorAll('.run')].filter(e => e.checkVisibility({contentVisibilityAuto: true}) "
        "&& e.querySelector('.text').checkVisibility({contentVisibilityAuto: true})).length"
    )
    assert laid_out < 60  # messages out of view are not laid out


def test_message_link_shows_message_in_context(chat: Page, gateway: FakeGateway, site: str) -> None:
    long_history(gateway, 200)
    chat.goto(f"{site}/#agent%3Amain%3Amain/u50")
    target = chat.locator('[data-message-id="u50"]')
    expect(target).to_be_in_viewport(timeout=20_000)
    expect(target).to_be_focused()
    expect(target).to_have_class(re.compile("pointed-at"))
    expect(chat.locator("#jump")).to_be_visible()
    chat.locator("#jump").click()
    expect(chat.get_by_text("Question 200", exact=True)).to_be_in_viewport()


def test_scrolling_down_from_linked_message_reaches_latest(chat: Page, gateway: FakeGateway, site: str) -> None:
    long_history(gateway, 80)
    chat.goto(f"{site}/#agent%3Amain%3Amain/u30")
    expect(chat.locator('[data-message-id="u30"]')).to_be_focused(timeout=20_000)
    for _ in range(40):
        log(chat).hover()
        chat.mouse.wheel(0, 3000)
        chat.wait_for_timeout(100)
        if chat.get_by_text("Question 80", exact=True).count() and chat.locator("#newer").is_hidden():
            break
    start_run(gateway, "live", "Now?")
    expect(chat.get_by_text("Now?", exact=True)).to_have_count(1)
    texts = user_messages(chat)
    assert texts[-1] == "Now?"
    numbers = [int(text.split()[1]) for text in texts[:-1]]
    assert numbers == list(range(numbers[0], 81))


def test_link_to_missing_message_shows_notice(chat: Page, gateway: FakeGateway, site: str) -> None:
    def history(params: dict[str, Any]) -> dict[str, Any]:
        if "around" in params:
            raise Refused("NOT_FOUND", "this conversation has no message 'gone' any more")
        return gateway.history(stored_turn(1, "Hi", "Hello"))

    gateway.answers["chat.history"] = history
    chat.goto(f"{site}/#agent%3Amain%3Amain/gone")
    expect(chat.get_by_role("alert").first).to_contain_text("no longer in the chat")
    expect(answers(chat)).to_have_text("Hello")
