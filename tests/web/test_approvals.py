"""Approvals in a real browser: decisions by mouse and keyboard, bulk decisions, two approvers at a time, and hostile text."""

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from clawsite.accounts.models import User
from clawsite.infra import clock
from sessions_app.models import Session
from tests.harness.approvals import create_approval
from tests.web import axe
from tests.web.chat_page import open_page, sign_in, start_run, stored_message
from tests.web.fake_gateway import KEY, FakeGateway
from tools_app.approvals import requests as approval_requests
from tools_app.models import Approval, ExecRule, Grant

pytestmark = pytest.mark.usefixtures("database", "patience")

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
# Links in the top bar and the tabs that are not completely visible in their container and the window.
CUT_OFF = """[...document.querySelectorAll("nav a")].filter((link) => {
  const [mine, nav] = [link, link.closest("nav")].map((each) => each.getBoundingClientRect());
  return mine.width && (mine.right > Math.min(nav.right, innerWidth) + 1 || mine.left < Math.max(nav.left, 0) - 1);
}).map((link) => link.textContent)"""
HOSTILE = (
    'echo \u202egnp.exe \u200bx\x07 "><img src=x onerror="window.owned=1"><script>window.owned=1</script> \u0440wd\nrm -rf /tmp/x'
)


@pytest.fixture
def ben(make_user: Callable[..., User]) -> User:
    return make_user("Approver", name="ben")


@pytest.fixture
def ask(ada: User, make_session: Callable[..., Session]) -> Callable[..., Approval]:
    return lambda *words, **more: create_approval(ada, make_session(ada), *words, **more)


@pytest.fixture
def queue(page: Page, site: str, ben: User) -> Callable[..., Page]:
    """Open one of the pages, signed in as an approver."""
    sign_in(page, site, ben)

    def opened(address: str = "/approvals/") -> Page:
        page.goto(site + address)
        return page

    return opened


def card(page: Page, question: Approval) -> Locator:
    return page.locator(f"#q-{question.pk}")


def status_of(question: Approval) -> str:
    return Approval.objects.get(pk=question.pk).status


def in_view(page: Page, question: Approval) -> Locator:
    """Return the card after its command has been displayed."""
    shown = card(page, question)
    shown.locator(".command").scroll_into_view_if_needed()
    expect(shown.get_by_role("button", name="Approve once")).to_be_enabled()
    return shown


def test_approved_request_names_its_approver(queue: Callable[..., Page], ask: Callable[..., Approval]) -> None:
    question = ask("git status --short")
    page = queue()
    shown = in_view(page, question)
    expect(shown.locator(".part.program")).to_have_text("git")
    expect(shown).to_contain_text("git (/usr/bin/git) is not on the allowlist")
    expect(shown).to_contain_text("/usr/bin/git")
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    shown.get_by_role("button", name="Approve once").click()
    expect(card(page, question)).to_contain_text("ben approved it once")
    expect(card(page, question).get_by_role("button", name="Approve once")).to_have_count(0)
    assert status_of(question) == "approved"
    expect(page.locator("#queue-count")).to_contain_text("0")
    expect(page.locator("[data-open-questions]")).to_be_hidden()


def test_denial_has_reason_and_approval_has_duration(queue: Callable[..., Page], ask: Callable[..., Approval]) -> None:
    first, second = ask(), ask()
    page = queue()
    shown = in_view(page, first)
    shown.locator("summary", has_text="Deny…").click()
    shown.get_by_label("Reason (the agent will see this)").fill("Use a branch")
    shown.get_by_label("Reason (the agent will see this)").press("Enter")
    expect(card(page, first)).to_contain_text("ben denied it")
    assert Approval.objects.get(pk=first.pk).reason == "Use a branch"
    shown = in_view(page, second)
    shown.locator("summary", has_text="Approve for…").click()
    shown.get_by_label("Number of uses", exact=True).fill("3")
    shown.get_by_label(re.compile("in all chats")).check()
    shown.get_by_role("button", name="Approve", exact=True).click()
    expect(card(page, second)).to_contain_text(
        "ben approved it once, plus 3 more times within 8 hours, for this agent, in all chats"
    )
    grant = Grant.objects.get()
    assert (grant.scope, grant.uses_left) == ("agent", 3)


def test_long_command_must_be_fully_viewed_before_approval(queue: Callable[..., Page], ask: Callable[..., Approval]) -> None:
    question = ask("python3 - <<'EOF'\n" + "\n".join(f"print({n})" for n in range(200)) + "\nEOF")
    page = queue()
    shown = card(page, question)
    shown.locator(".command").scroll_into_view_if_needed()
    approve = shown.get_by_role("button", name="Approve once")
    expect(shown.locator(".unread")).to_be_visible()
    expect(approve).to_be_disabled()
    expect(shown.locator("summary", has_text="Deny…")).not_to_have_attribute("aria-disabled", "true")
    shown.locator("summary", has_text="Approve for…").click()
    expect(shown.get_by_role("button", name="Approve", exact=True)).to_be_hidden()
    shown.focus()
    page.keyboard.press("a")
    assert status_of(question) == "pending"
    shown.locator(".command").evaluate("box => box.scrollTo(0, box.scrollHeight)")
    expect(approve).to_be_enabled()
    expect(shown.locator(".unread")).to_be_hidden()


def test_unviewed_command_is_approvable_without_guard_script(
    queue: Callable[..., Page], ask: Callable[..., Approval], page: Page
) -> None:
    """Deliberate fault for L2: the test above would fail."""
    careless = "export function holdUntilRead() {}"
    page.route("**/approvals/read_gate.js", lambda route: route.fulfill(body=careless, content_type="text/javascript"))
    question = ask("python3 - <<'EOF'\n" + "\n".join(f"print({n})" for n in range(200)) + "\nEOF")
    shown = card(queue(), question)
    shown.focus()
    expect(shown.get_by_role("button", name="Approve once")).to_be_enabled()
    page.keyboard.press("a")
    expect(shown).to_contain_text("ben approved it once")


def test_approval_request_can_be_resolved_without_javascript(
    browser: Browser, site: str, ben: User, ask: Callable[..., Approval]
) -> None:
    question = ask("echo " + "x " * 3000 + "the-end")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    sign_in(page, site, ben)
    page.goto(f"{site}/approvals/")
    box = card(page, question).locator(".command")
    expect(box).to_contain_text("the-end")
    assert box.bounding_box()["height"] > 600  # type: ignore[index]  # not folded: nothing to scroll
    card(page, question).get_by_role("button", name="Approve once").click()
    expect(page.get_by_text("Your decision was saved.")).to_be_visible()
    assert status_of(question) == "approved"
    context.close()


def test_keyboard_shortcuts_navigate_approve_deny_and_extend(queue: Callable[..., Page], ask: Callable[..., Approval]) -> None:
    now = clock.now()
    first, second, third = [
        ask(created_at=now - dt.timedelta(minutes=9 - n), expires_at=now + dt.timedelta(hours=1)) for n in range(3)
    ]
    page = queue()
    page.keyboard.press("a")  # nothing has the focus, so nothing is decided
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(card(page, first)).to_be_focused()
    in_view(page, first)
    page.keyboard.press("a")
    expect(card(page, first)).to_contain_text("ben approved it once")
    expect(card(page, first)).to_be_focused()
    page.keyboard.press("j")
    expect(card(page, second)).to_be_focused()
    page.keyboard.press("d")
    page.keyboard.type("no a d e j k")
    page.keyboard.press("Enter")
    expect(card(page, second)).to_contain_text("ben denied it")
    assert Approval.objects.get(pk=second.pk).reason == "no a d e j k"
    page.keyboard.press("j")
    before = Approval.objects.get(pk=third.pk).expires_at
    page.keyboard.press("e")
    expect(card(page, third)).not_to_have_attribute("data-expires", str(clock.to_ms(before)))
    page.keyboard.press("k")
    expect(card(page, second)).to_be_focused()
    assert [status_of(each) for each in (first, second, third)] == ["approved", "denied", "pending"]


def test_approval_requests_can_be_resolved_in_bulk(queue: Callable[..., Page], ask: Callable[..., Approval]) -> None:
    questions = [ask() for _ in range(3)]
    page = queue()
    for question in questions:
        in_view(page, question)
    for question in questions[:2]:
        card(page, question).get_by_label("Select this request").check()
    expect(page.locator("#chosen-count")).to_have_text("2 selected")
    page.locator("#several").get_by_role("button", name="Approve once").click()
    for question in questions[:2]:
        expect(card(page, question)).to_contain_text("ben approved it once")
    assert [status_of(each) for each in questions] == ["approved", "approved", "pending"]


def test_decision_by_another_approver_appears_live(
    browser: Browser, queue: Callable[..., Page], site: str, make_user: Callable[..., User], ask: Callable[..., Approval]
) -> None:
    question = ask()
    page = queue()
    expect(card(page, question)).to_be_visible()
    context = browser.new_context()
    other = context.new_page()
    sign_in(other, site, make_user("Approver", name="cleo"))
    other.goto(f"{site}/approvals/")
    in_view(other, question).get_by_role("button", name="Approve once").click()
    expect(card(other, question)).to_contain_text("cleo approved it once")
    expect(card(page, question)).to_contain_text(re.compile(r"cleo approved it once\s+(\d+ seconds? ago|now)"))
    later = ask("make test")
    expect(card(page, later)).to_be_visible()
    expect(card(other, later)).to_be_visible()
    assert card(page, later).locator("xpath=preceding-sibling::article").count() == 1  # new requests come last
    context.close()


def test_second_approver_sees_the_earlier_decision(
    queue: Callable[..., Page], make_user: Callable[..., User], ask: Callable[..., Approval]
) -> None:
    question = ask()
    page = queue()
    shown = in_view(page, question)
    shown.locator("summary", has_text="Deny…").click()  # while its menu is open, the card stays unchanged
    approval_requests.resolve_approval(question.pk, by=make_user("Approver", name="cleo"), decision="allow-once")
    page.route("**/approvals/live/**", lambda route: route.abort())
    shown.get_by_role("button", name="Deny", exact=True).click()
    expect(card(page, question).get_by_role("alert")).to_contain_text("cleo has already decided this request")
    expect(card(page, question)).to_contain_text("cleo approved it once")


def test_hostile_text_is_escaped(queue: Callable[..., Page], ask: Callable[..., Approval]) -> None:
    question = ask(HOSTILE, why="</blockquote><script>window.owned=1</script>\u202e Approved by the security team")
    page = queue()
    box = card(page, question).locator(".command code")
    for code in ("⟨U+202E⟩", "⟨U+200B⟩", "⟨U+0007⟩"):
        expect(box).to_contain_text(code)
    expect(box).to_contain_text("<script>window.owned=1</script>")
    expect(card(page, question).locator(".would-run")).not_to_contain_text("security team")
    expect(card(page, question).locator(".agent-says")).to_contain_text("⟨U+202E⟩ Approved by the security team")
    assert page.evaluate("window.owned") is None
    assert card(page, question).locator("img, script").count() == 0
    # The characters are in the order of the line, despite direction marks.
    assert box.evaluate("element => getComputedStyle(element).unicodeBidi") == "bidi-override"


def test_countdown_updates_and_warns(queue: Callable[..., Page], ask: Callable[..., Approval]) -> None:
    now = clock.now()
    question = ask(created_at=now - dt.timedelta(hours=1), expires_at=now + dt.timedelta(minutes=2))
    page = queue()
    expect(card(page, question)).to_have_class(re.compile("urgent"))
    expect(card(page, question).locator("[data-left]")).to_have_text(re.compile(r"^(1 min|\d+ s) left$"))
    card(page, question).get_by_role("button", name="Extend").click()
    expect(card(page, question)).not_to_have_class(re.compile("urgent"))
    expect(card(page, question).locator("[data-left]")).to_have_text(re.compile(r"^1 h \d+ min left$"))


def test_request_can_require_two_approvals(
    browser: Browser, queue: Callable[..., Page], site: str, make_user: Callable[..., User], ask: Callable[..., Approval]
) -> None:
    question = ask(needed=2)
    page = queue()
    in_view(page, question).get_by_role("button", name="Approve once").click()
    expect(card(page, question)).to_contain_text("1 of 2 approvals")
    assert status_of(question) == "pending"
    approval_requests.resolve_approval(question.pk, by=make_user("Approver", name="cleo"), decision="allow-once")
    expect(card(page, question)).to_contain_text("cleo approved it once")


def test_operator_can_enable_command_requests_for_agent(page: Page, site: str, make_user: Callable[..., User]) -> None:
    sign_in(page, site, make_user("Operator", name="olga"))
    page.goto(f"{site}/approvals/")
    page.get_by_role("button", name="Let “main” request commands").click()
    expect(page.get_by_text("Agent main can now request commands.")).to_be_visible()
    expect(page.locator("#let-ask")).to_have_count(0)
    assert ExecRule.objects.get().ask == "on-miss"


def test_command_verdict_updates_while_typing(queue: Callable[..., Page]) -> None:
    page = queue("/approvals/try/")
    page.get_by_label("Security").select_option("allowlist")
    page.get_by_label("Sandbox").select_option("2")
    page.get_by_label("Command line").press_sequentially("ls -la")
    expect(page.locator("#verdict")).to_contain_text("Would need approval")
    expect(page.locator("#verdict .part.program")).to_have_text("ls")
    page.get_by_label("Also treat as allowed (one per line)").fill("ls")
    expect(page.locator("#verdict")).to_contain_text("Would run")
    page.get_by_label("Command line").fill("ls $(id)")
    expect(page.locator("#verdict")).to_contain_text("Would need approval")


# In the chat


@pytest.fixture
def talk(page: Page, gateway: FakeGateway, site: str) -> Callable[[User], Page]:
    def opened(user: User) -> Page:
        sign_in(page, site, user)
        return open_page(page, site)

    return opened


def wait_for_people(gateway: FakeGateway, question: Approval) -> None:
    start_run(gateway)
    told = {"id": str(question.pk), "expiresAt": clock.to_ms(question.expires_at), "needed": 1}
    arguments = {"command": question.plan["line"]}
    gateway.send_event("r1", "tool", phase="waiting", name="exec", toolCallId="c1", args=arguments, approval=told)


def decide(gateway: FakeGateway, **how: Any) -> None:
    gateway.send_event("r1", "tool", phase="decided", name="exec", toolCallId="c1", approval=how)


def test_approver_can_decide_in_the_chat(
    talk: Callable[[User], Page], gateway: FakeGateway, ben: User, ask: Callable[..., Approval]
) -> None:
    question = ask("git status --short")
    page = talk(ben)
    wait_for_people(gateway, question)
    tool = page.locator(".tool")
    expect(tool.locator(".status")).to_have_text("waiting")
    expect(tool.locator(".approval .part.program")).to_have_text("git")
    tool.get_by_role("button", name="Approve once").click()
    expect(tool.locator(".approval")).to_contain_text("ben approved it once")
    assert status_of(question) == "approved"
    decide(gateway, id=str(question.pk), status="approved", decision="allow-once", by="ben", reason="")
    gateway.send_event("r1", "tool", phase="start", name="exec", toolCallId="c1", args={"command": "git status --short"})
    expect(tool.locator(".status")).to_have_text("running")
    expect(tool.locator(".approval")).to_contain_text("Approved once by ben")


def test_non_approver_sees_pending_request_and_can_skip(
    talk: Callable[[User], Page], gateway: FakeGateway, ada: User, ask: Callable[..., Approval]
) -> None:
    question = ask()
    page = talk(ada)
    wait_for_people(gateway, question)
    tool = page.locator(".tool")
    expect(tool.locator(".approval")).to_contain_text(re.compile(r"Waiting for approval · 22 h \d+ min left"))
    expect(tool.get_by_role("button", name="Approve once")).to_have_count(0)
    tool.get_by_role("button", name="Skip this command").click()
    expect(tool.locator(".approval")).to_contain_text("ada skipped it")
    assert status_of(question) == "denied"


def test_denial_by_another_user_appears_in_chat(
    talk: Callable[[User], Page], gateway: FakeGateway, ada: User, ask: Callable[..., Approval]
) -> None:
    question = ask()
    page = talk(ada)
    wait_for_people(gateway, question)
    expect(page.locator(".approval")).to_contain_text("Waiting for approval")
    decide(gateway, id=str(question.pk), status="denied", decision="deny", by="ben", reason="<b>Use a branch</b>")
    expect(page.locator(".approval")).to_contain_text(re.compile(r"Denied by ben .*<b>Use a branch</b>"))
    expect(page.locator(".approval form")).to_have_count(0)


def test_pending_and_resolved_requests_survive_reload(
    page: Page, gateway: FakeGateway, site: str, ben: User, ask: Callable[..., Approval]
) -> None:
    question = ask("make test")
    calls = [{"type": "toolCall", "id": f"c{n}", "name": "exec", "arguments": {"command": "x"}} for n in (1, 2)]
    told = {
        "c1": {
            "id": "0",
            "status": "used",
            "expiresAt": 1,
            "needed": 1,
            "decision": "allow-for",
            "by": "cleo",
            "reason": "",
            "decidedAt": 1,
            "granted": {"grant": 1, "scope": "session", "seconds": 900, "uses": None},
        },
        "c2": {"id": str(question.pk), "status": "pending", "expiresAt": 1, "needed": 1},
    }
    messages = [stored_message("user", "Hi", 1), {**stored_message("assistant", "", 1), "content": calls, "approvals": told}]
    active = {
        "runId": "r1",
        "status": "waiting",
        "waitingFor": "approval",
        "seq": 3,
        "cursor": 0,
        "messageId": None,
        "text": "",
        "thinking": "",
    }
    gateway.answers["chat.history"] = lambda params: gateway.history(messages, activeRun=active)
    sign_in(page, site, ben)
    open_page(page, site)
    expect(page.locator(".tool").nth(0).locator(".approval")).to_contain_text("Approved by cleo for 15 minutes, in this chat")
    expect(page.locator(".tool").nth(1).locator(".status")).to_have_text("waiting")
    expect(page.locator(".tool").nth(1).get_by_role("button", name="Approve once")).to_be_visible()
    expect(page.locator(".ending .note")).to_contain_text("a command needs approval")


def told_call(gateway: FakeGateway, words: str, approval: dict[str, Any] | None = None, **result: Any) -> None:
    """A chat with one exec call and its result."""
    call = {"type": "toolCall", "id": "c1", "name": "exec", "arguments": {"command": "ls"}}
    asking = {**stored_message("assistant", "", 1), "content": [call], **({"approvals": {"c1": approval}} if approval else {})}
    answered = {**stored_message("toolResult", words, 1), "toolCallId": "c1", "toolName": "exec", **result}
    gateway.answers["chat.history"] = lambda params: gateway.history([asking, answered])


@pytest.mark.parametrize("helps", [True, False])
def test_denied_call_links_operator_to_enabling_requests(
    page: Page, gateway: FakeGateway, site: str, make_user: Callable[..., User], helps: bool
) -> None:
    told_call(gateway, "exec_denied: no.", verdict={"allowed": False, "layer": "exec"}, isError=True, letAsk=helps)
    sign_in(page, site, make_user("Operator", "User", name="olga"))
    open_page(page, site)
    expect(page.locator(".tool .verdict")).to_have_text("denied by exec rules")
    link = page.get_by_role("link", name="Let this agent request commands")
    if helps:
        expect(link).to_have_attribute("href", "/approvals/?let=main#let-ask")
    else:
        expect(link).to_have_count(0)


@pytest.mark.parametrize(
    ("allowed", "approval", "verdict"),
    [
        (True, {"status": "used", "decision": "allow-once", "by": "cleo"}, "approved once by cleo"),
        (False, {"status": "denied", "decision": "deny", "by": "cleo", "reason": "not on a Friday"}, "denied by cleo"),
        (False, {"status": "denied", "decision": "drop", "by": "ada"}, "skipped by ada"),
        (False, {"status": "expired", "decision": "", "by": None}, "no decision before the deadline"),
    ],
)
def test_decided_call_names_user_instead_of_layer(
    talk: Callable[[User], Page], gateway: FakeGateway, ada: User, allowed: bool, approval: dict[str, Any], verdict: str
) -> None:
    facts = {"id": "a1", "decidedAt": 1_700_000_000_000, **approval}
    layer = {"allowed": allowed, "layer": "profile" if allowed else "exec"}
    told_call(gateway, "exec_denied: raw words", facts, verdict=layer, isError=not allowed)
    page = talk(ada)
    card = page.locator(".tool")
    expect(card.locator(".verdict")).to_have_text(verdict)
    expect(card.locator(".why")).to_be_hidden()  # the field already has the user's text
    if reason := approval.get("reason"):
        expect(card.locator(".approval q")).to_have_text(reason)
    if allowed:
        card.locator("summary").first.click()
        expect(card.locator(".layers")).to_have_text("Policy: allowed by profile")


SOON = 1_700_000_000_000
GRANT = {"id": 7, "person": "cleo", "scope": "session", "expiresAt": SOON, "usesLeft": None}
MINUTES = {"grant": 7, "scope": "session", "seconds": 900, "uses": None}


@pytest.mark.parametrize(
    ("admission", "verdict", "behind"),
    [
        ({"by": "answer", "decision": "allow-once", "person": "cleo"}, "approved once by cleo", ""),
        ({"by": "answer", "decision": "allow-for", "person": "cleo", "granted": MINUTES}, "approved by cleo for 15 minutes", ""),
        ({"by": "answer", "decision": "allow-always", "person": "cleo", "granted": MINUTES}, "always allowed by cleo", ""),
        (
            {"by": "grant", "grants": [GRANT]},
            r"allowed by a grant from cleo, until .*\d\d:\d\d.*",
            "Grant #7 from cleo: in this chat, until",
        ),
        (
            {"by": "grant", "grants": [{**GRANT, "scope": "agent", "expiresAt": None, "usesLeft": 4}]},
            "allowed by a grant from cleo, 4 uses left",
            "Grant #7 from cleo: for this agent, in all chats, 4 uses left",
        ),
        (
            {"by": "grant", "grants": [{**GRANT, "person": "", "expiresAt": None}, GRANT]},
            "allowed by grant #7, and 1 more",
            "Grant #7: ",
        ),
        ({"by": "rules"}, "allowed by exec rules", ""),
    ],
)
def test_allowed_call_names_admission_and_collapses_layers(
    talk: Callable[[User], Page], gateway: FakeGateway, ada: User, admission: dict[str, Any], verdict: str, behind: str
) -> None:
    told_call(gateway, "made", verdict={"allowed": True, "layer": "profile", "admission": admission})
    page = talk(ada)
    card = page.locator(".tool")
    expect(card.locator(".verdict")).to_have_text(re.compile(f"^{verdict}$"))
    expect(card.locator(".layers")).to_be_hidden()
    card.locator("summary").first.click()
    expect(card.locator(".layers")).to_contain_text(behind)
    expect(card.locator(".layers")).to_contain_text("Policy: allowed by profile")


def test_phone_shows_grant_on_collapsed_call(browser: Browser, site: str, gateway: FakeGateway, ada: User, page: Page) -> None:
    page.set_viewport_size(PHONE["viewport"])
    told_call(gateway, "made", verdict={"allowed": True, "layer": "profile", "admission": {"by": "grant", "grants": [GRANT]}})
    sign_in(page, site, ada)
    open_page(page, site)
    expect(page.locator(".tool .verdict")).to_be_visible()
    assert page.locator(".tool").evaluate(
        "card => card.querySelector('.state').getBoundingClientRect().right <= card.getBoundingClientRect().right"
    )


WITHOUT_SCROLLING = """(card) => {
  const list = document.querySelector("#composer, form:has(#send)").getBoundingClientRect().top;
  return [".left", ".command", "[value=allow-once]", "[value=deny]"].filter((part) => {
    const { top, bottom } = card.querySelector(part).getBoundingClientRect();
    return top < 48 || bottom > list;
  });
}"""


@pytest.mark.parametrize("line", ["git status --short", " && ".join(f"echo {n} && du -sh some/directory/{n}" for n in range(40))])
def test_phone_shows_command_buttons_and_countdown_without_scrolling(
    browser: Browser, page: Page, site: str, gateway: FakeGateway, ben: User, ask: Callable[..., Approval], line: str
) -> None:
    page.set_viewport_size(PHONE["viewport"])
    question = ask(line)
    sign_in(page, site, ben)
    open_page(page, site)
    wait_for_people(gateway, question)
    card = page.locator(".question.in-chat")
    expect(card.get_by_role("button", name="Deny", exact=True)).to_be_visible()
    expect(card.locator(".facts")).to_be_hidden()
    assert card.evaluate(WITHOUT_SCROLLING) == []
    expect(card.locator(".glance")).to_contain_text("/home/ada/work")  # where it runs is part of what is approved
    expect(card.locator(".glance")).to_contain_text("Reason")
    fold = card.locator(".facts-fold > summary")
    expect(fold).to_contain_text("Writes to /home/ada/work/out.txt")  # important access is shown on the collapsed card
    fold.click()
    expect(card.locator(".facts")).to_contain_text("/home/ada/work/out.txt")
    fold.click()
    approve = card.get_by_role("button", name="Approve once")
    if len(line) > 100:  # longer than its box: it can be approved after all of it was shown
        expect(card.locator(".unread")).to_be_visible()
        expect(approve).to_be_disabled()
        card.locator(".command").evaluate("box => box.scrollTo(0, box.scrollHeight)")
    expect(approve).to_be_enabled()


def test_background_command_shows_result_live_and_after_reload(
    talk: Callable[[User], Page], gateway: FakeGateway, ada: User
) -> None:
    told_call(gateway, "[it runs in the background as `cmd-1`]", verdict={"allowed": True}, details={"status": "running"})
    page = talk(ada)
    status = page.locator(".tool .status")
    expect(status).to_have_text("in the background")
    ended = {"name": "cmd-1", "status": "exited", "exitCode": 3, "signal": "", "durationMs": 75_000}
    notice = {**stored_message("notice", "", 1), "notice": "command", "toolCallId": "c1", "command": ended}
    gateway.cursor += 1
    payload = {"sessionKey": KEY, "sessionId": "g1", "cursor": gateway.cursor, "ts": 1, "change": "command", "message": notice}
    gateway.send({"type": "event", "event": "session", "payload": payload})
    expect(status).to_have_text("exit code 3")
    expect(page.locator(".tool .duration")).to_have_text("1 min 15 s")
    before = gateway.answers["chat.history"]({})["messages"]
    gateway.answers["chat.history"] = lambda params: gateway.history([*before, notice])
    page.reload()
    expect(status).to_have_text("exit code 3")
    expect(page.locator(".notice")).to_have_count(0)  # its card says so


# For all users


@pytest.mark.parametrize("size", ["desk", "phone"])
def test_approval_pages_are_accessible_and_fit(
    browser: Browser, site: str, make_user: Callable[..., User], ask: Callable[..., Approval], size: str
) -> None:
    ben = make_user("Approver", "Operator", name="ben")
    ask(HOSTILE)
    ask(needed=2, expires_at=clock.now() + dt.timedelta(minutes=1))
    done = ask()
    approval_requests.resolve_approval(done.pk, by=ben, decision="allow-always")
    context = browser.new_context(**(PHONE if size == "phone" else {}))
    page = context.new_page()
    sign_in(page, site, ben)
    faults: list[str] = []
    for address in ("/approvals/", f"/approvals/{done.pk}/", "/approvals/history/", "/approvals/grants/", "/approvals/try/"):
        page.goto(site + address)
        if address == "/approvals/":
            page.locator(".question").first.locator("summary", has_text="Deny…").click()
        axe.check_accessibility(page, f"{address} on a {size}", faults)
        assert page.evaluate(CUT_OFF) == [], address
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
    context.close()
    assert faults == []
