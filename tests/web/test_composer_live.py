"""The composer with a running installation: uploads, commands, stopping, recalling queued messages."""

import re

import pytest
from playwright.sync_api import FilePayload, expect

from tests.harness.stack import Stack
from tests.web.chat_page import (
    TIMEOUT_MS,
    OpenChat,
    answers,
    is_phone,
    message_field,
    on_desk_and_phone,
    on_phone,
    send,
    user_messages,
)
from tests.web.test_composer_files import transfer

HANGS = '[[text="one two three four five six seven" hang_after=5]]'


@on_desk_and_phone
def test_uploaded_file_is_sent_and_survives_reload(open_chat: OpenChat) -> None:
    page = open_chat()
    page.locator("#files").set_input_files([FilePayload(name="notes.txt", mimeType="text/plain", buffer=b"remember the milk")])
    expect(page.locator('.upload[data-state="done"]')).to_have_count(1, timeout=TIMEOUT_MS)
    send(page, "What can you do?")
    link = page.locator(".message.user .attached.file")
    expect(link).to_contain_text("notes.txt", timeout=TIMEOUT_MS)
    expect(page.locator(".message.assistant .answer")).not_to_be_empty(timeout=TIMEOUT_MS)
    page.reload()
    expect(link).to_contain_text("notes.txt", timeout=TIMEOUT_MS)
    with page.expect_download() as download:
        link.evaluate("link => { link.removeAttribute('target'); link.click(); }")
    assert download.value.path().read_bytes() == b"remember the milk"


def test_pasted_and_dropped_images_are_both_sent(open_chat: OpenChat) -> None:
    page = open_chat()
    transfer(page, "#message", "paste", "pasted.png")
    transfer(page, "#main", "drop", "dropped.png")
    expect(page.locator('.upload[data-state="done"]')).to_have_count(2, timeout=TIMEOUT_MS)
    send(page, "What can you do?")
    pictures = page.locator(".message.user .attached img")
    expect(pictures).to_have_count(2, timeout=TIMEOUT_MS)
    expect(answers(page)).not_to_be_empty(timeout=TIMEOUT_MS)
    page.reload()
    expect(pictures).to_have_count(2, timeout=TIMEOUT_MS)
    page.wait_for_function("() => [...document.querySelectorAll('.attached img')].every((each) => each.naturalWidth === 1)")


def test_invalid_image_is_rejected_with_message(open_chat: OpenChat) -> None:
    page = open_chat()
    page.locator("#files").set_input_files([FilePayload(name="dot.png", mimeType="image/png", buffer=b"no picture")])
    expect(page.locator('.upload[data-state="failed"] .state')).to_contain_text("is not a valid PNG image", timeout=TIMEOUT_MS)


def test_commands_are_suggested_with_choices_and_executed(open_chat: OpenChat) -> None:
    page = open_chat()
    message_field(page).press_sequentially("/thin")
    expect(page.locator("#suggestion-list")).to_contain_text("/think", timeout=TIMEOUT_MS)
    message_field(page).press("Tab")
    expect(page.locator("#suggestion-list")).to_contain_text("high")
    message_field(page).press_sequentially("hig")
    message_field(page).press("Enter")
    expect(page.locator("#toast .text")).to_contain_text("high", timeout=TIMEOUT_MS)
    send(page, "/status")
    expect(page.locator("#command-answer li").filter(has_text="Thinking")).to_contain_text("high", timeout=TIMEOUT_MS)
    expect(page.locator(".message.user")).to_have_count(0)
    before = page.url
    send(page, "/new Plans")
    expect(page.locator("#title")).to_have_text("Plans", timeout=TIMEOUT_MS)
    assert page.url != before


def test_mistyped_command_is_returned_with_hint(open_chat: OpenChat) -> None:
    page = open_chat()
    send(page, "/statsu")
    expect(page.get_by_role("alert")).to_contain_text("Did you mean /status?", timeout=TIMEOUT_MS)
    expect(message_field(page)).to_have_value("/statsu")


def test_model_for_one_message_is_chosen_from_list(open_chat: OpenChat) -> None:
    page = open_chat("agent:main:one-message")
    message_field(page).press_sequentially("@demo")
    expect(page.locator("#suggestion-list [aria-selected=true]")).to_contain_text("demo/clawsite", timeout=TIMEOUT_MS)
    message_field(page).press("Enter")
    message_field(page).press_sequentially("What can you do?")
    message_field(page).press("Enter")
    expect(page.locator(".message.assistant .answer").last).to_contain_text("demo model", timeout=TIMEOUT_MS)


@pytest.mark.parametrize("way", ["button", "escape", "typed"])
def test_run_can_be_stopped(open_chat: OpenChat, way: str) -> None:
    page = open_chat(f"agent:main:stopped-by-{way}")
    send(page, HANGS)
    expect(page.locator(".message.assistant .answer")).to_contain_text("one two", timeout=TIMEOUT_MS)
    match way:
        case "button":
            page.get_by_role("button", name="Stop", exact=True).click()
        case "escape":
            message_field(page).press("Escape")
        case "typed":
            send(page, "/stop")
    expect(page.locator(".run .note")).to_have_text(re.compile("Stopped"), timeout=TIMEOUT_MS)
    expect(page.locator("#stop")).to_be_hidden()
    expect(page.locator(".message.user")).to_have_count(1)


def test_stopping_lasts_until_worker_stops_then_allows_edit(live: Stack, open_chat: OpenChat) -> None:
    page = open_chat("agent:main:stopping")
    send(page, HANGS)
    expect(answers(page)).to_contain_text("one two", timeout=TIMEOUT_MS)
    stop = page.locator("#stop")
    for worker in live.workers:
        live.freeze(worker)
    try:
        stop.click()
        expect(stop).to_have_text(re.compile("Stopping…"), timeout=TIMEOUT_MS)
        expect(stop).to_be_disabled()
        expect(page.locator(".run .note")).not_to_have_text(re.compile("Stopped"))
    finally:
        for worker in live.workers:
            worker.thaw()
    expect(page.locator(".run .note")).to_have_text(re.compile("Stopped"), timeout=TIMEOUT_MS)
    expect(stop).to_be_hidden()
    if is_phone(page):  # phones have no arrow keys
        page.get_by_role("button", name="Edit and resend").click()
    else:
        message_field(page).press("ArrowUp")
    editor = page.locator(".editor textarea")
    expect(editor).to_be_focused()
    expect(editor).to_have_value(HANGS)
    editor.fill('[[text="better so"]]')
    page.locator(".editor").get_by_role("button", name="Send").click()
    expect(answers(page)).to_have_text(["better so"], timeout=TIMEOUT_MS)
    assert user_messages(page) == ['[[text="better so"]]']


@on_phone
def test_recalled_queued_message_lets_next_one_run(open_chat: OpenChat) -> None:
    page = open_chat("agent:main:in-line")
    send(page, HANGS)
    expect(page.locator(".message.assistant .answer")).to_contain_text("one two", timeout=TIMEOUT_MS)
    send(page, "Never mind")
    send(page, '[[text="here I am"]]')
    rows = page.locator("#queue .queued")
    expect(rows.locator(".state")).to_have_text(["Queued", "Queued"], timeout=TIMEOUT_MS)
    rows.first.get_by_role("button", name="Recall and edit").click()
    expect(rows).to_have_count(1, timeout=TIMEOUT_MS)
    expect(message_field(page)).to_have_value("Never mind")
    page.reload()
    expect(rows).to_have_count(1, timeout=TIMEOUT_MS)
    expect(message_field(page)).to_have_value("Never mind")
    expect(page.locator("#messages")).not_to_contain_text("Never mind")
