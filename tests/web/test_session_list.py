"""The chat list with a fake gateway: groups, marks, search, names, pins, undo, keys."""

import pytest
from playwright.sync_api import Locator, Page, expect

from clawsite.accounts.models import User
from tests.web.chat_page import open_page, sign_in
from tests.web.fake_gateway import KEY, Refused
from tests.web.fake_sessions import DAY, HOUR, FakeSessions, row


@pytest.fixture
def gateway(page: Page) -> FakeSessions:
    return FakeSessions(page)


@pytest.fixture
def chat(page: Page, gateway: FakeSessions, site: str, user: User) -> Page:
    sign_in(page, site, user)
    return page


def item(page: Page, title: str) -> Locator:
    return page.locator("#session-list li").filter(has_text=title)


def titles(page: Page) -> list[str]:
    return page.locator("#session-list .name").all_inner_texts()


def choose(page: Page, title: str, act: str) -> None:
    item(page, title).hover()
    item(page, title).get_by_role("button", name="Actions").click()
    page.get_by_role("menuitem", name=act).click()


def test_conversations_are_grouped_by_last_use(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.rows += [row("a", "Held", age=9 * DAY, pinned=True), row("b", "Last one", age=DAY), row("c", "Week", age=4 * DAY)]
    gateway.rows += [row("d", "Long ago", age=40 * DAY)]
    open_page(chat, site)
    expect(item(chat, "Held")).to_be_visible()
    headings = chat.locator("#session-list section:not([hidden]) h2").all_inner_texts()
    assert headings == ["Pinned", "Today", "Yesterday", "Last 7 days", "Older"]
    assert titles(chat) == ["Held", "Main talk", "Last one", "Week", "Long ago"]


def test_rows_show_session_status(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.rows += [row("run", status="running"), row("ask", status="waiting", waitingFor="approval")]
    gateway.rows += [row("queue", status="queued"), row("news", unread=True), row("quiet")]
    open_page(chat, site)
    marks = {"run": "Running", "ask": "Needs approval", "queue": "Queued", "news": "New"}
    for name, words in marks.items():
        expect(item(chat, name).locator(".mark .text")).to_have_text(words)
    expect(item(chat, "quiet").locator(".mark")).to_be_hidden()


def test_status_of_other_conversations_updates_live(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.rows.append(row("other", "Elsewhere", age=HOUR))
    open_page(chat, site)
    element = item(chat, "Elsewhere").element_handle()
    gateway.answers["sessions.list"] = None  # without loading the list
    gateway.phase("agent:main:other", "accepted", prompt="x")
    expect(item(chat, "Elsewhere").locator(".mark")).to_contain_text("Queued")
    gateway.phase("agent:main:other", "start")
    expect(item(chat, "Elsewhere").locator(".mark")).to_contain_text("Running")
    gateway.phase("agent:main:other", "end", aborted=False)
    expect(item(chat, "Elsewhere").locator(".mark")).to_contain_text("New")
    assert element.evaluate("e => e.isConnected")  # always the same element


def test_five_hundred_conversations_are_paged(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.rows += [row(f"n{n:03}", age=n * HOUR) for n in range(1, 500)]
    open_page(chat, site)
    rows = chat.locator("#session-list li")
    expect(rows.nth(49)).to_be_attached()
    chat.evaluate("window.first = document.querySelector('#session-list li')")
    for _ in range(60):
        if rows.count() == 500:
            break
        chat.locator("#sessions .scroller").evaluate("e => { e.scrollTop = e.scrollHeight }")
        chat.wait_for_timeout(50)
    assert rows.count() == 500
    assert chat.evaluate("window.first === document.querySelector('#session-list li')")
    assert all(params["limit"] == 50 for params in gateway.calls("sessions.list") if "spawnedBy" not in params)
    expect(chat.get_by_role("button", name="Show more")).to_be_hidden()


def test_unloaded_conversation_opens_by_url(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.rows += [row(f"n{n:03}", age=n * HOUR) for n in range(1, 200)]
    chat.goto(f"{site}/#agent:main:n180")
    expect(chat.locator("#title")).to_have_text("n180")
    expect(item(chat, "n180").get_by_role("link")).to_have_attribute("aria-current", "page")


def test_rename_is_shown_immediately_and_saved(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.rows.append(row("trip", "Trip"))
    open_page(chat, site)
    choose(chat, "Trip", "Rename")
    field = chat.get_by_label("Chat name")
    expect(field).to_have_value("Trip")
    field.fill("Trip to Lyon")
    field.press("Enter")
    expect(item(chat, "Trip to Lyon")).to_be_visible()
    assert gateway.wait_for_calls("sessions.patch") == [{"key": "agent:main:trip", "title": "Trip to Lyon"}]
    expect(item(chat, "Trip to Lyon").get_by_role("link")).to_be_focused()


def test_rejected_rename_is_reverted_with_reason(chat: Page, gateway: FakeSessions, site: str) -> None:
    def refuse(params: dict[str, str]) -> dict[str, str]:
        raise Refused("INVALID_REQUEST", "only its owner may change this session")

    gateway.rows.append(row("trip", "Trip"))
    gateway.answers["sessions.patch"] = refuse
    open_page(chat, site)
    item(chat, "Trip").get_by_role("link").focus()
    chat.keyboard.press("F2")
    chat.keyboard.type("Other")
    chat.keyboard.press("Enter")
    expect(chat.get_by_role("alert")).to_contain_text("only its owner")
    expect(item(chat, "Trip")).to_be_visible()


def test_escape_cancels_rename(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.rows.append(row("trip", "Trip"))
    open_page(chat, site)
    item(chat, "Trip").get_by_role("link").focus()
    chat.keyboard.press("F2")
    chat.keyboard.type("Other")
    chat.keyboard.press("Escape")
    expect(item(chat, "Trip").get_by_role("link")).to_be_focused()
    assert gateway.calls("sessions.patch") == []


def test_pinned_conversations_are_listed_first(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.rows += [row("a", "First", age=HOUR), row("b", "Second", age=2 * HOUR)]
    open_page(chat, site)
    choose(chat, "Second", "Pin")
    expect(chat.locator("#session-list .name").first).to_have_text("Second")
    assert gateway.wait_for_calls("sessions.patch") == [{"key": "agent:main:b", "pinned": True}]
    choose(chat, "Second", "Unpin")
    expect(chat.locator("#session-list .name").last).to_have_text("Second")


def test_archived_conversations_have_their_own_list(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.rows.append(row("old", "Done with", age=HOUR))
    open_page(chat, site)
    choose(chat, "Done with", "Archive")
    expect(item(chat, "Done with")).to_have_count(0)
    chat.get_by_role("button", name="Archived").click()
    expect(item(chat, "Done with")).to_be_visible()
    choose(chat, "Done with", "Unarchive")
    expect(chat.get_by_text("No archived chats.")).to_be_visible()
    chat.get_by_role("button", name="Back").click()
    expect(item(chat, "Done with")).to_be_visible()


def test_deleted_conversation_can_be_restored(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.rows.append(row("trip", "Trip", age=HOUR))
    open_page(chat, site)
    item(chat, "Trip").get_by_role("link").click()
    expect(chat.locator("#title")).to_have_text("Trip")
    choose(chat, "Trip", "Delete")
    expect(item(chat, "Trip")).to_have_count(0)
    expect(chat.locator("#title")).to_have_text("Main talk")
    expect(chat.locator("#toast")).to_contain_text("Deleted: Trip")
    chat.get_by_role("button", name="Undo").click()
    expect(item(chat, "Trip")).to_be_visible()
    expect(chat.locator("#title")).to_have_text("Trip")
    assert gateway.calls("sessions.restore") == [{"sessionId": "g-trip"}]


def test_main_conversation_is_reset_instead_of_deleted(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.answers["sessions.reset"] = lambda params: {"ok": True}
    open_page(chat, site)
    item(chat, "Main talk").hover()
    item(chat, "Main talk").get_by_role("button", name="Actions").click()
    expect(chat.get_by_role("menuitem", name="Delete")).to_be_hidden()
    chat.get_by_role("menuitem", name="Reset").click()
    chat.get_by_role("button", name="Cancel").click()
    assert gateway.calls("sessions.reset") == []
    choose(chat, "Main talk", "Reset")
    chat.get_by_role("dialog").get_by_role("button", name="Reset").click()
    assert gateway.wait_for_calls("sessions.reset")[0]["key"] == KEY


@pytest.mark.parametrize("age", [2 * HOUR, 3 * DAY], ids=["in one group", "alone in its group"])
def test_list_works_by_keyboard(chat: Page, gateway: FakeSessions, site: str, age: int) -> None:
    gateway.rows += [row("a", "Alpha", age=HOUR), row("b", "Beta", age=age)]
    open_page(chat, site)
    item(chat, "Main talk").get_by_role("link").focus()
    chat.keyboard.press("ArrowDown")
    expect(item(chat, "Alpha").get_by_role("link")).to_be_focused()
    chat.keyboard.press("End")
    expect(item(chat, "Beta").get_by_role("link")).to_be_focused()
    assert chat.locator("#session-list li > a[tabindex='0']").count() == 1  # a single tab stop
    chat.keyboard.press("ArrowRight")
    more = item(chat, "Beta").get_by_role("button", name="Actions")
    expect(more).to_be_focused()
    chat.keyboard.press("Enter")
    expect(more).to_have_attribute("aria-expanded", "true")
    expect(chat.get_by_role("menuitem", name="Rename")).to_be_focused()
    chat.keyboard.press("ArrowDown")
    expect(chat.get_by_role("menuitem", name="Pin")).to_be_focused()
    chat.keyboard.press("Escape")
    expect(more).to_be_focused()
    chat.keyboard.press("ArrowLeft")
    chat.keyboard.press("Delete")
    expect(item(chat, "Beta")).to_have_count(0)
    expect(item(chat, "Alpha").get_by_role("link")).to_be_focused()
    chat.keyboard.press("Alt+ArrowDown")
    expect(chat.locator("#title")).to_have_text("Alpha")
    chat.keyboard.press("Alt+ArrowUp")
    expect(chat.locator("#title")).to_have_text("Main talk")


def test_search_finds_and_opens_messages(chat: Page, gateway: FakeSessions, site: str) -> None:
    found = {"sessionKey": KEY, "sessionId": "g1", "title": "Main talk", "role": "assistant", "timestamp": 1}
    hits = [
        {**found, "messageId": "m7", "snippet": "…the <b>garden</b> shed", "matches": [[8, 14]]},
        {
            **found,
            "messageId": None,
            "role": None,
            "snippet": "Garden tools",
            "matches": [[0, 6]],
            "sessionKey": "agent:main:tools",
        },
    ]
    gateway.answers["sessions.search"] = lambda params: {"results": hits}
    open_page(chat, site)
    chat.get_by_label("Search all chats").fill("garden")
    expect(chat.locator("#found-note")).to_have_text("2 results")
    expect(chat.locator("#found-list .snippet").first).to_have_text("…the <b>garden</b> shed")  # text, not markup
    expect(chat.locator("#found-list mark")).to_have_text(["garden", "Garden"])
    links = chat.locator("#found-list a")
    assert [link.get_attribute("href") for link in links.all()] == ["#agent%3Amain%3Amain/m7", "#agent%3Amain%3Atools"]
    chat.keyboard.press("ArrowDown")
    expect(links.first).to_be_focused()
    chat.keyboard.press("Escape")
    expect(chat.locator("#found")).to_be_hidden()
    expect(item(chat, "Main talk")).to_be_visible()


def test_stale_search_response_is_ignored(chat: Page, gateway: FakeSessions, site: str) -> None:
    hit = {"sessionKey": KEY, "title": "T", "messageId": "m", "role": "user", "matches": [], "timestamp": 1}
    gateway.answers["sessions.search"] = None
    open_page(chat, site)
    field = chat.get_by_label("Search all chats")
    field.fill("old")
    gateway.wait_for_calls("sessions.search")
    gateway.answers["sessions.search"] = lambda params: {"results": [{**hit, "snippet": params["query"]}]}
    field.fill("new")
    expect(chat.locator("#found-list .snippet")).to_have_text(["new"])
    gateway.answers["sessions.search"] = lambda params: {"results": []}
    field.fill("nowhere")
    expect(chat.locator("#found-note")).to_have_text("Nothing found")


def test_new_chat_offers_choice_of_agents(chat: Page, gateway: FakeSessions, site: str) -> None:
    agents = [{"id": "main", "name": "Main", "model": None}, {"id": "research", "name": "Research", "model": {"primary": "demo/x"}}]
    gateway.answers["agents.list"] = lambda params: {"defaultId": "main", "agents": agents}
    open_page(chat, site)
    chat.get_by_role("button", name="Choose an agent").click()
    chat.get_by_role("menuitem", name="Research").click()
    expect(chat.locator("#title")).to_have_text("New chat")
    expect(chat.locator("#session-list li").filter(has=chat.locator("[aria-current]")).locator(".agent")).to_have_text("Research")
    assert "agent%3Aresearch%3Aweb-" in chat.url


def test_single_agent_hides_the_agent_picker(chat: Page, gateway: FakeSessions, site: str) -> None:
    open_page(chat, site)
    expect(item(chat, "Main talk")).to_be_visible()
    expect(chat.locator("#choose-agent")).to_be_hidden()


def test_opened_conversation_is_marked_read(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.rows.append(row("news", "News", unread=True))
    open_page(chat, site)
    assert gateway.wait_for_calls("sessions.read") == [{"key": KEY}]
    item(chat, "News").get_by_role("link").click()
    assert gateway.wait_for_calls("sessions.read", 2)[1] == {"key": "agent:main:news"}
    expect(item(chat, "News").locator(".mark")).to_be_hidden()


def test_read_only_user_gets_no_edit_actions(chat: Page, gateway: FakeSessions, site: str) -> None:
    gateway.scopes = ["operator.read"]
    open_page(chat, site)
    item(chat, "Main talk").hover()
    item(chat, "Main talk").get_by_role("button", name="Actions").click()
    expect(chat.locator("#session-menu [role=menuitem]:visible")).to_have_text(["Copy link"])
    assert gateway.calls("sessions.read") == []


def test_list_is_a_drawer_on_phone(chat: Page, gateway: FakeSessions, site: str) -> None:
    chat.set_viewport_size({"width": 390, "height": 844})
    gateway.rows.append(row("trip", "Trip", age=HOUR))
    open_page(chat, site)
    chat.get_by_role("button", name="Chats").click()
    choose(chat, "Trip", "Rename")
    expect(chat.get_by_label("Chat name")).to_be_focused()
    chat.keyboard.press("Escape")
    chat.mouse.click(380, 400)  # next to it
    expect(chat.get_by_role("navigation")).to_be_hidden()
    chat.get_by_role("button", name="Chats").click()
    item(chat, "Trip").get_by_role("link").click()
    expect(chat.get_by_role("navigation")).to_be_hidden()
    expect(chat.locator("#title")).to_have_text("Trip")
    assert chat.evaluate("document.documentElement.scrollWidth <= innerWidth")
