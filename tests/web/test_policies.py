"""The policy pages in a real browser: queries, trying a rule, replay, conflicts, restoring, and the link from a tool card."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from playwright.sync_api import Browser, Locator, Page, Route, expect

from clawsite.accounts.models import User
from sessions_app.models import Session
from tests.harness.policies import create_tool_call, restore_policy
from tests.web.chat_page import open_page, sign_in, stored_message
from tests.web.fake_gateway import FakeGateway
from tools_app.policy_store import policies
from tools_app.policy_store.policy_tests import save_test

pytestmark = pytest.mark.usefixtures("database", "kept_policy")

NASTY = '"><img src=x onerror="window.owned=1"><script>window.owned=1</script>'
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@pytest.fixture
def kept_policy(database: None) -> Iterator[None]:
    with restore_policy():
        yield


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    expect.set_options(timeout=20_000)  # for a loaded machine; speed is not tested here
    yield
    expect.set_options(timeout=None)


@pytest.fixture
def olga(make_user: Callable[..., User]) -> User:
    return make_user("Operator", "User", name="olga")


@pytest.fixture
def explain(page: Page, site: str, olga: User) -> Callable[..., Page]:
    """Open the page with a query, signed in as an operator."""
    sign_in(page, site, olga)

    def opened(address: str = "/policies/") -> Page:
        page.goto(site + address)
        return page

    return opened


def row(page: Page, tool: str) -> Locator:
    return page.locator(f'.matrix tr[data-tool="{tool}"]')


def cell(page: Page, tool: str, layer: str) -> Locator:
    return row(page, tool).locator(f'td[data-layer="{layer}"]')


def test_explanation_updates_with_form_and_url(explain: Callable[..., Page]) -> None:
    policies.save_policy(scope="agent", subject="main", profile="coding", deny=["grep"])
    page = explain()
    expect(row(page, "grep")).to_contain_text("denied")
    expect(cell(page, "grep", "agent")).to_have_class(re.compile("deny deciding"))
    expect(page.locator("#summary")).to_contain_text(re.compile(r"\d+ of \d+ tools are allowed"))
    before = page.locator("#summary").text_content()
    page.get_by_label("Agent", exact=True).first.fill("scout")
    expect(row(page, "read")).to_contain_text("denied")
    expect(page.locator("#summary")).not_to_have_text(before or "")
    page.get_by_label("as a subagent").check()
    expect(cell(page, "session_status", "subagent")).to_have_class(re.compile("deciding"))
    expect(page).to_have_url(re.compile(r"/policies/\?agent=scout&subagent=1$"))
    page.reload()
    expect(cell(page, "session_status", "subagent")).to_have_class(re.compile("deciding"))
    page.get_by_placeholder("Find a tool").fill("memory")
    expect(page.locator(".matrix tr[data-tool]")).to_have_count(2)


def test_allowed_but_unavailable_tools_show_reason(explain: Callable[..., Page]) -> None:
    page = explain("/policies/?model=deepseek/deepseek-chat")
    expect(row(page, "image").locator(".badge")).to_have_text("allowed, unavailable")
    expect(row(page, "image")).to_contain_text("does not accept images")
    page.locator("#summary").get_by_role("link", name="of them are unavailable").click()
    expect(row(page, "apply_patch")).to_contain_text("Only for OpenAI models")
    expect(row(page, "read")).to_have_count(0)
    page.get_by_label("Model", exact=True).fill("openai/gpt-5")
    expect(row(page, "image")).to_have_count(0)
    expect(row(page, "subagents")).to_contain_text("Not available in this version")


def test_cell_opens_rule_and_draft_previews_verdicts(explain: Callable[..., Page]) -> None:
    policies.save_policy(scope="agent", subject="main", profile="coding", deny=["write"])
    before = policies.current_rules().version
    page = explain()
    cell(page, "write", "agent").get_by_role("link").click()
    expect(page.locator("#d-deny")).to_have_value("write")
    page.locator("#d-deny").fill("wriet")
    expect(page.locator("#said-deny")).to_contain_text("“wriet” is not a tool")
    expect(page.get_by_role("button", name="Save rule")).to_have_count(0)
    page.locator("#d-deny").fill("read")
    expect(row(page, "write")).to_contain_text("was denied → would be allowed")
    expect(row(page, "read")).to_contain_text("was allowed → would be denied")
    expect(page.locator("#said-deny")).to_have_text("")
    expect(page.locator("#summary")).to_contain_text("1 more, 1 fewer than now")
    assert policies.current_rules().row("agent", "main").deny == ("write",)
    page.get_by_role("button", name="Save rule").click()
    expect(page.get_by_text(f"Saved. This is policy version {before + 1}.")).to_be_visible()
    expect(row(page, "read")).to_contain_text("denied")
    assert policies.current_rules().row("agent", "main").deny == ("read",)


def test_changing_scope_loads_rule_unless_draft_was_edited(explain: Callable[..., Page]) -> None:
    policies.save_policy(scope="global", profile="minimal", deny=["exec"])
    policies.save_policy(scope="agent", subject="scout", deny=["grep"])
    page = explain("/policies/?scope=global#draft")
    expect(page.locator("#d-deny")).to_have_value("exec")
    expect(page.get_by_label("Only for sender")).to_be_hidden()
    page.get_by_label("Applies to").select_option("agent")
    expect(page.locator("#d-agent")).to_have_value("main")
    page.locator("#d-agent").fill("scout")
    page.locator("#d-agent").press("Tab")
    expect(page.locator("#d-deny")).to_have_value("grep")
    page.locator("#d-deny").fill("grep\nglob")
    expect(page.get_by_role("button", name="Save rule")).to_be_visible()
    page.get_by_label("Applies to").select_option("sandbox")
    expect(page.get_by_label("Also allow")).to_be_hidden()
    expect(page.locator("#d-deny")).to_have_value("grep\nglob")


def test_entries_are_autocompleted_by_keyboard(explain: Callable[..., Page]) -> None:
    page = explain("/policies/?scope=agent&for_agent=main#draft")
    deny = page.locator("#d-deny")
    deny.press_sequentially("group:ru")
    expect(page.locator(".entry-list:visible li")).to_have_text(re.compile("group:runtime"))
    deny.press("Enter")
    expect(deny).to_have_value("group:runtime")
    expect(page.locator(".entry-list:visible li")).to_have_count(0)
    deny.press("Enter")
    deny.press_sequentially("web_")
    expect(page.locator(".entry-list:visible li")).to_have_count(2)
    deny.press("ArrowDown")
    deny.press("Tab")
    expect(deny).to_have_value(re.compile(r"^group:runtime\nweb_(fetch|search)$"))
    expect(row(page, "exec")).to_contain_text("was allowed → would be denied")
    deny.press("Enter")
    deny.press_sequentially("me")
    deny.press("Escape")
    expect(page.locator(".entry-list:visible li")).to_have_count(0)


def test_draft_is_replayed_against_recorded_calls(explain: Callable[..., Page], user: User, make_session: Any) -> None:
    before = policies.current_rules().version
    create_tool_call(user, make_session(user), name="write", status="finished")
    create_tool_call(user, make_session(user), name="web_fetch")
    page = explain("/policies/?scope=agent&for_agent=main#draft")
    page.locator("#d-deny").fill("write")
    page.get_by_label("Also allow").fill("web_fetch")
    expect(row(page, "write")).to_contain_text("would be denied")
    page.get_by_role("button", name="Last 7 days").click()
    expect(page.locator("#replayed")).to_contain_text(re.compile(r"Would newly deny 1 and newly allow 1 of \d+ tool calls"))
    page.locator("#replayed").get_by_role("link", name="web_fetch").click()
    expect(page.get_by_role("heading", name="web_fetch")).to_be_visible()
    expect(page.locator("#now")).to_contain_text("Today this would be denied.")
    assert policies.current_rules().version == before


def test_save_conflict_shows_changes_and_keeps_draft(explain: Callable[..., Page]) -> None:
    page = explain("/policies/?scope=agent&for_agent=main#draft")
    page.locator("#d-deny").fill("write")
    save = page.get_by_role("button", name="Save rule")
    expect(save).to_be_visible()
    policies.save_policy(scope="agent", subject="main", profile="coding", deny=["grep"])
    now = policies.current_rules().version
    save.click()
    expect(page.locator("#draft-state")).to_contain_text(f"The policy changed while you were editing: it is now at version {now}")
    expect(page.locator("#draft-state .added")).to_contain_text("grep")
    expect(page.locator("#d-deny")).to_have_value("write")
    assert policies.current_rules().row("agent", "main").deny == ("grep",)
    page.get_by_role("button", name="Save anyway").click()
    expect(page.get_by_text(f"Saved. This is policy version {now + 1}.")).to_be_visible()
    assert policies.current_rules().row("agent", "main").deny == ("write",)


def test_draft_failing_policy_test_cannot_be_saved(explain: Callable[..., Page]) -> None:
    save_test(name="main never fetches", expected="never", agent="main", tool="web_fetch")
    page = explain("/policies/?scope=agent&for_agent=main#draft")
    page.get_by_label("Also allow").fill("web_fetch")
    expect(page.locator("#draft-state")).to_contain_text("Policy test “main never fetches” would fail")
    expect(page.get_by_role("button", name="Save rule")).to_have_count(0)


def test_earlier_version_is_restored_after_preview(explain: Callable[..., Page]) -> None:
    before = policies.current_rules().version
    policies.save_policy(scope="agent", subject="main", profile="full")
    page = explain("/policies/history/")
    row = page.locator(f"#v{before}")
    row.locator("summary", has_text="Restore").click()
    row.get_by_role("link", name="Preview changes").click()
    expect(page.locator("#restore .removed")).to_contain_text("full")
    page.go_back()
    row.locator("summary", has_text="Restore").click()
    row.get_by_role("button", name="Restore this version").click()
    expect(page.get_by_text(f"Version {before} was restored as version {before + 2}.")).to_be_visible()
    assert policies.current_rules().row("agent", "main").profile == "coding"


def test_policy_test_is_created_and_deleted(explain: Callable[..., Page]) -> None:
    page = explain("/policies/tests/")
    page.get_by_role("link", name="Create the first test").click()
    page.get_by_label("Name").fill("scout never runs a command")
    page.get_by_label("Agent", exact=True).fill("scout")
    page.get_by_label("Expected").select_option("never")
    page.get_by_label("Tool", exact=True).fill("group:runtime")
    page.get_by_role("button", name="Save test").click()
    expect(page.get_by_text("All tests pass.")).to_be_visible()
    page.locator("summary", has_text="Delete").click()
    page.get_by_role("button", name="Yes, delete").click()
    expect(page.get_by_role("heading", name="No tests yet")).to_be_visible()


def refused_messages() -> list[dict[str, Any]]:
    call = {"type": "toolCall", "id": "c1", "name": "web_fetch", "arguments": {"url": "https://example.org"}}
    told = {"verdict": {"allowed": False, "layer": "profile"}, "isError": True, "toolCallId": "c1", "toolName": "web_fetch"}
    return [
        stored_message("user", "Hi", 1),
        {**stored_message("assistant", "", 1), "content": [call]},
        {**stored_message("toolResult", "refused", 1), **told},
    ]


def test_denied_card_links_operator_to_explanation(
    page: Page, site: str, gateway: FakeGateway, olga: User, make_session: Callable[..., Session]
) -> None:
    create_tool_call(olga, make_session(olga), name="web_fetch", run_id="r1")
    gateway.answers["chat.history"] = lambda params: gateway.history(refused_messages())
    sign_in(page, site, olga)
    open_page(page, site)
    with page.context.expect_page() as opened:
        page.locator(".tool").get_by_role("link", name="Explain this decision").click()
    explained = opened.value
    expect(explained.get_by_role("heading", name="web_fetch")).to_be_visible()
    expect(explained.locator(".layers .deciding")).to_contain_text("not in the `coding` profile")
    expect(explained.get_by_text("openai/gpt-5")).to_be_visible()


def test_regular_user_gets_no_policy_link_or_page(
    page: Page, site: str, gateway: FakeGateway, user: User, make_session: Any
) -> None:
    call = create_tool_call(user, make_session(user), name="web_fetch", run_id="r1")
    gateway.answers["chat.history"] = lambda params: gateway.history(refused_messages())
    sign_in(page, site, user)
    open_page(page, site)
    expect(page.locator(".tool .verdict")).to_have_text("denied by policy layer profile")
    expect(page.locator(".tool .explain")).to_be_hidden()
    answer = page.goto(f"{site}/policies/calls/{call.pk}/")
    assert answer and answer.status == 404
    answer = page.goto(f"{site}/policies/")
    assert answer and answer.status == 403
    expect(page.get_by_role("heading", name="You don’t have access to this page")).to_be_visible()
    user.groups.add(Group.objects.get(name="Auditor"))
    page.goto(f"{site}/policies/")
    expect(page.get_by_role("heading", name="Tool access explained")).to_be_visible()


def test_phone_tool_row_expands_to_layers(browser: Browser, site: str, olga: User) -> None:
    context = browser.new_context(**PHONE)
    try:
        page = context.new_page()
        sign_in(page, site, olga)
        for address in ("/policies/?scope=agent&for_agent=main", "/policies/history/", "/policies/tests/new/", "/policies/"):
            page.goto(site + address)
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, f"{address} scrolls sideways"
        expect(page.locator(".matrix")).to_be_hidden()
        fold = page.locator(".tool-fold", has_text="web_fetch")
        fold.locator("summary").click()
        expect(fold.locator(".layers li")).to_have_count(10)
        expect(fold.locator(".deciding")).to_contain_text("not in the")
        fold.get_by_role("link", name=re.compile(r"Edit rule\s*: agent main")).first.click()
        expect(page.get_by_label("Profile")).to_have_value("coding")
    finally:
        context.close()


def test_policy_pages_work_without_javascript(browser: Browser, site: str, olga: User) -> None:
    context = browser.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        sign_in(page, site, olga)
        page.goto(f"{site}/policies/")
        page.get_by_label("Agent", exact=True).first.fill("scout")
        page.get_by_role("button", name="Explain").click()
        expect(row(page, "read")).to_contain_text("denied")
        page.goto(f"{site}/policies/?agent=scout&scope=agent")
        page.get_by_label("Profile").select_option("coding")
        page.get_by_role("button", name="Explain").click()
        expect(row(page, "read")).to_contain_text("was denied → would be allowed")
        before = policies.current_rules().version
        page.get_by_role("button", name="Save rule").click()
        expect(page.get_by_text(f"Saved. This is policy version {before + 1}.")).to_be_visible()
    finally:
        context.close()
    assert policies.current_rules().row("agent", "scout").profile == "coding"


def test_unreachable_server_is_reported(explain: Callable[..., Page]) -> None:
    page = explain()

    def fail(route: Route) -> None:
        route.abort()

    page.route("**/policies/?*", fail)
    page.get_by_label("as a subagent").check()
    expect(page.locator("#lost")).to_be_visible()
    page.unroute("**/policies/?*")
    page.get_by_label("as a subagent").uncheck()
    expect(page.locator("#lost")).to_be_hidden()


def test_markup_in_names_is_escaped(explain: Callable[..., Page], olga: User, make_session: Any) -> None:
    policies.save_policy(scope="group", channel="telegram", group=NASTY, sender=NASTY, deny=["exec"])
    call = create_tool_call(olga, make_session(olga), name="exec", channel="telegram", group=NASTY)
    page = explain("/policies/?channel=telegram&scope=group&for_channel=telegram")
    page.get_by_label("Sender", exact=True).fill(NASTY)
    page.get_by_label("Group", exact=True).first.fill(NASTY)
    expect(cell(page, "exec", "group")).to_have_class(re.compile("deciding"))
    page.locator("#d-deny").fill(NASTY)
    expect(page.locator("#said-deny")).to_contain_text("<img")
    for address in ("/policies/history/", "/policies/history/2/", f"/policies/calls/{call.pk}/"):
        assert page.evaluate("window.owned") is None
        explain(address)
    expect(page.get_by_text("onerror").first).to_be_visible()
    assert page.evaluate("window.owned") is None
    assert page.locator("img[src=x]").count() == 0
