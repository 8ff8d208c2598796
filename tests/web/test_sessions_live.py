"""The chat list with a running installation: two windows in sync, search, pin, archive, undo."""

import re
from typing import Any

from django.db.models import F
from playwright.sync_api import Locator, Page, expect

from clawsite.accounts.models import User
from sessions_app.models import Session, SessionMark
from tests.harness.stack import Stack
from tests.web.chat_page import TIMEOUT_MS, OpenChat, answers, is_phone, on_desk_and_phone, send, show_chat_list, wait_until


def answered(page: Page, text: str | re.Pattern[str] = re.compile(".")) -> None:
    expect(page.locator(".message.assistant .answer").last).to_have_text(text, timeout=TIMEOUT_MS)
    expect(page.locator("#stop")).to_be_hidden(timeout=TIMEOUT_MS)


def item(page: Page, title: str) -> Locator:
    return page.locator("#session-list li").filter(has_text=title)


def choose(page: Page, title: str, act: str) -> None:
    show_chat_list(page)
    item(page, title).hover()
    item(page, title).get_by_role("button", name="Actions").click()
    page.get_by_role("menuitem", name=act).click()


def test_list_updates_in_another_window(open_chat: OpenChat, page: Page) -> None:
    first = open_chat("agent:main:followed")
    second = open_chat("agent:main:elsewhere", page.context.new_page())
    show_chat_list(second)
    send(first, "[[tokens=40 delay_ms=50]] count the sheep")
    expect(item(second, "count the sheep").locator(".mark")).to_have_text("Running", timeout=TIMEOUT_MS)
    answered(first)
    # The answer was read in the first window, so the other one does not mark the chat as new.
    expect(item(second, "count the sheep").locator(".mark")).to_be_hidden(timeout=TIMEOUT_MS)
    choose(first, "count the sheep", "Rename")
    first.keyboard.type("Sheep")
    first.keyboard.press("Enter")
    expect(item(second, "Sheep")).to_be_visible(timeout=TIMEOUT_MS)
    choose(second, "Sheep", "Pin")
    expect(first.locator("#session-list section:not([hidden]) h2").first).to_have_text("Pinned", timeout=TIMEOUT_MS)
    expect(item(first, "Sheep").locator(".pin")).to_be_visible()


def test_unseen_answer_is_marked_new(open_chat: OpenChat, user: User) -> None:
    page = open_chat("agent:main:unseen")
    # Slow enough that the answer is still incomplete when the chat is left.
    send(page, "[[tokens=40 delay_ms=100]] tell me later")
    expect(item(page, "tell me later")).to_be_visible(timeout=TIMEOUT_MS)
    page.get_by_role("button", name="New chat", exact=True).click()
    expect(item(page, "tell me later").locator(".mark")).to_have_text("New", timeout=TIMEOUT_MS)
    page.reload()
    expect(item(page, "tell me later").locator(".mark")).to_have_text("New", timeout=TIMEOUT_MS)
    item(page, "tell me later").get_by_role("link").click()
    answered(page)
    page.get_by_role("button", name="New chat", exact=True).click()
    expect(item(page, "tell me later").locator(".mark")).to_be_hidden()
    unread = SessionMark.objects.filter(user=user, read_position__lt=F("session__entry_count"))
    wait_until(page, lambda: not unread.exists())  # the server knows
    page.reload()
    expect(item(page, "tell me later")).to_be_visible(timeout=TIMEOUT_MS)
    expect(item(page, "tell me later").locator(".mark")).to_be_hidden()


@on_desk_and_phone
def test_search_result_opens_the_message(open_chat: OpenChat) -> None:
    page = open_chat("agent:main:searched")
    send(page, '[[text="The zephyr blows over the hills"]] weather')
    answered(page, re.compile("zephyr"))
    send(page, '[[text="上海今天的天气很好，适合散步。"]] and there?')
    answered(page, re.compile("上海"))
    hit = page.locator("#found-list a").filter(has_text="Agent")
    for wanted, marked, said in (
        ("ZEPHYR hil", ["zephyr", re.compile("hil")], "zephyr"),
        ("天气很好", ["天气很好"], "适合散步"),  # in the middle of text without spaces
    ):
        show_chat_list(page)
        page.get_by_role("button", name="New chat", exact=True).click()
        expect(page.locator(".message")).to_have_count(0)
        show_chat_list(page)
        page.get_by_label("Search all chats").fill(wanted)
        expect(hit.locator("mark")).to_have_text(marked, timeout=TIMEOUT_MS)
        hit.click()
        expect(page.locator(".message.assistant.pointed-at")).to_contain_text(said, timeout=TIMEOUT_MS)


def test_deleted_conversation_is_restored_completely(open_chat: OpenChat, page: Page) -> None:
    first = open_chat("agent:demo:undone")
    send(first, "What can you do?")
    answered(first, re.compile("demo model"))
    second = open_chat("agent:demo:beside", page.context.new_page())
    expect(item(second, "What can you do?")).to_be_visible(timeout=TIMEOUT_MS)
    item(first, "What can you do?").get_by_role("link").focus()
    first.keyboard.press("Delete")
    expect(item(first, "What can you do?")).to_have_count(0)
    expect(item(second, "What can you do?")).to_have_count(0, timeout=TIMEOUT_MS)
    first.get_by_role("button", name="Undo").click()
    answered(first, re.compile("demo model"))
    expect(item(second, "What can you do?")).to_be_visible(timeout=TIMEOUT_MS)


def test_archived_conversation_disappears_in_every_window(open_chat: OpenChat, page: Page) -> None:
    first = open_chat("agent:demo:put-away")
    send(first, "Search my files for hello")
    answered(first)
    second = open_chat("agent:demo:beside-it", page.context.new_page())
    expect(item(second, "Search my files")).to_be_visible(timeout=TIMEOUT_MS)
    choose(first, "Search my files", "Archive")
    expect(item(second, "Search my files")).to_have_count(0, timeout=TIMEOUT_MS)
    expect(first.locator("#title")).to_have_text(re.compile("Search my files"))  # still shown, with its name
    first.get_by_role("button", name="Undo").click()
    expect(item(second, "Search my files")).to_be_visible(timeout=TIMEOUT_MS)


@on_desk_and_phone
def test_details_show_the_last_run(open_chat: OpenChat, user: User) -> None:
    page = open_chat("agent:main:detailed")
    send(page, '[[tool=glob args={"pattern":"*"}]] look around')
    answered(page)
    page.reload()
    answered(page)
    page.get_by_role("button", name="Details").click()
    steps = page.locator("#timeline .label")
    expect(steps.first).to_have_text("Queued", timeout=TIMEOUT_MS)
    expect(steps.last).to_have_text("Completed")
    assert "glob" in steps.all_inner_texts()
    page.locator("#thinking-level").select_option("low")
    wait_until(page, Session.objects.filter(owner=user, thinking_level="low").exists)
    page.reload()
    if is_phone(page):  # a drawer over the chat, so it closes
        page.get_by_role("button", name="Details").click()
    expect(page.locator("#thinking-level")).to_have_value("low", timeout=TIMEOUT_MS)
    expect(page.locator("#usage")).to_contain_text("tokens")


def test_agent_and_model_are_selectable_with_context_meter(open_chat: OpenChat, user: User) -> None:
    page = open_chat("agent:demo:before-the-choice")
    page.get_by_role("button", name="Details").click()
    page.locator("#agent").select_option("main")
    expect(page.locator("#title")).to_have_text("New chat")
    assert "agent%3Amain%3A" in page.url
    send(page, '[[text="from the agent"]] which one?')
    answered(page, "from the agent")
    page.locator("#model").select_option("openai/gpt-5-mini")
    wait_until(page, Session.objects.filter(owner=user, model="openai/gpt-5-mini").exists)  # otherwise it might arrive first
    send(page, '[[text="from the model"]] and now?')
    answered(page, "from the model")
    expect(page.locator(".message.assistant footer").last).to_contain_text("gpt-5-mini", timeout=TIMEOUT_MS)
    meter = page.get_by_role("meter")
    expect(meter).to_have_attribute("aria-valuetext", re.compile(r"[1-9].* of 272K tokens"), timeout=TIMEOUT_MS)
    expect(page.locator("#agent")).to_have_value("main")


def test_palette_runs_actions_and_navigates(open_chat: OpenChat) -> None:
    page = open_chat("agent:main:by-keys")
    send(page, '[[text="here it is"]] find the keys')
    answered(page, "here it is")
    expect(item(page, "find the keys")).to_be_visible(timeout=TIMEOUT_MS)

    def choose_in_palette(words: str, name: str) -> None:
        page.keyboard.press("Control+k")
        page.keyboard.type(words)
        expect(page.locator("#palette [aria-selected=true]")).to_contain_text(name, timeout=TIMEOUT_MS)
        page.keyboard.press("Enter")

    choose_in_palette("rename", "Rename")
    expect(page.get_by_label("Chat name")).to_be_focused()
    page.keyboard.type("Lost keys")
    page.keyboard.press("Enter")
    expect(item(page, "Lost keys")).to_be_visible(timeout=TIMEOUT_MS)
    choose_in_palette("new ch", "New chat")
    expect(page.locator("#title")).to_have_text("New chat")
    choose_in_palette("lost", "Lost keys")
    expect(page.locator("#title")).to_have_text("Lost keys", timeout=TIMEOUT_MS)
    expect(answers(page)).to_have_text(["here it is"], timeout=TIMEOUT_MS)
    page.reload()
    expect(page.locator("#title")).to_have_text("Lost keys", timeout=TIMEOUT_MS)


def test_auditor_list_shows_only_own_conversations(live: Stack, make_user: Any, make_session: Any, page: Page) -> None:
    make_session(make_user(), "agent:main:secret-plan")
    auditor = make_user("User", "Auditor")
    make_session(auditor, "agent:main:own-plan")
    live.sign_in(page, auditor)
    page.goto(live.url)
    expect(page.locator("#session-list li[data-key='agent:main:own-plan']")).to_be_visible(timeout=TIMEOUT_MS)
    expect(page.locator("#session-list li[data-key='agent:main:secret-plan']")).to_have_count(0)
