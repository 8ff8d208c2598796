"""The details pane and the command palette with a fake gateway."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from clawsite.accounts.models import User
from tests.web.chat_page import open_page, sign_in
from tests.web.fake_gateway import KEY
from tests.web.fake_sessions import HOUR, FakeSessions, row

MODELS = [
    {"id": "openai/gpt-5", "name": "gpt-5", "provider": "openai", "reasoning": True, "available": True, "contextWindow": 100_000},
    {"id": "openai/mini", "name": "mini", "provider": "openai", "reasoning": False, "available": True},
    {"id": "groq/fast", "name": "fast", "provider": "groq", "reasoning": False, "available": False},
]


@pytest.fixture
def gateway(page: Page) -> FakeSessions:
    gateway = FakeSessions(page)
    gateway.answers["models.list"] = lambda params: {"models": MODELS}
    return gateway


@pytest.fixture
def chat(page: Page, gateway: FakeSessions, site: str, user: User) -> Page:
    sign_in(page, site, user)
    return page


def open_details(page: Page, site: str) -> Page:
    open_page(page, site)
    page.get_by_role("button", name="Details").click()
    return page


def answered(gateway: FakeSessions, **usage: int) -> dict[str, Any]:
    said = {"role": "assistant", "messageId": "m1", "runId": "r1", "content": [{"type": "text", "text": "Hello"}]}
    return gateway.history([{**said, "timestamp": 1, "provider": "openai", "model": "gpt-5", "usage": usage}])


def test_model_and_thinking_level_can_be_changed(chat: Page, gateway: FakeSessions, site: str) -> None:
    open_details(chat, site)
    model = chat.locator("#model")
    expect(model.locator("option").first).to_have_text("Default: demo/clawsite")
    model.select_option("openai/mini")
    chat.locator("#thinking-level").select_option("high")
    asked = gateway.wait_for_calls("sessions.patch", 2)
    assert asked == [{"key": KEY, "model": "openai/mini"}, {"key": KEY, "thinkingLevel": "high"}]
    expect(chat.get_by_text("This model has no thinking mode.")).to_be_visible()
    model.select_option("")
    assert gateway.wait_for_calls("sessions.patch", 3)[2] == {"key": KEY, "model": None}
    assert chat.locator("optgroup[disabled] option").all_inner_texts() == ["groq/fast"]


def test_agent_can_be_chosen_for_new_conversation(chat: Page, gateway: FakeSessions, site: str) -> None:
    agents = [{"id": "main", "name": "Main", "model": None}, {"id": "poet", "name": "Poet", "model": {"primary": "openai/mini"}}]
    gateway.answers["agents.list"] = lambda params: {"defaultId": "main", "agents": agents}
    open_details(chat, site)
    agent = chat.locator("#agent")
    expect(agent.locator("option")).to_have_text(["Main", "Poet"])
    expect(agent).to_have_value("main")
    agent.select_option("poet")
    expect(chat.locator("#title")).to_have_text("New chat")
    expect(agent).to_have_value("poet")
    expect(chat.locator("#model option").first).to_have_text("Default: openai/mini")
    field = chat.get_by_label("Message", exact=True)
    field.fill("A verse, please")
    field.press("Enter")
    assert gateway.wait_for_calls("chat.send")[0]["sessionKey"].startswith("agent:poet:")
    assert gateway.calls("sessions.patch") == []  # the previous chat keeps its agent


def test_single_agent_hides_the_agent_picker(chat: Page, gateway: FakeSessions, site: str) -> None:
    open_details(chat, site)
    expect(chat.locator("#agent option")).to_have_text(["Main"])
    expect(chat.locator("#agent")).to_be_disabled()


def test_context_usage_comes_from_last_request(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.answers["chat.history"] = lambda params: answered(gateway, input=70_000, output=5_000)
    gateway.rows[0] |= {"inputTokens": 123_456, "outputTokens": 789, "costUsd": 0.25}
    open_details(chat, site)
    meter = chat.get_by_role("meter")
    expect(meter).to_have_attribute("aria-valuenow", "75")
    expect(meter).to_have_attribute("aria-valuetext", "75K of 100K tokens")
    expect(chat.locator("#usage")).to_contain_text("123,456 tokens")
    expect(chat.locator("#usage")).to_contain_text("$0.25")


def test_details_show_conversation_metadata(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.rows[0] |= {"forkedFrom": "id-origin"}
    gateway.rows.append(row("origin", "The origin", age=HOUR))
    gateway.answers["chat.history"] = lambda params: answered(gateway, input=1, output=1)
    open_details(chat, site)
    facts = chat.locator("#facts")
    expect(facts.get_by_role("link", name="The origin")).to_have_attribute("href", "#agent%3Amain%3Aorigin")
    expect(facts.locator("[data-fact=messages]")).to_have_text("1")
    expect(facts).to_contain_text("somebody")
    expect(facts).to_contain_text(KEY)


def test_last_run_is_shown_as_timeline(chat: Page, gateway: FakeSessions, site: str) -> None:
    open_details(chat, site)
    expect(chat.locator("#run-section")).to_be_hidden()
    gateway.send_event("r1", "lifecycle", phase="accepted", prompt="Hi")
    gateway.send_event("r1", "lifecycle", phase="start", startedAt=1)
    gateway.send_event("r1", "tool", phase="start", name="read", toolCallId="c1", args={})
    expect(chat.locator("#run-state")).to_have_text("Running")
    gateway.send_event("r1", "tool", phase="result", name="read", toolCallId="c1", isError=True, result={"content": []})
    gateway.stream_text("r1", "one", 0)
    gateway.stream_text("r1", " two", 3)
    gateway.send_event("r1", "lifecycle", phase="end", aborted=False)
    steps = chat.locator("#timeline .label")
    expect(steps).to_have_text(["Queued", "Started", "read", "First output", "Completed"])
    expect(chat.locator("#timeline li.bad")).to_have_count(1)
    expect(chat.locator("#run-state")).to_have_text("Completed")


def test_earlier_run_timeline_is_built_from_events(chat: Page, gateway: FakeSessions, site: str) -> None:
    for phase in ("accepted", "start"):
        gateway.record_event("r1", "lifecycle", phase=phase)
    gateway.record_event("r1", "assistant", messageId="m1", attempt=1, delta="Hello", offset=0)
    gateway.record_event("r1", "lifecycle", phase="end", aborted=True)
    gateway.answers["chat.history"] = lambda params: answered(gateway, input=1, output=1)
    open_details(chat, site)
    expect(chat.locator("#timeline .label")).to_have_text(["Queued", "Started", "First output", "Stopped"])


def test_run_page_is_linked_when_available(chat: Page, gateway: FakeSessions, site: str) -> None:
    hello = gateway.answers["connect"]
    assert hello
    gateway.answers["connect"] = lambda params: {**hello(params), "features": {"methods": ["runs.get"]}}
    gateway.answers["runs.get"] = lambda params: {"id": 7}
    gateway.record_event("r1", "lifecycle", phase="accepted")
    gateway.answers["chat.history"] = lambda params: answered(gateway, input=1, output=1)
    open_details(chat, site)
    expect(chat.get_by_role("link", name="Run details")).to_have_attribute("href", "/runs/7/")


def test_subagents_are_nested_under_their_parent(chat: Page, gateway: FakeSessions, site: str) -> None:
    child, grandchild = row("subagent:1", "Look it up", status="running"), row("subagent:2", "Read it")
    gateway.rows += [{**child, "spawnedBy": KEY}, {**grandchild, "spawnedBy": child["key"]}]
    open_details(chat, site)
    tree = chat.locator("#subagents")
    expect(tree.locator(":scope > li > a")).to_contain_text("Look it up")
    expect(tree.locator("li li a")).to_contain_text("Read it")
    expect(chat.locator("#session-list")).not_to_contain_text("Look it up")  # the list only has chats of people


def test_details_pane_stays_open_on_next_visit(chat: Page, gateway: FakeSessions, site: str) -> None:
    open_details(chat, site)
    chat.reload()
    expect(chat.locator("#details")).to_be_visible()
    chat.locator("#close-details").click()
    expect(chat.get_by_role("button", name="Details")).to_be_focused()
    chat.reload()
    expect(chat.locator("#connection")).to_have_text("Connected")
    expect(chat.locator("#details")).to_be_hidden()


def test_details_open_as_sheet_on_phone(chat: Page, gateway: FakeSessions, site: str) -> None:
    chat.set_viewport_size({"width": 390, "height": 844})
    open_details(chat, site)
    expect(chat.locator("#model")).to_be_visible()
    assert chat.evaluate("document.documentElement.scrollWidth <= innerWidth")
    chat.keyboard.press("Escape")
    expect(chat.locator("#details")).to_be_hidden()


# The palette


def test_palette_finds_conversation_by_partial_name(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.rows += [row("lyon", "Trip to Lyon", age=HOUR), row("tax", "Tax return", age=2 * HOUR)]
    open_page(chat, site)
    chat.keyboard.press("Control+k")
    field = chat.get_by_role("combobox", name="Search chats, actions and commands")
    expect(field).to_be_focused()
    field.press_sequentially("lyo")
    chosen = chat.locator("#palette [aria-selected=true]")
    expect(chosen).to_contain_text("Trip to Lyon")
    expect(field).to_have_attribute("aria-activedescendant", chosen.get_attribute("id") or "")
    chat.keyboard.press("Enter")
    expect(chat.locator("#title")).to_have_text("Trip to Lyon")
    expect(chat.locator("#palette")).to_be_hidden()


def test_palette_finds_conversations_not_yet_loaded(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.rows += [row(f"n{n:03}", age=n * HOUR) for n in range(1, 200)]
    open_page(chat, site)
    chat.keyboard.press("Control+k")
    chat.keyboard.type("n177")
    expect(chat.locator("#palette [role=option]").first).to_contain_text("n177")


def test_palette_actions_work_by_keyboard(chat: Page, gateway: FakeSessions, site: str) -> None:
    open_page(chat, site)
    chat.keyboard.press("Control+k")
    chat.keyboard.type("dark th")
    chat.keyboard.press("Enter")
    expect(chat.locator("html")).to_have_attribute("data-theme", "dark")
    chat.keyboard.press("Control+k")
    chat.keyboard.type("show details")
    chat.keyboard.press("Enter")
    expect(chat.locator("#details")).to_be_visible()
    chat.keyboard.press("Control+k")
    chat.keyboard.type("rename")
    chat.keyboard.press("Enter")
    expect(chat.get_by_label("Chat name")).to_be_focused()
    chat.keyboard.press("Escape")
    chat.keyboard.press("Control+k")
    chat.keyboard.type("lighthouse")
    chat.keyboard.press("Enter")  # no chat has that name, so it is searched for
    assert gateway.wait_for_calls("sessions.search")[0]["query"] == "lighthouse"


def test_palette_hides_unavailable_actions(chat: Page, gateway: FakeSessions, site: str) -> None:
    open_page(chat, site)
    chat.keyboard.press("Control+k")
    options = chat.locator("#palette [role=option] .name")
    expect(options.filter(has_text="New chat")).to_have_count(1)
    told = options.all_inner_texts()
    assert "Stop the agent" not in told
    assert "Admin" not in told
    assert "Sign out" in told


def test_slash_in_palette_lists_commands(chat: Page, gateway: FakeSessions, site: str) -> None:
    commands = [
        {"name": "model", "args": [{"description": "<model>"}], "description": "Choose"},
        {"name": "status", "description": "Tell"},
    ]
    gateway.answers["commands.list"] = lambda params: {"commands": commands}
    gateway.answers["chat.send"] = lambda params: {"ok": True, "command": "status", "notice": "All well"}
    open_page(chat, site)
    chat.keyboard.press("Control+k")
    chat.keyboard.type("/m")
    expect(chat.locator("#palette [role=option]")).to_have_count(1)
    chat.keyboard.press("Enter")
    expect(chat.get_by_label("Message", exact=True)).to_have_value("/model ")
    chat.keyboard.press("Control+k")
    chat.keyboard.type("/sta")
    chat.keyboard.press("Enter")
    assert gateway.wait_for_calls("chat.send")[0]["message"] == "/status"


def test_escape_closes_palette_without_stopping_run(chat: Page, gateway: FakeSessions, site: str) -> None:
    open_page(chat, site)
    gateway.send_event("r1", "lifecycle", phase="accepted", prompt="Hi")
    gateway.send_event("r1", "lifecycle", phase="start", startedAt=1)
    expect(chat.locator("#stop")).to_be_visible()
    chat.keyboard.press("Control+k")
    expect(chat.locator("#palette")).to_contain_text("Stop the agent")
    chat.keyboard.press("Escape")
    expect(chat.locator("#palette")).to_be_hidden()
    expect(chat.get_by_label("Message", exact=True)).to_be_focused()
    assert gateway.calls("chat.abort") == []


def test_question_mark_shows_shortcuts_unless_typing(chat: Page, gateway: FakeSessions, site: str) -> None:
    open_page(chat, site)
    chat.get_by_label("Message", exact=True).press("?")
    expect(chat.locator("#help")).to_be_hidden()
    chat.locator("#log").focus()
    chat.keyboard.press("?")
    expect(chat.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    chat.keyboard.press("Escape")
    expect(chat.locator("#help")).to_be_hidden()
