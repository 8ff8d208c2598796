"""The chat page with a fake gateway: what it displays, and what it does when the connection breaks."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from clawsite.accounts.models import User
from tests.web.chat_page import STORED_ANSWER, answers, end_run, open_page, send, start_run
from tests.web.fake_gateway import KEY, FakeGateway, Refused


def test_page_connects_as_web_chat_with_protocol_4(opened: Page, gateway: FakeGateway) -> None:
    (params,) = gateway.calls("connect")
    assert (params["minProtocol"], params["maxProtocol"], params["caps"]) == (4, 4, ["tool-events"])
    assert (params["client"]["id"], params["client"]["mode"]) == ("webchat-ui", "webchat")
    assert "auth" not in params  # the cookie identifies the user


def test_empty_chat_example_is_sent_on_click(opened: Page, gateway: FakeGateway) -> None:
    opened.get_by_role("button", name="What can you do?").click()
    expect(opened.locator(".message.user .text")).to_have_text("What can you do?")
    expect(opened.get_by_role("heading", name="You")).to_have_count(1)
    expect(opened.locator("#welcome")).to_be_hidden()
    (sent,) = gateway.wait_for_calls("chat.send")
    assert (sent["sessionKey"], sent["message"]) == ("agent:main:main", "What can you do?")


def test_answer_streams_in_and_remains(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.stream_text("r1", "Good ", 0)
    expect(answers(opened)).to_have_text("Good ")
    gateway.stream_text("r1", "morning", 5)
    expect(answers(opened)).to_have_text("Good morning")
    expect(opened.locator(".streaming")).to_have_count(1)
    gateway.send_event(
        "r1", "assistant", messageId="m1", attempt=1, final=True, message={"content": [{"type": "text", "text": "Good morning!"}]}
    )
    end_run(gateway)
    expect(answers(opened)).to_have_text("Good morning!")
    expect(opened.locator(".streaming")).to_have_count(0)
    expect(opened.locator("#announce")).to_have_text("Agent: Good morning!")


def test_agent_output_is_never_parsed_as_markup(opened: Page, gateway: FakeGateway) -> None:
    nasty = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\n  **two**  spaces"
    start_run(gateway, prompt=nasty)
    gateway.send_event("r1", "thinking", messageId="m1", attempt=1, delta=nasty, offset=0)
    gateway.stream_text("r1", nasty, 0)
    gateway.send_event("r1", "tool", phase="start", name=nasty, toolCallId="c1", args={"path": nasty})
    gateway.send_event(
        "r1",
        "tool",
        phase="result",
        name=nasty,
        toolCallId="c1",
        isError=True,
        result={"content": [{"type": "text", "text": nasty}]},
    )
    gateway.send_event("r1", "lifecycle", phase="error", error=nasty, kind="unknown")
    expect(opened.locator(".note.bad")).to_contain_text("<script>")
    expect(answers(opened).locator("strong")).to_have_text("two")  # rendered, and still none of it becomes markup of the page
    expect(answers(opened)).to_contain_text("<img src=x onerror=")
    assert opened.locator("#log img, #log script, #log [onerror]").count() == 0
    assert "owned" not in opened.title()


def test_text_offsets_count_code_points_like_server(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.stream_text("r1", "🦀🦀", 0)
    gateway.stream_text("r1", " two crabs", 2)
    expect(answers(opened)).to_have_text("🦀🦀 two crabs")


def test_new_attempt_resets_the_message(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.stream_text("r1", "Half an ans", 0)
    gateway.send_event("r1", "assistant", messageId="m1", attempt=2, reset=True)
    gateway.stream_text("r1", "A whole answer", 0, attempt=2)
    expect(answers(opened)).to_have_text("A whole answer")


def test_thinking_is_collapsed(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.send_event("r1", "thinking", messageId="m1", attempt=1, delta="Let me see", offset=0)
    expect(opened.locator("details.thinking")).to_be_visible()
    expect(opened.get_by_text("Let me see")).to_be_hidden()
    opened.locator("details.thinking summary").click()
    expect(opened.get_by_text("Let me see")).to_be_visible()


def tool(gateway: FakeGateway, call_id: str, *, is_error: bool, meta: dict[str, Any], text: str = "done it") -> None:
    gateway.send_event("r1", "tool", phase="start", name="write", toolCallId=call_id, args={"path": "notes.txt"})
    result = {"content": [{"type": "text", "text": text}], "details": {}}
    gateway.send_event("r1", "tool", phase="result", name="write", toolCallId=call_id, isError=is_error, result=result, meta=meta)


def test_tool_cards_show_arguments_verdict_and_result(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.send_event("r1", "tool", phase="start", name="write", toolCallId="c1", args={"path": "notes.txt"})
    card = opened.locator(".tool")
    expect(card).to_contain_text("running")
    gateway.send_event("r1", "tool", phase="update", name="write", toolCallId="c1", partialResult="half")
    gateway.send_event(
        "r1",
        "tool",
        phase="result",
        name="write",
        toolCallId="c1",
        isError=False,
        result={"content": []},
        meta={"verdict": "allowed"},
    )
    tool(gateway, "c2", is_error=True, meta={"verdict": "refused", "layer": "agent"}, text="not allowed here")
    tool(gateway, "c3", is_error=True, meta={"verdict": "allowed"})
    expect(card).to_have_count(3)
    expect(card.nth(0).locator("h3")).to_have_text(re.compile(r"write\s+notes.txt\s+completed\s+allowed"))
    expect(card.nth(1).locator("h3")).to_have_text(re.compile(r"write\s+notes.txt\s+denied by policy layer agent"))
    expect(card.nth(2).locator("h3")).to_have_text(re.compile(r"write\s+notes.txt\s+failed\s+allowed"))
    expect(card.nth(1).locator(".why")).to_have_text("not allowed here")
    expect(card.nth(2).locator(".result")).to_be_hidden()
    card.nth(2).locator("summary").click()
    expect(card.nth(2).locator(".result pre")).to_have_text("done it")
    expect(card.nth(2).locator(".arguments")).to_have_text("pathnotes.txt")


def test_stored_messages_look_like_live_ones(chat: Page, gateway: FakeGateway, site: str) -> None:
    call = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}}
    refused = {"details": {"code": "tool_not_allowed", "layer": "sandbox"}, "isError": True}
    stored = [
        {"role": "user", "messageId": "u1", "runId": "r1", "content": "Read a"},
        {
            "role": "assistant",
            "messageId": "m1",
            "runId": "r1",
            "content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "Yes"}, call],
        },
        {
            "role": "toolResult",
            "runId": "r1",
            "toolCallId": "c1",
            "toolName": "read",
            "content": [{"type": "text", "text": "no"}],
            **refused,
        },
        {"role": "assistant", "messageId": "m2", "runId": "r1", "content": [{"type": "text", "text": "I may not."}]},
    ]
    gateway.answers["chat.history"] = lambda params: gateway.history(stored)
    open_page(chat, site)
    expect(chat.locator("#messages")).to_have_text(
        re.compile(r"Read a.*Thinking.*Hm.*Yes.*read.*denied by policy layer sandbox.*I may not\.", re.S)
    )
    expect(chat.locator("#stop")).to_be_hidden()


def test_page_opened_mid_answer_continues_the_stream(chat: Page, gateway: FakeGateway, site: str) -> None:
    for frame in range(3):
        gateway.record_event("r1", "lifecycle", phase="start", startedAt=frame)
    active = {"runId": "r1", "status": "running", "seq": 3, "messageId": "m1", "text": "So far", "thinking": ""}
    gateway.answers["chat.history"] = lambda params: gateway.history(
        [], activeRun=active, queued=[{"runId": "r2", "text": "And then?"}]
    )
    open_page(chat, site)
    expect(answers(chat)).to_have_text("So far")
    gateway.stream_text("r1", ", so good", 6)
    expect(answers(chat)).to_have_text("So far, so good")
    expect(chat.locator(".run").nth(1)).to_contain_text("And then?")
    expect(chat.locator(".run").nth(1)).to_contain_text("Queued")


def test_stored_text_is_not_replayed(chat: Page, gateway: FakeGateway, site: str) -> None:
    # The stored state is read shortly after its cursor, so it may include events that are still to arrive.
    active = {"runId": "r1", "status": "running", "seq": 1, "messageId": "m1", "text": "So far", "thinking": ""}
    gateway.answers["chat.history"] = lambda params: gateway.history([], activeRun=active)
    open_page(chat, site)
    expect(answers(chat)).to_have_text("So far")
    gateway.stream_text("r1", "So", 0)
    gateway.send_event("r1", "lifecycle", phase="waiting", reason="a child")
    expect(chat.locator(".run .note")).to_have_text("Waiting: a child")
    expect(answers(chat)).to_have_text("So far")


def test_injected_message_is_shown_once(opened: Page, gateway: FakeGateway) -> None:
    gateway.cursor += 1
    message = {"role": "user", "content": [{"type": "text", "text": "A note"}], "messageId": "i1"}
    put_in = {"sessionKey": KEY, "sessionId": "g1", "cursor": gateway.cursor, "ts": 1, "change": "injected", "message": message}
    for _ in range(2):
        gateway.send({"type": "event", "event": "session", "payload": put_in})
    start_run(gateway)
    expect(opened.locator(".message.user .text")).to_have_text(["A note", "Hi"])


def test_stop_button_shows_stopping_until_run_ends(opened: Page, gateway: FakeGateway) -> None:
    stop = opened.locator("#stop")
    expect(stop).to_be_hidden()
    start_run(gateway)
    stop.click()
    expect(stop).to_have_text("Stopping…")
    expect(stop).to_be_disabled()
    assert gateway.wait_for_calls("chat.abort") == [{"sessionKey": "agent:main:main"}]
    end_run(gateway, aborted=True)
    expect(stop).to_be_hidden()
    expect(opened.locator(".run .note")).to_have_text("Stopped before the agent answered.")


def test_rejected_message_returns_to_composer_with_reason(opened: Page, gateway: FakeGateway) -> None:
    def full(params: dict[str, Any]) -> dict[str, Any]:
        raise Refused("QUEUE_FULL", "you have 100 unfinished runs")

    gateway.answers["chat.send"] = full
    send(opened, "One more")
    expect(opened.get_by_role("alert")).to_have_text("Not sent: you have 100 unfinished runs")
    expect(opened.get_by_label("Message", exact=True)).to_have_value("One more")
    expect(opened.locator(".message.user")).to_have_count(0)


def test_failed_run_shows_its_reason(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.send_event("r1", "lifecycle", phase="error", error="the key was refused", kind="auth")
    expect(opened.locator(".note.bad")).to_have_text("Failed: the key was refused")
    expect(opened.locator("#stop")).to_be_hidden()


def test_reconnect_fetches_missed_events_without_duplicates(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.stream_text("r1", "one ", 0)
    expect(answers(opened)).to_have_text("one ")
    gateway.disconnect()
    gateway.record_event("r1", "assistant", messageId="m1", attempt=1, delta="two ", offset=4)
    expect(opened.locator("#connection")).to_have_text("Connected")
    expect(answers(opened)).to_have_text("one two ")
    gateway.send(gateway.log[-1])  # delivered again, live
    gateway.stream_text("r1", "three", 8)
    expect(answers(opened)).to_have_text("one two three")
    assert gateway.connections == 2
    assert [params["fromStateVersion"] for params in gateway.calls("sessions.history")] == [3]
    assert len(gateway.calls("chat.history")) == 1


def test_lost_frame_is_detected_and_fetched(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.stream_text("r1", "one ", 0)
    expect(answers(opened)).to_have_text("one ")
    gateway.record_event("r1", "assistant", messageId="m1", attempt=1, delta="two ", offset=4)
    gateway.frame_seq += 1  # the frame of this event never arrives
    gateway.stream_text("r1", "three", 8)
    expect(answers(opened)).to_have_text("one two three")
    assert gateway.connections == 1


def test_events_lost_during_catch_up_are_fetched(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.stream_text("r1", "one ", 0)
    expect(answers(opened)).to_have_text("one ")

    def missed(params: dict[str, Any]) -> dict[str, Any]:
        answer = gateway.missed(params)
        if len(gateway.calls("sessions.history")) == 1:
            gateway.record_event("r1", "assistant", messageId="m1", attempt=1, delta="two ", offset=4)
            gateway.stream_text("r1", "three", 8)
        return answer

    gateway.answers["sessions.history"] = missed
    gateway.disconnect()
    expect(answers(opened)).to_have_text("one two three")


def test_call_without_result_is_not_left_running(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.send_event("r1", "tool", phase="start", name="write", toolCallId="c1", args={})
    end_run(gateway, aborted=True)
    expect(opened.locator(".tool .status")).to_have_text("interrupted")


def test_unavailable_missed_events_trigger_history_reload(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.stream_text("r1", "Hel", 0)
    gateway.answers["sessions.history"] = lambda params: {"resync_required": True, "reason": "no longer stored"}
    gateway.answers["chat.history"] = lambda params: gateway.history([STORED_ANSWER])
    gateway.disconnect()
    expect(answers(opened)).to_have_text("Hello")
    expect(opened.locator("#stop")).to_be_hidden()


def test_unacknowledged_message_is_resent_with_same_key(opened: Page, gateway: FakeGateway) -> None:
    answered = gateway.answers["chat.send"]
    gateway.answers["chat.send"] = None
    send(opened, "Hi")
    expect(opened.locator(".message.user")).to_have_count(1)
    gateway.answers["chat.send"] = answered
    gateway.disconnect()
    expect(opened.locator("#connection")).to_have_text("Connected")
    expect(opened.locator(".message.user")).to_have_count(1)
    first, second = gateway.wait_for_calls("chat.send", times=2)
    assert first == second


def test_partial_answer_of_crashed_worker_is_removed(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.send_event("r1", "thinking", messageId="m1", attempt=1, delta="Let me see", offset=0)
    gateway.stream_text("r1", "Half", 0)
    expect(answers(opened)).to_have_text("Half")
    gateway.send_event("r1", "assistant", messageId="m1", attempt=2, reset=True)
    gateway.stream_text("r1", "Whole", 0, message="m2")
    expect(answers(opened)).to_have_text(["Whole"])
    expect(opened.locator(".message.assistant")).to_have_count(1)


def no_scope(params: dict[str, Any]) -> dict[str, Any]:
    details = {"code": "MISSING_SCOPE", "missingScope": "operator.read"}
    raise Refused("FORBIDDEN", "missing scope: operator.read", details=details)


@pytest.mark.parametrize("told", [True, False], ids=["the server closes", "the server says nothing"])
def test_user_without_chat_access_can_retry_once_granted(
    chat: Page, gateway: FakeGateway, site: str, user: User, told: bool
) -> None:
    history = gateway.answers["chat.history"]
    gateway.scopes, gateway.answers["chat.history"] = [], no_scope
    open_page(chat, site)
    gateway.wait_for_calls("chat.history")
    expect(chat.get_by_role("alert")).to_have_text(
        f"Your account “{user.username}” doesn’t have chat access yet. An operator can change that: "
        f"under Admin, Users, “{user.username}”, select the User group and save. This page then continues automatically."
    )
    expect(chat.get_by_label("Message", exact=True)).to_be_disabled()
    gateway.scopes, gateway.answers["chat.history"] = ["operator.read", "operator.write"], history
    if told:
        gateway.disconnect(4001)
    expect(chat.get_by_label("Message", exact=True)).to_be_enabled(timeout=15_000)
    expect(chat.locator("#welcome")).to_be_visible()
    expect(chat.locator("#problem")).to_be_hidden()


def test_long_conversation_scrolls_inside_its_container(chat: Page, gateway: FakeGateway, site: str) -> None:
    stored = [{**STORED_ANSWER, "messageId": f"m{n}", "runId": f"r{n}"} for n in range(150)]
    gateway.answers["chat.history"] = lambda params: gateway.history(stored)
    open_page(chat, site)
    expect(answers(chat)).to_have_count(150)
    assert chat.evaluate("document.documentElement.scrollHeight <= innerHeight")
    assert chat.evaluate("document.getElementById('log').scrollHeight > innerHeight")


def test_lost_connection_shows_next_retry_time(opened: Page, gateway: FakeGateway) -> None:
    gateway.answers["connect"] = lambda params: (_ for _ in ()).throw(
        Refused("UNAVAILABLE", "starting", retryable=True, retryAfterMs=60_000)
    )
    gateway.disconnect()
    expect(opened.locator("#connection")).to_have_text(re.compile(r"Reconnecting in [3-6]\d s"))


def test_two_missed_ticks_trigger_reconnect(chat: Page, gateway: FakeGateway, site: str) -> None:
    gateway.tick_ms = 200
    open_page(chat, site)
    chat.wait_for_function("() => document.getElementById('connection').dataset.state !== 'ready'")
    gateway.tick_ms = 15_000
    expect(chat.locator("#connection")).to_have_text("Connected")
    assert gateway.connections >= 2


def test_signed_out_page_shows_notice_and_stops_retrying(opened: Page, gateway: FakeGateway) -> None:
    def refuse(params: dict[str, Any]) -> dict[str, Any]:
        raise Refused("INVALID_REQUEST", "unauthorized: sign in", details={"code": "AUTH_REQUIRED"})

    gateway.answers["connect"] = refuse
    gateway.disconnect(4001)
    expect(opened.locator("#connection")).to_have_text("Signed out")
    expect(opened.get_by_role("alert")).to_contain_text("Reload the page")


def test_connection_rejection_shows_server_message(opened: Page, gateway: FakeGateway) -> None:
    def refuse(params: dict[str, Any]) -> dict[str, Any]:
        raise Refused("INVALID_REQUEST", "origin not allowed", details={"code": "CONTROL_UI_ORIGIN_NOT_ALLOWED"})

    gateway.answers["connect"] = refuse
    gateway.disconnect()
    expect(opened.get_by_role("alert")).to_have_text("The server rejected the connection: origin not allowed")


def test_conversation_is_empty_after_reset(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.stream_text("r1", "old words", 0)
    expect(answers(opened)).to_have_text("old words")
    gateway.cursor += 1
    gateway.answers["chat.history"] = lambda params: gateway.history([], sessionId="g2")
    reset = {"sessionKey": KEY, "sessionId": "g2", "cursor": gateway.cursor, "ts": 1, "change": "reset"}
    gateway.send({"type": "event", "event": "session", "payload": reset})
    expect(answers(opened)).to_have_count(0)
    expect(opened.locator("#welcome")).to_be_visible()


def test_events_of_same_key_foreign_session_are_ignored(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    gateway.stream_text("r1", "mine", 0)
    theirs = gateway.record_event("r9", "assistant", messageId="m9", attempt=1, delta="theirs", offset=0)
    gateway.cursor -= 1
    gateway.send({**theirs, "payload": {**theirs["payload"], "sessionId": "another"}})
    gateway.stream_text("r1", " alone", 4)
    expect(answers(opened)).to_have_text(["mine alone"])


def test_command_without_run_leaves_no_message(opened: Page, gateway: FakeGateway) -> None:
    gateway.answers["chat.send"] = lambda params: {"ok": True}
    send(opened, "/done-at-once")
    gateway.wait_for_calls("chat.send")
    expect(opened.locator(".message.user")).to_have_count(0)
    expect(opened.locator("#stop")).to_be_hidden()


def test_outdated_page_asks_for_reload(opened: Page, gateway: FakeGateway) -> None:
    gateway.disconnect(1002)
    expect(opened.get_by_role("alert")).to_contain_text("Reload the page")


def test_read_only_user_cannot_write(chat: Page, gateway: FakeGateway, site: str) -> None:
    gateway.scopes = ["operator.read"]
    open_page(chat, site)
    expect(chat.get_by_label("Message", exact=True)).to_be_disabled()
    expect(chat.get_by_role("alert")).to_contain_text("is read-only")


def test_each_conversation_has_its_own_url(chat: Page, gateway: FakeGateway, site: str) -> None:
    rows = [{"key": "agent:main:trip", "displayName": "The trip"}, {"key": "agent:main:main", "lastMessagePreview": "see you"}]
    gateway.answers["sessions.list"] = lambda params: {"sessions": rows}
    open_page(chat, site)
    chat.get_by_role("link", name="The trip").click()
    expect(chat.locator("#title")).to_have_text("The trip")
    expect(chat.get_by_role("link", name="The trip")).to_have_attribute("aria-current", "page")
    send(chat, "Where to?")
    expect(chat.locator(".message.user")).to_have_count(1)
    assert gateway.wait_for_calls("chat.send")[-1]["sessionKey"] == "agent:main:trip"
    chat.get_by_role("button", name="New chat").click()
    expect(chat.locator("#title")).to_have_text("New chat")
    expect(chat.locator(".message")).to_have_count(0)
    chat.go_back()
    expect(chat.locator("#title")).to_have_text("The trip")


def test_events_of_another_session_are_ignored(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    other = gateway.record_event("r9", "assistant", messageId="m9", attempt=1, delta="secret", offset=0)
    gateway.cursor -= 1
    gateway.log.pop()
    gateway.send({**other, "payload": {**other["payload"], "sessionKey": "agent:main:other"}})
    gateway.stream_text("r1", "mine", 0)
    expect(answers(opened)).to_have_text(["mine"])


def test_phone_list_opens_on_demand(chat: Page, gateway: FakeGateway, site: str) -> None:
    chat.set_viewport_size({"width": 390, "height": 780})
    open_page(chat, site)
    expect(chat.get_by_role("navigation")).to_be_hidden()
    chat.get_by_role("button", name="Chats").click()
    expect(chat.get_by_role("button", name="New chat")).to_be_visible()
    assert chat.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_shift_enter_inserts_newline(opened: Page, gateway: FakeGateway) -> None:
    box = opened.get_by_label("Message", exact=True)
    box.press_sequentially("one")
    box.press("Shift+Enter")
    box.press_sequentially("two")
    expect(box).to_have_value("one\ntwo")
    assert gateway.calls("chat.send") == []
