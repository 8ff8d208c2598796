"""A shared chat in the browsers of two members, with a running installation."""

import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from clawsite.accounts.models import User
from sessions_app.models import Session, SessionMember
from sessions_app.sessions.members import share
from tests.harness.stack import Stack
from tests.web.axe import check_accessibility
from tests.web.chat_page import answer_texts, answers, send, user_messages
from tests.web.sample_data import TIMEOUT_MS, long_timeout

pytestmark = pytest.mark.dialect

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
COPIED = "async key => decodeURIComponent(await navigator.clipboard.readText()).endsWith('#' + key)"
numbers = count(1)

Open = Callable[..., Page]


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    with long_timeout():
        yield


@pytest.fixture
def ada(make_user: Any) -> User:
    return named(make_user, "ada", "Ada Lovelace")


@pytest.fixture
def bert(make_user: Any) -> User:
    return named(make_user, "bert", "")


def named(make_user: Any, name: str, display_name: str) -> User:
    user: User = make_user(name=f"{name}-{next(numbers)}")
    user.display_name = display_name
    user.save(update_fields=["display_name"])
    return user


@pytest.fixture
def opened(live: Stack, browser: Browser) -> Iterator[Open]:
    """Open the page as a user in a separate browser: opened(ada, key)."""
    contexts = []

    def open_page(user: User, key: str = "", **size: Any) -> Page:
        context = browser.new_context(**size)
        context.set_default_timeout(TIMEOUT_MS)
        contexts.append(context)
        page = context.new_page()
        live.sign_in(page, user)
        page.goto(f"{live.url}/#{key}")
        expect(page.locator("#connection")).to_have_attribute("data-state", "ready")
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def plan(make_session: Any, ada: User) -> Session:
    """An empty chat of Ada's."""
    session: Session = make_session(ada, "agent:main:plan")
    session.title = "The plan"
    session.save(update_fields=["title"])
    return session


def shared(session: Session) -> str:
    return f"session:{session.id}"


def item(page: Page, title: str) -> Locator:
    return page.locator("#session-list li").filter(has_text=title)


def people(page: Page) -> Locator:
    if not page.locator("#people").is_visible():
        page.get_by_role("button", name="Details").click()
    return page.get_by_role("region", name="People")


def let(page: Page, user: User, role: str | None) -> None:
    """Change access as the owner does: members who have it open are notified."""
    section = people(page)
    known = section.get_by_label(f"Permissions for {user.username}")
    if role is None:
        section.get_by_role("button", name=f"Remove {user.username}").click()
    elif known.is_visible():
        known.select_option(role)
    else:
        if not section.get_by_label("Username").is_visible():
            section.locator("summary").click()
        section.get_by_label("Username").fill(user.username)
        section.get_by_label("Permissions", exact=True).select_option(role)
        section.get_by_role("button", name="Share", exact=True).click()


def ask(page: Page, text: str, answer: str) -> None:
    send(page, text)
    expect(answers(page).last).to_have_text(answer)
    expect(page.locator(".ending[data-state=ended]").last).to_be_attached()


def field(page: Page) -> Locator:
    return page.get_by_label("Message", exact=True)


# Members


def test_owner_shares_and_unshares_conversation(opened: Open, plan: Session, ada: User, bert: User) -> None:
    hers, his = opened(ada, plan.key), opened(bert)
    section = people(hers)
    expect(section).to_contain_text("Only you can see this chat.")
    expect(section.get_by_label("Username")).to_be_hidden()
    section.get_by_text("Share with another user").click()
    expect(section.get_by_label("Username")).to_be_focused()
    hers.keyboard.type("nobody-here")
    hers.keyboard.press("Enter")
    expect(section.get_by_role("alert")).to_have_text("There is no user named “nobody-here”.")
    expect(section.get_by_label("Username")).to_have_attribute("aria-invalid", "true")
    expect(section.get_by_label("Username")).to_be_focused()
    section.get_by_label("Username").fill(ada.username)
    hers.keyboard.press("Enter")
    expect(section.get_by_role("alert")).to_have_text("You already own this chat.")
    section.get_by_label("Username").fill(f"@{bert.username} ")
    section.get_by_role("button", name="Share", exact=True).click()
    expect(section.get_by_role("listitem")).to_have_text([re.compile("Ada Lovelace .you.*Owner", re.S), re.compile(bert.username)])
    expect(section.get_by_role("alert")).to_have_count(0)
    expect(section.get_by_label("Username")).to_have_value("")
    expect(item(his, "The plan").locator(".from")).to_have_text(f"from {ada.username}")
    section.get_by_label(f"Permissions for {bert.username}").select_option("writer")
    expect(hers.locator("#announce")).to_have_text(f"{bert.username} can now write in this chat.")
    assert SessionMember.objects.get(session=plan).role == "writer"
    section.get_by_role("button", name=f"Remove {bert.username}").click()
    expect(item(his, "The plan")).to_have_count(0)
    expect(section).to_contain_text("Only you can see this chat.")
    expect(section.locator("summary")).to_be_focused()
    hers.get_by_role("button", name="Undo").click()
    expect(item(his, "The plan")).to_be_visible()
    assert SessionMember.objects.get(session=plan).role == "writer"


def test_empty_conversation_cannot_be_shared(opened: Open, ada: User) -> None:
    page = opened(ada, "agent:main:not-yet")
    page.get_by_role("button", name="Details").click()
    expect(page.locator("#usage-title")).to_be_visible()
    expect(page.locator("#people")).to_be_hidden()
    ask(page, '[[text="Here"]] hello', "Here")
    expect(page.locator("#people")).to_be_visible()


def test_guest_can_leave_shared_conversation(opened: Open, plan: Session, ada: User, bert: User) -> None:
    share(ada, plan, bert.username, "viewer")
    page = opened(bert, shared(plan))
    section = people(page)
    expect(section.get_by_role("listitem")).to_have_text(
        [re.compile("Ada Lovelace.*Owner", re.S), re.compile("you.*Can read", re.S)]
    )
    expect(section.locator(":is(summary, select, .remove):visible")).to_have_count(0)
    section.get_by_role("button", name="Leave this chat").click()
    page.get_by_role("dialog", name="Leave this chat?").get_by_role("button", name="Cancel").click()
    expect(item(page, "The plan")).to_be_visible()
    section.get_by_role("button", name="Leave this chat").click()
    page.get_by_role("dialog", name="Leave this chat?").get_by_role("button", name="Leave").click()
    expect(item(page, "The plan")).to_have_count(0)
    expect(page.locator("#toast")).to_have_text(re.compile("You left: The plan"))
    expect(page.locator("#trouble")).to_be_hidden()
    assert not SessionMember.objects.filter(session=plan).exists()


def test_guest_has_own_pins_but_cannot_rename(opened: Open, plan: Session, ada: User, bert: User) -> None:
    share(ada, plan, bert.username, "writer")
    page = opened(bert, shared(plan))
    item(page, "The plan").hover()
    item(page, "The plan").get_by_role("button", name="Actions").click()
    choices = page.locator("#session-menu [role=menuitem]:visible")
    expect(choices).to_have_text([re.compile(act) for act in ("Pin", "Archive", "Duplicate", "Copy link", "Leave…")])
    page.get_by_role("menuitem", name="Pin").click()
    expect(page.locator("#session-list section:not([hidden]) h2").first).to_have_text("Pinned")
    item(page, "The plan").get_by_role("link").focus()
    page.keyboard.press("F2")
    expect(page.get_by_label("Chat name")).to_have_count(0)
    page.keyboard.press("Delete")
    expect(page.get_by_role("dialog", name="Leave this chat?")).to_be_visible()
    page.keyboard.press("Escape")
    people(page)
    expect(page.locator("#model")).to_be_disabled()
    page.keyboard.press("Control+k")
    page.keyboard.type("archive this")
    page.keyboard.press("Enter")
    expect(item(page, "The plan")).to_have_count(0)
    expect(page.locator("#title")).to_have_text("The plan")
    page.reload()
    expect(page.locator("#title")).to_have_text("The plan")


# Messages


def test_participants_see_live_answer_and_its_sender(opened: Open, plan: Session, ada: User, bert: User) -> None:
    share(ada, plan, bert.username, "writer")
    hers, his = opened(ada, plan.key), opened(bert, shared(plan))
    send(his, "[[tokens=40 delay_ms=60]] count")
    for page in (hers, his):
        expect(page.locator(".message.assistant.streaming .answer")).not_to_be_empty()
    expect(hers.get_by_role("heading", name=bert.username)).to_be_visible()
    expect(his.locator(".message.user h2")).to_have_class("hidden")
    expect(hers.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    for page in (hers, his):
        expect(page.locator(".ending[data-state=ended]")).to_be_attached()
    assert answer_texts(hers) == answer_texts(his) != []
    ask(hers, '[[text="Two"]] second', "Two")
    expect(his.locator(".message.user.of-other h2")).to_have_text(ada.username)
    expect(answers(his).last).to_have_text("Two")
    assert user_messages(hers) == user_messages(his)
    for page, other in ((hers, bert), (his, ada)):  # the same from the history
        page.reload()
        expect(answers(page)).to_have_count(2)
        expect(page.locator(".message.user.of-other .author")).to_have_text(other.username)
        expect(page.get_by_role("button", name="Regenerate")).to_have_count(1)  # answers to the user's own messages
        expect(page.get_by_role("button", name="Edit and resend")).to_have_count(1)


def test_queued_message_can_be_removed_only_by_author(opened: Open, plan: Session, ada: User, bert: User) -> None:
    share(ada, plan, bert.username, "writer")
    hers, his = opened(ada, plan.key), opened(bert, shared(plan))
    send(hers, "[[hang]] work")
    expect(his.locator(".message.user.of-other")).to_have_count(1)
    send(his, "and then this")
    expect(his.locator("#queue li")).to_contain_text("and then this")
    expect(hers.locator("#queue li .text")).to_have_text(f"{bert.username}: and then this")
    expect(hers.locator("#queue button:visible")).to_have_count(0)
    hers.reload()
    expect(hers.locator("#queue li .text")).to_have_text(f"{bert.username}: and then this")
    his.locator("#queue").get_by_role("button", name="Remove").click()
    for page in (hers, his):
        expect(page.locator("#queue li")).to_have_count(0)
    hers.get_by_role("button", name="Stop", exact=True).click()
    expect(his.locator(".ending")).to_contain_text("Stopped")


def test_viewer_is_read_only_until_granted_write_access(opened: Open, plan: Session, ada: User, bert: User) -> None:
    share(ada, plan, bert.username, "viewer")
    hers, his = opened(ada, plan.key), opened(bert, shared(plan))
    expect(his.locator("#composer-note")).to_have_text("You can read this chat but can’t write in it. Ask Ada Lovelace for access.")
    expect(field(his)).to_be_hidden()
    expect(his.locator(".examples")).to_be_hidden()
    ask(hers, '[[text="One"]] first', "One")
    expect(answers(his)).to_have_text("One")
    expect(his.locator('[data-act="edit"]:visible, [data-act="retry"]:visible, #send:visible, #stop:visible')).to_have_count(0)
    let(hers, bert, "writer")
    expect(field(his)).to_be_enabled()
    field(his).fill("half a thought")
    let(hers, bert, "viewer")
    expect(field(his)).to_be_disabled()
    expect(field(his)).to_have_value("half a thought")
    expect(his.locator("#composer-note")).to_contain_text("Ask Ada Lovelace for access.")
    his.reload()
    expect(his.locator("#composer.viewing")).to_be_visible()
    let(hers, bert, "writer")
    expect(field(his)).to_have_value("half a thought")  # drafts are kept for this chat too
    ask(his, '[[text="Two"]] second', "Two")
    his.get_by_role("button", name="New chat", exact=True).click()
    expect(field(his)).to_be_focused()


def test_viewer_can_continue_in_a_fork(opened: Open, plan: Session, ada: User, bert: User) -> None:
    share(ada, plan, bert.username, "viewer")
    hers, his = opened(ada, plan.key), opened(bert, shared(plan))
    ask(hers, '[[text="One"]] first', "One")
    expect(answers(his)).to_have_text("One")
    his.locator(".message.assistant").get_by_role("button", name="Fork from here").click()
    expect(his.locator("#toast")).to_contain_text("This is a copy.")
    ask(his, '[[text="Mine"]] on', "Mine")
    expect(answers(hers)).to_have_text(["One"])


def test_unsharing_closes_the_guests_open_conversation(opened: Open, plan: Session, ada: User, bert: User) -> None:
    share(ada, plan, bert.username, "writer")
    hers, his = opened(ada, plan.key), opened(bert, shared(plan))
    ask(hers, '[[text="Secret"]] tell', "Secret")
    expect(answers(his)).to_have_text("Secret")
    let(hers, bert, None)
    expect(his.get_by_role("heading", name="This chat is not shared with you")).to_be_visible()
    expect(his.locator(".message")).to_have_count(0)
    expect(item(his, "The plan")).to_have_count(0)
    expect(field(his)).to_be_hidden()
    let(hers, bert, "writer")
    expect(answers(his)).to_have_text("Secret")
    expect(field(his)).to_be_enabled()
    let(hers, bert, None)
    his.get_by_role("button", name="Go to main chat").click()
    expect(field(his)).to_be_enabled()
    his.goto(f"{his.url.partition('#')[0]}#{shared(plan)}")
    expect(his.get_by_role("heading", name="This chat is not shared with you")).to_be_visible()


def test_delete_and_restore_apply_to_all_participants(opened: Open, plan: Session, ada: User, bert: User) -> None:
    share(ada, plan, bert.username, "writer")
    hers, his = opened(ada, plan.key), opened(bert, shared(plan))
    ask(hers, '[[text="One"]] first', "One")
    expect(answers(his)).to_have_text("One")
    item(hers, "The plan").get_by_role("link").focus()
    hers.keyboard.press("Delete")
    expect(his.get_by_role("heading", name="This chat was deleted")).to_be_visible()
    expect(his.get_by_role("button", name="Restore")).to_have_count(0)
    hers.get_by_role("button", name="Undo").click()
    expect(answers(his)).to_have_text("One")
    expect(item(his, "The plan")).to_be_visible()


def test_each_user_keeps_own_main_conversation(opened: Open, ada: User, bert: User) -> None:
    hers, his = opened(ada, "agent:main:main"), opened(bert, "agent:main:main")
    ask(hers, '[[text="For Ada"]] a question of Ada', "For Ada")
    ask(his, '[[text="For Bert"]] a question of Bert', "For Bert")
    let(hers, bert, "writer")
    expect(item(his, "question of Ada")).to_be_visible()
    expect(item(his, "question of Bert")).to_be_visible()
    ask(hers, '[[text="Again for Ada"]] more', "Again for Ada")
    expect(item(his, "question of Ada").locator(".mark")).to_have_text("New")
    expect(answers(his)).to_have_text(["For Bert"])
    item(his, "question of Ada").get_by_role("link").click()
    expect(answers(his)).to_have_text(["For Ada", "Again for Ada"])
    expect(item(his, "question of Ada").locator(".mark")).to_be_hidden()
    expect(his.locator("#title")).to_have_text(re.compile("question of Ada"))
    ask(his, '[[text="Together"]] both', "Together")
    expect(answers(hers).last).to_have_text("Together")
    his.get_by_label("Search all chats").fill("Again Ada")
    his.locator("#found-list a").first.click()
    expect(his.locator(".message.assistant.pointed-at")).to_contain_text("Again for Ada")


def test_message_link_works_for_all_participants(opened: Open, plan: Session, ada: User, bert: User) -> None:
    share(ada, plan, bert.username, "viewer")
    hers = opened(ada, plan.key)
    ask(hers, '[[text="One"]] first', "One")
    message = hers.locator(".message.assistant").get_attribute("data-message-id")
    for user, key in ((ada, plan.key), (bert, shared(plan))):
        page = opened(user, f"{shared(plan)}/{message}")
        expect(page.locator(".message.assistant.pointed-at")).to_contain_text("One")
        expect(page.locator("#title")).to_have_text("The plan")
        page.wait_for_function("key => decodeURIComponent(location.hash.split('/')[0]) === '#' + key", arg=key)
    hers.context.grant_permissions(["clipboard-read", "clipboard-write"])
    item(hers, "The plan").hover()
    item(hers, "The plan").get_by_role("button", name="Actions").click()
    hers.get_by_role("menuitem", name="Copy link").click()
    hers.wait_for_function(COPIED, arg=shared(plan))


# Layout


@pytest.mark.parametrize("size", [{"viewport": {"width": 1280, "height": 860}}, PHONE], ids=["desk", "phone"])
def test_shared_conversation_is_accessible(opened: Open, plan: Session, ada: User, bert: User, size: dict[str, Any]) -> None:
    share(ada, plan, bert.username, "viewer")
    hers, his = opened(ada, plan.key, **size), opened(bert, shared(plan), **size)
    field(hers).fill('[[text="One"]] first')
    hers.locator("#send").click()
    faults: list[str] = []
    for page in (hers, his):
        expect(answers(page)).to_have_text("One")
        expect(page.locator(".message.streaming")).to_have_count(0)
        check_accessibility(page, "the shared conversation", faults)
        people(page)
        if page is hers:
            page.locator("#people-add summary").click()
            page.get_by_label("Username").fill("nobody")
            page.get_by_role("button", name="Share", exact=True).click()
            expect(page.get_by_role("alert").filter(has_text="nobody")).to_be_visible()
        check_accessibility(page, "the people", faults)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not faults, "\n".join(faults)
