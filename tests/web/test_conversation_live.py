"""The chat with a running installation: rendering, rewinding, forking and searching."""

import json
import re
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.harness.policies import restore_policy
from tests.harness.processes import PROJECT
from tests.harness.stack import Stack
from tests.web.chat_page import TIMEOUT_MS, OpenChat, answers, on_phone, send, user_messages, wait_until
from tools_app.models import McpServer
from tools_app.policy_store import policies, source_changes

RICH = "Some **bold** words.\n\n```py\nx = 1\n```\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n<img src=x onerror=alert(1)> and $x^2$."


def ask(page: Page, text: str, answer: str | re.Pattern[str]) -> None:
    send(page, text)
    expect(answers(page).last).to_have_text(answer, timeout=TIMEOUT_MS)
    expect(page.locator(".ending[data-state=ended]").last).to_be_attached(timeout=TIMEOUT_MS)


def says(text: str) -> str:
    return f"[[text={json.dumps(text)}]]"


def test_streamed_and_stored_answers_render_identically(open_chat: OpenChat) -> None:
    page = open_chat(agent="main")
    send(page, says(RICH))
    answer = answers(page)
    expect(answer.locator("strong")).to_have_text("bold", timeout=TIMEOUT_MS)
    expect(answer.locator("pre .m")).to_have_text("1")
    expect(answer.locator(".scroll td")).to_have_text(["1", "2"])
    expect(answer.locator("math")).to_have_count(1, timeout=TIMEOUT_MS)
    expect(answer).to_contain_text("<img src=x onerror=alert(1)>")
    live = answer.evaluate("e => e.innerHTML.replace(/\\s+/g, ' ')")
    page.reload()
    expect(answer.locator("math")).to_have_count(1, timeout=TIMEOUT_MS)
    assert answer.evaluate("e => e.innerHTML.replace(/\\s+/g, ' ')") == live


def test_edited_message_updates_other_windows(open_chat: OpenChat, page: Page) -> None:
    key = "agent:main:changed"
    first = open_chat(key)
    ask(first, says("one"), "one")
    ask(first, says("two"), "two")
    second = open_chat(key, page.context.new_page())
    expect(answers(second)).to_have_count(2, timeout=TIMEOUT_MS)
    first.get_by_role("button", name="Edit and resend").last.click()
    first.locator(".editor textarea").fill(says("three"))
    first.locator(".editor").get_by_role("button", name="Send").click()
    for window in (first, second):
        expect(answers(window)).to_have_text(["one", "three"], timeout=TIMEOUT_MS)
        assert user_messages(window) == [says("one"), says("three")]
    first.reload()
    expect(answers(first)).to_have_text(["one", "three"], timeout=TIMEOUT_MS)


def test_answer_can_be_regenerated(open_chat: OpenChat) -> None:
    page = open_chat(agent="main")
    ask(page, says("once"), "once")
    page.get_by_role("button", name="Regenerate").click()
    expect(page.locator(".ending[data-state=ended]")).to_be_attached(timeout=TIMEOUT_MS)
    expect(answers(page)).to_have_text(["once"], timeout=TIMEOUT_MS)
    assert user_messages(page) == [says("once")]
    page.reload()
    expect(answers(page)).to_have_text(["once"], timeout=TIMEOUT_MS)


def test_fork_copies_earlier_messages_and_continues_independently(open_chat: OpenChat) -> None:
    page = open_chat(agent="main")
    ask(page, says("one"), "one")
    ask(page, says("two"), "two")
    before = page.url
    page.locator(".message.assistant").first.get_by_role("button", name="Fork from here").click()
    expect(answers(page)).to_have_text(["one"], timeout=TIMEOUT_MS)
    assert page.url != before
    ask(page, says("elsewhere"), "elsewhere")
    page.get_by_role("button", name="Regenerate").first.click()  # of a forked message; what follows differs
    page.locator(".editor textarea").press("Enter")
    expect(answers(page)).to_have_text(["one"], timeout=TIMEOUT_MS)
    page.goto(before)
    expect(answers(page)).to_have_text(["one", "two"], timeout=TIMEOUT_MS)


def test_message_link_opens_the_message(open_chat: OpenChat, live: Stack) -> None:
    page = open_chat(agent="main")
    for word in ("one", "two", "three"):
        ask(page, says(word), word)
    page.reload()
    expect(answers(page)).to_have_count(3, timeout=TIMEOUT_MS)
    link = page.locator(".message.assistant footer .when").first.get_attribute("href")
    page.goto(f"{live.url}/{link}")
    expect(page.locator(".message.pointed-at")).to_contain_text("one", timeout=TIMEOUT_MS)


@on_phone
def test_failure_advice_survives_reload(open_chat: OpenChat) -> None:
    page = open_chat(agent="main")
    send(page, "[[error=401]]")
    ending = page.locator(".ending[data-state=failed]")
    expect(ending.locator(".hint")).to_contain_text("An operator must fix the model provider’s API key", timeout=TIMEOUT_MS)
    told = ending.locator(".note").text_content()
    page.reload()
    expect(ending.locator(".hint")).to_contain_text("An operator must fix the model provider’s API key", timeout=TIMEOUT_MS)
    assert ending.locator(".note").text_content() == told
    expect(ending.get_by_role("button", name="Try again")).to_be_visible()


def test_thinking_and_tool_durations_are_kept(open_chat: OpenChat) -> None:
    page = open_chat(agent="main")
    thought, took = page.locator(".thinking:visible summary"), page.locator(".tool .duration")
    send(page, "[[tokens=3 reasoning=30 delay_ms=20]]")
    expect(thought).to_have_text(re.compile(r"Thought for\s+\d.* s"), timeout=TIMEOUT_MS)
    send(page, '[[tool=glob args={"pattern":"*"}]]')
    expect(answers(page).last).to_have_text("done after tools", timeout=TIMEOUT_MS)
    expect(took).to_have_text(re.compile(r"\d s$"))
    page.reload()
    expect(thought).to_have_text(re.compile(r"Thought for\s+\d.* s"), timeout=TIMEOUT_MS)
    expect(took).to_have_text(re.compile(r"\d s$"))


@pytest.fixture
def workbench(live: Stack) -> Iterator[None]:
    """An MCP server that reports its progress, and a policy that lets agent main use it."""
    program = [sys.executable, "-m", "tests.mcp_servers.sdk_server"]
    row = McpServer(name="workbench", enabled=True, command=program[0], args=program[1:], env={"PYTHONPATH": str(PROJECT)})
    source_changes.save_server(row)
    with restore_policy():
        policies.save_policy(scope="agent", subject="main", profile="coding", also_allow=["workbench"])
        yield
    source_changes.delete_servers(McpServer.objects.filter(pk=row.pk))


def test_tool_output_is_shown_live(live: Stack, workbench: None, open_chat: OpenChat) -> None:
    page = open_chat(agent="main")
    wait_until(page, McpServer.objects.filter(name="workbench", status="ready").exists)
    send(page, '[[tool=workbench__slow args={"seconds":600,"words":"the first half is done"}]]')
    card = page.locator(".tool")
    expect(card.locator(".result pre")).to_contain_text("the first half is done", timeout=TIMEOUT_MS)
    expect(card.locator(".status")).to_have_text("running")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(card.locator(".status")).not_to_have_text("running", timeout=TIMEOUT_MS)
    expect(page.locator(".run .note")).to_have_text(re.compile("Stopped"), timeout=TIMEOUT_MS)


DELETE = """async (key) => {
  const { Gateway } = await import("/static/js/shared/gateway.js");
  await new Promise((done) => {
    const gateway = new Gateway({
      url: location.origin.replace("http", "ws") + "/ws",
      client: { id: "webchat-ui", mode: "webchat", version: "1", platform: "web" },
      onState: ({ name }) => name === "ready" && gateway.request("sessions.delete", { key }).then(done),
      onEvent: () => {}, onGap: () => {},
    });
    gateway.start();
  });
}"""


def test_conversation_deleted_elsewhere_can_be_restored(open_chat: OpenChat) -> None:
    page = open_chat("agent:main:gone")
    ask(page, says("kept"), "kept")
    page.evaluate(DELETE, "agent:main:gone")
    expect(page.locator("#trouble")).to_contain_text("was deleted", timeout=TIMEOUT_MS)
    page.get_by_role("button", name="Restore").click()
    expect(answers(page)).to_have_text(["kept"], timeout=TIMEOUT_MS)
