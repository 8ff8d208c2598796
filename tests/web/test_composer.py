"""The composer with a fake gateway: keys, completion, drafts, limits."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from clawsite.accounts.models import User
from tests.web.chat_page import end_run, open_page, send, sign_in, start_run
from tests.web.fake_gateway import KEY, FakeGateway, Refused

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
COMMANDS = [
    {"name": "stop", "description": "Stop the current run", "textAliases": ["/stop", "/abort"]},
    {"name": "new", "args": [{"description": "[title]"}], "description": "Start a new chat", "textAliases": ["/new"]},
    {"name": "model", "args": [{"description": "<model|default>"}], "description": "Set the model", "textAliases": ["/model"]},
    {
        "name": "think",
        "description": "How much it thinks",
        "textAliases": ["/think", "/t"],
        "args": [{"description": "<level>", "choices": [{"value": level, "label": level} for level in ("off", "low", "high")]}],
    },
    {"name": "status", "description": "Show tokens and cost", "textAliases": ["/status"]},
]
MODELS = [
    {"id": "openai/gpt-5", "name": "gpt-5", "provider": "openai", "available": False, "unavailableReason": "missing-key"},
    {"id": "anthropic/claude-5", "name": "claude-5", "provider": "anthropic", "available": True},
    {"id": "demo/clawsite", "name": "Demo", "provider": "demo", "available": True},
]


@pytest.fixture
def gateway(page: Page) -> FakeGateway:
    made = FakeGateway(page)
    made.answers["commands.list"] = lambda params: {"commands": COMMANDS}
    made.answers["models.list"] = lambda params: {"models": MODELS}
    return made


def field(page: Page) -> Any:
    return page.get_by_label("Message", exact=True)


def options(page: Page) -> Any:
    return page.locator("#suggestion-list").get_by_role("option")


def chosen(page: Page) -> Any:
    return page.locator("#suggestion-list [aria-selected=true] .name")


# Keys


def test_enter_during_ime_composition_does_not_send(opened: Page, gateway: FakeGateway) -> None:
    field(opened).fill("你好")
    field(opened).dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    field(opened).dispatch_event("keydown", {"key": "Enter", "keyCode": 229})
    expect(field(opened)).to_have_value("你好")
    assert gateway.calls("chat.send") == []


def test_phone_enter_inserts_newline_and_button_sends(browser: Browser, site: str, user: User) -> None:
    context = browser.new_context(**PHONE)
    page = context.new_page()
    gateway = FakeGateway(page)
    sign_in(page, site, user)
    page.goto(site)
    expect(page.locator("#connection")).to_have_attribute("data-state", "ready")
    expect(field(page)).not_to_be_focused()  # otherwise the keyboard would cover half of the page
    field(page).tap()
    field(page).press_sequentially("one")
    field(page).press("Enter")
    field(page).press_sequentially("two")
    expect(field(page)).to_have_value("one\ntwo")
    page.get_by_role("button", name="Send", exact=True).tap()
    (sent,) = gateway.wait_for_calls("chat.send")
    assert sent["message"] == "one\ntwo"
    for control in ("#send", "#attach"):
        box = page.locator(control).bounding_box()
        assert box and box["width"] >= 44 and box["height"] >= 44
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_field_grows_to_height_limit_then_scrolls(opened: Page, width: int) -> None:
    opened.set_viewport_size({"width": width, "height": 800})
    one = field(opened).bounding_box()
    field(opened).fill("\n".join(map(str, range(5))))
    five = field(opened).bounding_box()
    field(opened).fill("\n".join(map(str, range(40))))
    many = field(opened).bounding_box()
    assert one and five and many and one["height"] < five["height"] < many["height"] <= 0.4 * 800
    expect(opened.locator("#send")).to_be_in_viewport()
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_slash_key_focuses_the_composer(opened: Page) -> None:
    opened.locator("#log").focus()
    opened.keyboard.press("/")
    expect(field(opened)).to_be_focused()
    expect(field(opened)).to_have_value("")


def test_escape_stops_run_and_button_shows_stopping(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway)
    expect(opened.locator("#stop")).to_have_text("Stop")
    field(opened).press("Escape")
    assert gateway.wait_for_calls("chat.abort") == [{"sessionKey": KEY}]
    expect(opened.locator("#stop")).to_have_text("Stopping…")
    expect(opened.locator("#stop")).to_be_disabled()
    field(opened).press("Escape")
    end_run(gateway, aborted=True)
    expect(opened.locator("#stop")).to_be_hidden()
    assert len(gateway.calls("chat.abort")) == 1


def test_arrow_up_in_empty_composer_edits_last_message(opened: Page, gateway: FakeGateway) -> None:
    start_run(gateway, prompt="Tea, please")
    end_run(gateway)
    field(opened).press_sequentially("x")
    field(opened).press("ArrowUp")
    expect(opened.locator(".editor")).to_have_count(0)
    field(opened).fill("")
    field(opened).press("ArrowUp")
    expect(opened.locator(".editor textarea")).to_have_value("Tea, please")
    expect(opened.locator(".editor textarea")).to_be_focused()


# Completion


def test_slash_suggests_commands_with_help(opened: Page) -> None:
    field(opened).press_sequentially("/")
    expect(options(opened)).to_have_count(5)
    expect(options(opened).nth(3)).to_have_text(re.compile(r"/think\s+<level>\s+How much it thinks"))
    expect(field(opened)).to_have_attribute("aria-activedescendant", "suggestion-0")
    expect(field(opened)).to_have_attribute("aria-controls", "suggestion-list")
    expect(opened.locator("#announce")).to_contain_text("5 suggestions")
    field(opened).press("ArrowUp")
    expect(chosen(opened)).to_have_text("/status")
    field(opened).press("ArrowDown")
    expect(chosen(opened)).to_have_text("/stop")
    field(opened).press_sequentially("sta")
    expect(chosen(opened)).to_have_text("/status")
    field(opened).press("Escape")
    expect(opened.locator("#suggestions")).to_be_hidden()
    expect(field(opened)).to_have_value("/sta")
    expect(field(opened)).not_to_have_attribute("aria-activedescendant", re.compile("."))


def test_command_with_choices_completes_in_two_steps(opened: Page, gateway: FakeGateway) -> None:
    gateway.answers["chat.send"] = lambda params: {"ok": True, "command": "think", "notice": "Thinks a lot from now on."}
    field(opened).press_sequentially("/thi")
    field(opened).press("Tab")
    expect(field(opened)).to_have_value("/think ")
    expect(options(opened)).to_have_text([re.compile("off"), re.compile("low"), re.compile("high")])
    field(opened).press_sequentially("h")
    field(opened).press("Enter")
    (sent,) = gateway.wait_for_calls("chat.send")
    assert sent["message"] == "/think high"
    expect(opened.locator("#toast .text")).to_have_text("Thinks a lot from now on.")
    expect(field(opened)).to_have_value("")
    expect(opened.locator(".message.user")).to_have_count(0)
    expect(opened.locator("#welcome")).to_be_visible()


def test_command_without_arguments_completes_by_click_runs_by_enter(opened: Page, gateway: FakeGateway) -> None:
    gateway.answers["chat.send"] = lambda params: {"ok": True, "command": "status", "notice": "- **Model**: m\n- **Tokens**: 7"}
    field(opened).press_sequentially("/sta")
    options(opened).first.click()
    expect(field(opened)).to_have_value("/status")
    expect(field(opened)).to_be_focused()
    field(opened).press("Enter")
    answer = opened.get_by_role("region", name="Command response")
    expect(answer.get_by_role("listitem")).to_have_text(["Model: m", "Tokens: 7"])
    assert gateway.calls("chat.abort") == []
    field(opened).press("Escape")
    expect(answer).to_be_hidden()


def test_offline_command_is_returned_to_composer(opened: Page, gateway: FakeGateway) -> None:
    field(opened).press_sequentially("/")
    expect(options(opened)).to_have_count(5)
    gateway.answers["connect"] = None
    gateway.disconnect()
    expect(opened.locator("#connection")).not_to_have_text("Connected")
    send(opened, "/new Plans")
    expect(opened.get_by_role("alert")).to_have_text("Not sent: No connection.")
    expect(field(opened)).to_have_value("/new Plans")
    expect(opened.locator(".message.user")).to_have_count(0)


def test_inline_directive_is_sent_as_message(opened: Page, gateway: FakeGateway) -> None:
    field(opened).press_sequentially("/think high")
    field(opened).press_sequentially(" and tell me why")
    field(opened).press("Enter")
    gateway.wait_for_calls("chat.send")
    expect(opened.locator(".message.user .text")).to_have_text("/think high and tell me why")


def test_at_sign_suggests_models_and_disables_keyless(opened: Page, gateway: FakeGateway) -> None:
    field(opened).press_sequentially("@")
    expect(options(opened)).to_have_count(3)
    expect(options(opened).last).to_have_text(re.compile(r"openai/gpt-5\s+gpt-5 · no API key"))
    expect(options(opened).last).to_have_attribute("aria-disabled", "true")
    field(opened).press("ArrowDown")
    field(opened).press("ArrowDown")
    expect(chosen(opened)).to_have_text("anthropic/claude-5")
    field(opened).press("Enter")
    expect(field(opened)).to_have_value("@anthropic/claude-5 ")
    field(opened).press_sequentially("hello @demo")
    expect(opened.locator("#suggestions")).to_be_hidden()
    field(opened).press("Enter")
    assert gateway.wait_for_calls("chat.send")[0]["message"] == "@anthropic/claude-5 hello @demo"


def test_slash_inside_message_suggests_nothing(opened: Page, gateway: FakeGateway) -> None:
    field(opened).press_sequentially("either /or")
    expect(opened.locator("#suggestions")).to_be_hidden()
    assert gateway.calls("commands.list") == []


# Drafts and limits


def test_draft_is_per_conversation_and_survives_reload(opened: Page, site: str, make_user: Any) -> None:
    field(opened).fill("half a thought")
    opened.evaluate("location.hash = 'agent:main:other'")
    expect(field(opened)).to_have_value("")
    field(opened).fill("another one")
    opened.reload()
    expect(field(opened)).to_have_value("another one")
    opened.evaluate("location.hash = ''")
    expect(field(opened)).to_have_value("half a thought")
    sign_in(opened, site, make_user())
    open_page(opened, site)
    expect(field(opened)).to_have_value("")


def test_sent_message_clears_the_draft(opened: Page, gateway: FakeGateway) -> None:
    send(opened, "Hi")
    gateway.wait_for_calls("chat.send")
    opened.reload()
    expect(field(opened)).to_have_value("")
    drafts = "Object.keys(localStorage).filter((name) => name.startsWith('clawsite.draft.'))"
    assert opened.evaluate(drafts) == []


def test_rejected_message_returns_to_its_own_conversation(opened: Page, gateway: FakeGateway) -> None:
    def full(params: dict[str, Any]) -> dict[str, Any]:
        raise Refused("QUEUE_FULL", "you have 100 unfinished runs")

    gateway.answers["chat.send"] = None
    send(opened, "One more")
    gateway.wait_for_calls("chat.send")
    opened.evaluate("location.hash = 'agent:main:other'")
    field(opened).fill("elsewhere")
    gateway.answers["chat.send"] = full
    gateway.disconnect()
    expect(opened.get_by_role("alert")).to_have_text("Not sent: you have 100 unfinished runs")
    expect(field(opened)).to_have_value("elsewhere")
    opened.evaluate("location.hash = ''")
    expect(field(opened)).to_have_value("One more")


def test_message_length_limit_is_shown_without_truncation(opened: Page, gateway: FakeGateway) -> None:
    note = opened.locator("#composer-note")
    field(opened).fill("x" * 90_000)
    expect(note).to_be_empty()
    field(opened).fill("x" * 99_990)
    expect(note).to_have_text("Characters left: 10")
    field(opened).fill("x" * 99_998 + "👋👋👋")
    expect(note).to_have_text("Too long by 1 characters")
    field(opened).press("Enter")
    assert gateway.calls("chat.send") == []
    assert len(field(opened).input_value()) == 100_001
    field(opened).fill("short")
    expect(note).to_be_empty()


def test_read_only_composer_shows_reason(chat: Page, gateway: FakeGateway, site: str) -> None:
    gateway.scopes = ["operator.read"]
    open_page(chat, site)
    expect(field(chat)).to_be_disabled()
    expect(chat.get_by_role("button", name="Send", exact=True)).to_be_disabled()
    expect(chat.get_by_role("button", name="Attach files")).to_be_disabled()
    expect(field(chat)).to_have_attribute("placeholder", re.compile("is read-only"))
