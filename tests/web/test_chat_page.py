"""The chat page with a running installation: a user, a browser, the gateway, a worker and a model."""

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from clawsite.accounts.models import User
from tests.harness.stack import Stack
from tests.web.chat_page import TIMEOUT_MS, OpenChat, answers, on_desk_and_phone, send, show_chat_list


def finished(page: Page, answer: str | re.Pattern[str]) -> None:
    expect(page.locator(".message.assistant .answer").last).to_have_text(answer, timeout=TIMEOUT_MS)
    expect(page.locator("#stop")).to_be_hidden(timeout=TIMEOUT_MS)


def shown(page: Page) -> Any:
    """The displayed text without footers and durations, of which a stored message has slightly more than a live one."""
    return page.locator("#messages").evaluate(
        """e => { const copy = e.cloneNode(true);
          copy.querySelectorAll('footer, .duration, [hidden]').forEach((part) => part.remove());
          return copy.textContent.replace(/\\s+/g, ' ') }"""
    )


@on_desk_and_phone
def test_example_prompt_click_gets_an_answer(open_chat: OpenChat) -> None:
    page = open_chat()
    page.get_by_role("button", name="What can you do?").click()
    finished(page, re.compile("demo model"))
    show_chat_list(page)
    expect(page.locator("#session-list a[aria-current]")).to_contain_text("What can you do?", timeout=TIMEOUT_MS)


@on_desk_and_phone
def test_tool_calls_show_arguments_verdict_and_result(open_chat: OpenChat) -> None:
    page = open_chat("agent:main:tools")
    send(page, '[[tool=write args={"path":"notes.txt","content":"hello"}]]')
    finished(page, "done after tools")
    card = page.locator(".tool")
    expect(card.locator("h3")).to_have_text(re.compile(r"write\s+notes.txt\s+completed\s+allowed by profile"))
    card.locator("summary").click()
    expect(card.locator(".verdict")).to_be_visible()
    expect(card.locator(".verdict")).to_have_text("allowed by profile")
    expect(card.locator(".arguments")).to_contain_text("hello")
    expect(card.locator(".result pre")).to_be_visible()
    send(page, "[[tool=teleport args={}]] [[tool=web_fetch args={}]]")
    expect(card.locator(".verdict")).to_have_text(
        ["allowed by profile", "unavailable in this run", "denied by policy layer profile"], timeout=TIMEOUT_MS
    )
    page.reload()
    expect(card.locator(".verdict")).to_have_text(
        ["allowed by profile", "unavailable in this run", "denied by policy layer profile"], timeout=TIMEOUT_MS
    )


def test_reload_shows_the_same_conversation(open_chat: OpenChat) -> None:
    page = open_chat("agent:main:reloaded")
    send(page, '[[tool=glob args={"pattern":"*"} reasoning=3]] [[tool=read args={"path":"not-there.txt"}]]')
    expect(page.locator(".tool")).to_have_count(2, timeout=TIMEOUT_MS)
    finished(page, "done after tools")
    before = shown(page)
    page.reload()
    finished(page, "done after tools")
    assert shown(page) == before


def test_two_windows_of_one_session_stay_in_sync(open_chat: OpenChat, page: Page) -> None:
    first = open_chat("agent:demo:shared")
    second = open_chat("agent:demo:shared", page.context.new_page())
    send(first, "What can you do?")
    finished(second, re.compile("demo model"))
    finished(first, re.compile("demo model"))
    assert shown(first) == shown(second)


def test_stopped_run_keeps_partial_answer(open_chat: OpenChat) -> None:
    page = open_chat("agent:main:stopped")
    send(page, '[[text="one two three four five six seven" hang_after=5]]')
    expect(page.locator(".message.assistant .answer")).to_contain_text("one two", timeout=TIMEOUT_MS)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".run .note")).to_have_text("Stopped.", timeout=TIMEOUT_MS)
    expect(page.locator("#stop")).to_be_hidden()
    expect(page.locator(".message.assistant .answer")).to_contain_text("one two")


def test_failed_run_shows_its_error(open_chat: OpenChat) -> None:
    page = open_chat("agent:main:failed")
    send(page, "[[error=401]]")
    expect(page.locator(".note.bad")).to_contain_text("Failed:", timeout=TIMEOUT_MS)


def test_stopped_and_failed_runs_survive_reload(open_chat: OpenChat) -> None:
    page = open_chat("agent:main:ended")
    send(page, "[[hang_after=0]]")
    expect(page.locator(".run .note")).to_have_text("Working…", timeout=TIMEOUT_MS)
    send(page, "never begun")
    expect(page.locator(".run .note").nth(1)).to_have_text("Queued", timeout=TIMEOUT_MS)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".run .note")).to_have_text(["Stopped before the agent answered."] * 2, timeout=TIMEOUT_MS)
    send(page, "[[error=401]]")
    expect(page.locator(".note.bad")).to_contain_text("Failed:", timeout=TIMEOUT_MS)
    before = shown(page)
    page.reload()
    expect(page.locator(".note.bad")).to_contain_text("Failed:", timeout=TIMEOUT_MS)
    assert shown(page) == before


def test_session_opened_mid_answer_shows_full_answer(open_chat: OpenChat, page: Page) -> None:
    first = open_chat("agent:main:long")
    send(first, "[[tokens=150 delay_ms=20 reasoning=3]]")
    expect(first.locator(".message.assistant .answer")).not_to_be_empty(timeout=TIMEOUT_MS)
    second = open_chat("agent:main:long", page.context.new_page())
    for one in (first, second):
        expect(one.locator(".message.assistant.streaming")).to_have_count(0, timeout=TIMEOUT_MS)
        expect(one.locator("#stop")).to_be_hidden(timeout=TIMEOUT_MS)
    assert shown(first) == shown(second)


def test_sign_out_disconnects_other_windows(open_chat: OpenChat, page: Page) -> None:
    first = open_chat()
    second = open_chat("", page.context.new_page())
    first.get_by_label("Account menu").click()
    first.get_by_role("button", name="Sign out").click()
    expect(second.locator("#connection")).to_have_text("Signed out", timeout=TIMEOUT_MS)
    expect(second.locator("#problem")).to_contain_text("Reload the page")
    expect(second.locator("#banner").get_by_role("button", name="Sign in")).to_be_visible()


def test_users_see_only_their_own_conversations(open_chat: OpenChat, live: Stack, make_user: Any, page: Page) -> None:
    mine = open_chat("agent:demo:private")
    send(mine, "What can you do?")
    finished(mine, re.compile("demo model"))
    stranger = make_user()
    theirs = page.context.browser.new_context().new_page()  # type: ignore[union-attr]  # it was launched, so it is there
    live.sign_in(theirs, stranger)
    theirs.goto(f"{live.url}/#agent:demo:private")
    expect(theirs.locator("#welcome")).to_be_visible(timeout=TIMEOUT_MS)
    expect(theirs.locator("#session-list li")).to_have_count(1)
    theirs.context.close()


def test_answer_survives_web_process_crash(stack: Callable[..., Stack], user: User, page: Page) -> None:
    site = stack()
    site.sign_in(page, user)
    page.goto(f"{site.url}/#agent:main:restart")
    expect(page.locator("#connection")).to_have_text("Connected", timeout=TIMEOUT_MS)
    send(page, "[[tokens=100 delay_ms=30]]")
    expect(page.locator(".message.assistant .answer")).not_to_be_empty(timeout=TIMEOUT_MS)
    site.webs[0].kill()
    expect(page.locator("#connection")).not_to_have_text("Connected")
    site.webs[0].spawn()
    site.webs[0].wait_ready()
    expect(page.locator("#connection")).to_have_text("Connected", timeout=TIMEOUT_MS)
    expect(page.locator("#stop")).to_be_hidden(timeout=TIMEOUT_MS)
    live_text = shown(page)
    assert len((answers(page).text_content() or "").split()) == 100
    page.reload()
    expect(answers(page)).not_to_be_empty(timeout=TIMEOUT_MS)
    assert shown(page) == live_text
