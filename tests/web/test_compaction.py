"""Compaction on the page: what is displayed while it happens, and the summary afterwards."""

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from clawsite.accounts.models import User
from sessions_app.models import Run
from tests.harness.stack import Stack
from tests.web.chat_page import (
    NOW,
    TIMEOUT_MS,
    OpenChat,
    answers,
    end_run,
    finish_message,
    send,
    start_run,
    stored_turn,
    user_messages,
)
from tests.web.fake_gateway import FakeGateway

SUMMARY = "They **agreed** on:\n\n- a ship\n- <img src=x onerror=alert(1)>"


def divider(page: Page) -> Any:
    return page.locator("details.notice")


def notice(**more: Any) -> dict[str, Any]:
    html = "<p>They <strong>agreed</strong> on a ship.</p>"
    content = [{"type": "text", "text": "They **agreed** on a ship.", "html": html}]
    facts = {"messageId": "s1", "runId": "c1", "timestamp": NOW, "position": 5, "summarised": 1234}
    return {"role": "notice", "notice": "compaction", "content": content, "text": "They **agreed** on a ship.", **facts, **more}


def test_summary_divider_expands_and_keeps_earlier_messages(stored: Callable[..., Page]) -> None:
    page = stored([*stored_turn(1, "First", "One"), notice(), *stored_turn(2, "Second", "Two")])
    assert user_messages(page) == ["First", "Second"]
    expect(divider(page).locator("summary")).to_have_text("1,234 earlier messages summarized here")
    expect(divider(page).locator(".more")).to_be_hidden()
    divider(page).locator("summary").focus()
    page.keyboard.press("Enter")
    expect(divider(page).locator(".more strong")).to_have_text("agreed")
    expect(divider(page).locator(".more strong")).to_be_visible()


def test_summary_without_html_is_rendered_safely(stored: Callable[..., Page], gateway: FakeGateway) -> None:
    page = stored([*stored_turn(1, "First", "One"), notice(content=[{"type": "text", "text": SUMMARY}], text=SUMMARY)])
    divider(page).locator("summary").click()
    expect(divider(page).locator(".more")).to_contain_text("<img src=x onerror=alert(1)>")
    expect(divider(page).locator(".more img")).to_have_count(0)


def test_run_shows_compaction_progress_and_continues(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.send_event("r1", "compaction", phase="start", reason="overflow-retry", tokensBefore=9000, summarised=12)
    expect(opened.locator(".ending .note")).to_have_text("Summarizing earlier messages…")
    told = {"messageId": "s1", "text": "A short one.", "summarised": 12, "tokensBefore": 9000, "tokensAfter": 900}
    gateway.send_event("r1", "compaction", phase="end", willRetry=True, completed=True, reason="overflow-retry", **told)
    expect(divider(opened)).to_contain_text("12 earlier messages summarized here")
    expect(opened.locator(".ending .note")).not_to_have_text(re.compile("Summarising"))
    finish_message(gateway, "Here I am")
    end_run(gateway)
    expect(answers(opened)).to_have_text(["Here I am"])
    # The line is where it happened: after the question, before its answer.
    order = opened.locator(".run > *").evaluate_all("all => all.map((each) => each.className.split(' ')[0] || each.localName)")
    assert [name for name in order if name in ("message", "notice")] == ["message", "notice", "message"]


def test_compaction_run_shows_no_message_or_retry(opened: Page, gateway: FakeGateway) -> None:
    gateway.send_event("c1", "lifecycle", phase="accepted", prompt="/compact", operation="compact")
    expect(opened.locator(".ending .note")).to_have_text("Earlier messages will be summarized next")
    gateway.send_event("c1", "lifecycle", phase="start", startedAt=1)
    gateway.send_event("c1", "compaction", phase="start", reason="manual", tokensBefore=9, summarised=2)
    expect(opened.locator(".ending .note")).to_have_text("Summarizing earlier messages…")
    gateway.send_event("c1", "lifecycle", phase="error", error="the model is away", kind="unavailable")
    expect(opened.locator(".ending .note")).to_contain_text("the model is away")
    expect(opened.locator(".ending [data-act=retry]")).to_be_hidden()
    assert user_messages(opened) == []


def test_queued_and_active_compactions_survive_reload(stored: Callable[..., Page]) -> None:
    active = {
        "runId": "c1",
        "status": "running",
        "waitingFor": None,
        "seq": 3,
        "cursor": 3,
        "messageId": None,
        "text": "",
        "thinking": "",
    }
    queued = [{"runId": "c2", "text": "/compact", "acceptedAt": NOW, "sender": "somebody", "operation": "compact"}]
    page = stored(stored_turn(1, "First", "One"), activeRun={**active, "operation": "compact"}, queued=queued)
    expect(page.locator(".ending:visible .note")).to_have_text(
        ["Summarizing earlier messages…", "Earlier messages will be summarized next"]
    )
    assert user_messages(page) == ["First"]


def test_empty_compaction_shows_notice(opened: Page, gateway: FakeGateway) -> None:
    gateway.send_event("c1", "lifecycle", phase="accepted", prompt="/compact", operation="compact")
    gateway.send_event("c1", "lifecycle", phase="start", startedAt=1)
    gateway.send_event("c1", "compaction", phase="end", willRetry=False, completed=False, reason="nothing_to_compact")
    end_run(gateway, "c1")
    expect(opened.locator(".notice")).to_have_text("Nothing to summarize")


def test_compact_command_works_with_demo_model(open_chat: OpenChat, live: Stack, user: User) -> None:
    page = open_chat("agent:demo:summary")
    asked = ["What can you do?", "Write notes.txt saying hello", "Read notes.txt", "status"]
    for number, words in enumerate(asked, 1):
        send(page, words)
        expect(page.locator(".ending[data-state=ended]")).to_have_count(number, timeout=TIMEOUT_MS)
    send(page, "/compact")
    expect(divider(page)).to_be_visible(timeout=TIMEOUT_MS)
    divider(page).locator("summary").click()
    expect(divider(page).locator(".more")).to_contain_text("Write notes.txt saying hello")
    assert user_messages(page) == asked
    send(page, "status")
    expect(page.locator(".ending[data-state=ended]")).to_have_count(6, timeout=TIMEOUT_MS)
    page.reload()
    expect(divider(page)).to_have_count(1, timeout=TIMEOUT_MS)
    assert user_messages(page) == [*asked, "status"]
    run = Run.objects.get(owner=user, reason="compacted")
    page.goto(f"{live.url}/runs/{run.pk}/")
    expect(page.locator("#story")).to_contain_text("Summarized earlier messages (", timeout=TIMEOUT_MS)
