"""How a run ended is still to be seen after the page was loaded again, in the words and at the place it had live."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.web.fake_gateway import FakeGateway
from tests.web.screen import STORED_ANSWER, answers, begin, end, open_page

UNFINISHED = {
    ("rpc", False): "Stopped.",
    ("stop", False): "Stopped.",
    ("rate_limit", False): "Failed: the model was asked too often",
    ("never_heard_of", False): "Failed: the answer is not complete",
    ("stop", True): "",
    ("injected", False): "",
}


@pytest.mark.parametrize(("reason", "whole"), UNFINISHED)
def test_an_unfinished_answer_does_not_look_complete_after_a_reload(
    chat: Page, gateway: FakeGateway, site: str, reason: str, whole: bool
) -> None:
    by_model = {"provider": "p", "model": "m", "usage": {"input": 1}} if whole else {}
    gateway.answers["chat.history"] = lambda params: gateway.history([{**STORED_ANSWER, "stopReason": reason, **by_model}])
    open_page(chat, site)
    expect(answers(chat)).to_have_text("Hello")
    expect(chat.locator(".run .note")).to_have_text(UNFINISHED[reason, whole])
    expect(chat.locator("#stop")).to_be_hidden()


def asked(run_id: str, text: str) -> dict[str, Any]:
    return {"role": "user", "messageId": f"u-{run_id}", "runId": run_id, "content": text}


def shown(page: Page) -> list[str]:
    texts: list[str] = page.locator(".run").evaluate_all("boxes => boxes.map((box) => box.innerText.replace(/\\s+/g, ' ').trim())")
    return texts


def test_a_run_stopped_before_it_said_anything_says_so_live_and_after_a_reload(opened: Page, gateway: FakeGateway) -> None:
    begin(gateway)
    end(gateway, aborted=True)
    expect(opened.locator(".run .note")).to_have_text("Stopped before an answer.")
    live = shown(opened)
    stopped = {"runId": "r1", "status": "aborted", "reason": "rpc", "endedAt": 1}
    gateway.answers["chat.history"] = lambda params: gateway.history([asked("r1", "Hi")], endedRuns=[stopped])
    opened.reload()
    expect(opened.locator(".run .note")).to_have_text("Stopped before an answer.")
    assert shown(opened) == live
    expect(opened.locator("#stop")).to_be_hidden()


def test_a_failed_run_says_why_after_a_reload_too_and_where_it_was(opened: Page, gateway: FakeGateway) -> None:
    begin(gateway)
    gateway.tell("r1", "lifecycle", phase="error", error="the key was refused", kind="auth")
    begin(gateway, "r2", "Again")
    gateway.says("r2", "Hello", 0, message="m2")
    end(gateway, "r2")
    expect(opened.locator(".run").nth(1)).to_contain_text("Hello")
    live = shown(opened)
    failed = {"runId": "r1", "status": "error", "reason": "auth", "error": "the key was refused", "endedAt": 1}
    answer = {**STORED_ANSWER, "messageId": "m2", "runId": "r2", "stopReason": "stop", "model": "m", "usage": {}}
    gateway.answers["chat.history"] = lambda params: gateway.history(
        [asked("r1", "Hi"), asked("r2", "Again"), answer], endedRuns=[failed]
    )
    opened.reload()
    expect(opened.locator(".run").nth(0).locator(".note.bad")).to_have_text("Failed: the key was refused")
    assert shown(opened) == live


def test_messages_stopped_while_they_were_queued_are_not_lost(opened: Page, gateway: FakeGateway) -> None:
    begin(gateway, "r1", "first")
    for run_id, text in [("r2", "second"), ("r3", "third")]:
        gateway.tell(run_id, "lifecycle", phase="accepted", prompt=text)
    for run_id in ("r2", "r3", "r1"):
        end(gateway, run_id, aborted=True)
    begin(gateway, "r4", "fourth")
    expect(opened.locator(".run").nth(3).locator(".note")).to_have_text("Working…")
    live = shown(opened)
    stopped = {"status": "aborted", "reason": "rpc", "endedAt": 1}
    ends = [
        {"runId": "r1", **stopped},
        {"runId": "r2", "text": "second", "afterRunId": "r1", **stopped},
        {"runId": "r3", "text": "third", "afterRunId": "r2", **stopped},
        {"runId": "r0", **stopped},  # its messages are on an older page
    ]
    active = {"runId": "r4", "status": "running", "seq": 2, "messageId": None, "text": "", "thinking": ""}
    gateway.answers["chat.history"] = lambda params: gateway.history(
        [asked("r1", "first"), asked("r4", "fourth")], endedRuns=ends, activeRun=active
    )
    opened.reload()
    expect(opened.locator(".run")).to_have_count(4)
    assert shown(opened) == live
    expect(opened.locator("#stop")).to_be_visible()
