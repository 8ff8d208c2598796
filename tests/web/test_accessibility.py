"""Every page checked by axe-core: no serious violations in the light and dark theme, on desktop and phone, and large touch targets.

All tests share one running installation, one chat and one user with access to everything. The admin's pages come from its registry,
so a new table is checked too, or the test says which row is missing.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group
from django.template.loader import render_to_string
from django.test import RequestFactory
from django.urls import reverse
from playwright.sync_api import Browser, FilePayload, Page, Route, WebSocketRoute, expect

import clawsite.urls  # noqa: F401  # it registers the pages of the admin
from clawsite.accounts import tokens
from clawsite.accounts.models import User
from clawsite.accounts.sign_in import first_admin
from clawsite.connectors.webhook.models import Hook
from clawsite.gateway.models import Device, PairingRequest
from clawsite.infra import clock
from clawsite.web.preferences import THEME_COLORS
from sessions_app.models import Run, ToolCall
from tests.harness.policies import restore_policy
from tests.harness.stack import Stack
from tests.harness.users import PASSWORD
from tests.web import sample_data
from tests.web.axe import check_accessibility, find_violations
from tests.web.sample_data import SAMPLE_SESSION, SIZES, OpenBrowser, fresh_browsers, open_all, open_chat, submit
from tools_app.models import PolicyTest
from tools_app.policy_store import policies, policy_tests

SMALL = (Path(__file__).parent / "small_targets.js").read_text()

on_desk_and_phone = pytest.mark.parametrize("size", SIZES)


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    with sample_data.long_timeout():
        yield


@pytest.fixture(scope="module")
def root(live: Stack) -> User:
    user = User.objects.create(username="ada", display_name="Ada L.", is_staff=True, is_superuser=True)
    user.set_password(PASSWORD)
    user.save()
    user.groups.set(Group.objects.all())
    return user


@pytest.fixture(scope="module")
def fresh(browser: Browser, live: Stack) -> Iterator[OpenBrowser]:
    with fresh_browsers(browser, live.url) as open_one:
        yield open_one


@pytest.fixture(scope="module")
def windows(fresh: OpenBrowser, live: Stack, root: User) -> dict[str, Page]:
    """Browsers of both sizes, signed in."""
    opened = {size: fresh(size) for size in SIZES}
    for page in opened.values():
        live.sign_in(page, root)
    return opened


@pytest.fixture(scope="module")
def talk(windows: dict[str, Page], root: User) -> Page:
    """A chat with all kinds of content: files, thinking, tools that succeeded and failed, an answer, an error."""
    sample_data.fill_sample_chat(windows["desk"])
    return windows["desk"]


@pytest.fixture
def faults() -> Iterator[list[str]]:
    """Collects serious violations; a test fails at its end with all of them."""
    heard: list[str] = []
    yield heard
    assert not heard, "\n".join(heard)


@on_desk_and_phone
def test_signed_out_pages_are_accessible(fresh: OpenBrowser, live: Stack, root: User, size: str, faults: list[str]) -> None:
    page = fresh(size)
    page.goto("/sign-in/")
    check_accessibility(page, "sign-in", faults)
    page.get_by_label("Username").fill("nobody")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    check_accessibility(page, "sign-in refused", faults)
    page.goto("/first-admin/wrong/")
    check_accessibility(page, "first-admin without a link", faults)
    User.objects.filter(pk=root.pk).update(is_active=False)
    try:
        page.goto(first_admin.create_first_admin_link(live.url) or "")
        page.get_by_role("button", name="Create account").click()
        check_accessibility(page, "first-admin", faults)
    finally:
        User.objects.filter(pk=root.pk).update(is_active=True)


@on_desk_and_phone
def test_error_pages_are_accessible(windows: dict[str, Page], live: Stack, user: User, size: str, faults: list[str]) -> None:
    page = windows[size]
    page.goto("/not-there/")
    check_accessibility(page, "404", faults)

    def answer(route: Route) -> None:  # these need an error that a healthy server doesn't have
        name = route.request.url.rsplit("/", 1)[1]
        route.fulfill(body=render_to_string(f"{name}.html", {"theme": "system", "paper": THEME_COLORS}), content_type="text/html")

    page.route("**/fault/*", answer)
    for name in ("400", "403", "403_csrf", "500"):
        page.goto(f"/fault/{name}")
        check_accessibility(page, name, faults)
    page.unroute("**/fault/*")


@on_desk_and_phone
def test_account_and_run_pages_are_accessible(
    windows: dict[str, Page], talk: Page, root: User, size: str, faults: list[str]
) -> None:
    page = windows[size]
    old = tokens.issue_token(root, "old laptop", ["operator.read"])[0]
    tokens.issue_token(root, "laptop", ["operator.read", "operator.write"])
    tokens.revoke_token(old)
    device = {"public_key": "x", "platform": "linux", "is_operator": True, "is_node": True, "scopes": ["operator.read"]}
    Device.objects.get_or_create(owner=root, fingerprint="12" * 32, defaults=device)
    later = clock.now() + timedelta(hours=1)
    asking = {"public_key": "x", "role": "node", "facts": {"commands": ["lights.on", "system.run"]}, "expires_at": later}
    PairingRequest.objects.get_or_create(fingerprint="34" * 32, defaults=asking)
    page.goto("/account/")
    expect(page.locator("#devices .rows > li")).to_have_count(2)
    open_all(page, "main")
    check_accessibility(page, "account", faults)
    page.get_by_label("Account menu").click()
    check_accessibility(page, "account menu", faults)
    page.goto("/account/")
    page.get_by_label("Current password").fill("wrong")
    page.get_by_label("New password", exact=True).fill("short")
    page.get_by_label("Confirm new password").fill("other")
    page.get_by_role("button", name="Change password").click()
    expect(page.locator(".error").first).to_be_visible()
    check_accessibility(page, "account refused", faults)
    page.get_by_text("New access token").click()
    page.get_by_label("Name", exact=True).fill("shown once")
    page.get_by_role("button", name="Create access token").click()
    expect(page.get_by_label("Secret")).to_be_visible()
    check_accessibility(page, "token issued", faults)
    page.goto("/runs/")
    check_accessibility(page, "runs", faults)
    page.goto("/runs/?status=aborted")
    check_accessibility(page, "no runs", faults)
    for run in Run.objects.filter(session__key=SAMPLE_SESSION):
        page.goto(f"/runs/{run.pk}/")
        expect(page.locator("#place")).to_have_text(re.compile(r"event \d+ of"))
        check_accessibility(page, f"run, {run.status}", faults)
    page.locator("#events-list summary").first.click()
    check_accessibility(page, "run with an event open", faults)


@on_desk_and_phone
def test_policy_pages_are_accessible(windows: dict[str, Page], talk: Page, root: User, size: str, faults: list[str]) -> None:
    page = windows[size]
    call = ToolCall.objects.filter(run__session__key=SAMPLE_SESSION)[0]
    small = {}

    def look_here(where: str) -> None:
        check_accessibility(page, where, faults)
        these = page.evaluate(SMALL) if size == "phone" else []
        small[where] = [each for each in these if "checkbox" not in each]  # a checkbox's label is the touch target

    with restore_policy():
        page.goto("/policies/tests/")
        look_here("no policy tests")
        policies.save_policy(scope="global", profile="minimal", deny=["gateway"])
        policy_tests.save_test(name="main never fetches", expected="never", agent="main", tool="web_fetch")
        page.goto("/policies/?agent=main&model=openai/gpt-5")
        look_here("which tools, and why")
        page.goto("/policies/?tool=web_fetch")
        look_here("one tool")
        page.goto("/policies/?tool=nothing")
        look_here("no tool")
        page.goto("/policies/?scope=agent&for_agent=main")
        page.locator("#d-deny").fill("wriet")
        expect(page.locator("#said-deny .error")).to_be_visible()
        look_here("a draft with a mistake")
        page.locator("#d-deny").fill("glob")
        expect(page.locator("#draft-state .flips")).to_be_visible()
        page.get_by_role("button", name="Last 7 days").click()
        expect(page.locator("#replayed")).to_be_visible()
        look_here("a draft, replayed")
        page.locator("#d-deny").press_sequentially("\nweb")
        expect(page.locator(".entry-list:visible li").first).to_be_visible()
        look_here("suggested entries")
        PolicyTest.objects.create(name="main never reads", expected="never", agent="main", tool="read")
        for address in ("tests/", "tests/new/", "history/", "history/1/", f"calls/{call.pk}/"):
            page.goto(f"/policies/{address}")
            look_here(address)
    assert {where: these for where, these in small.items() if these} == {}


@on_desk_and_phone
def test_chat_page_is_accessible(windows: dict[str, Page], talk: Page, size: str, faults: list[str]) -> None:
    page = open_chat(windows[size], "agent:main:main")
    expect(page.locator("#welcome")).to_be_visible()
    check_accessibility(page, "first visit", faults)
    open_chat(page, SAMPLE_SESSION)
    expect(page.locator(".ending[data-state=failed]")).to_be_visible()
    check_accessibility(page, "conversation", faults)
    open_all(page, "#messages")
    page.locator(".message.assistant .answer table").hover()
    check_accessibility(page, "conversation, all open", faults)
    page.get_by_role("button", name="Edit and resend").first.click()
    check_accessibility(page, "editing a message", faults)
    page.locator(".editor .cancel").click()
    page.get_by_label("Message", exact=True).press_sequentially("/")
    expect(page.locator("#suggestion-list li").first).to_be_visible()
    check_accessibility(page, "slash menu", faults)
    page.get_by_label("Message", exact=True).press("Escape")
    submit(page, "/status")
    expect(page.locator("#command-answer")).to_be_visible()
    page.locator("#files").set_input_files([FilePayload(name="bad.png", mimeType="image/png", buffer=b"no")])
    expect(page.locator('.upload[data-state="failed"]')).to_be_visible()
    check_accessibility(page, "composer with an answer and a file", faults)
    page.locator(".upload .remove").click()
    page.locator("#toggle-details").click()
    expect(page.locator("#timeline .label").first).to_be_visible()
    check_accessibility(page, "details", faults)
    page.locator("#close-details" if size == "phone" else "#toggle-details").click()


@on_desk_and_phone
def test_conversation_list_is_accessible(windows: dict[str, Page], talk: Page, size: str, faults: list[str]) -> None:
    page = open_chat(windows[size], SAMPLE_SESSION)

    def show() -> None:
        if page.locator("#toggle-sessions").is_visible() and page.locator("#toggle-sessions[aria-expanded=false]").count():
            page.locator("#toggle-sessions").click()

    show()
    expect(page.locator("#session-list li a").first).to_be_visible()
    check_accessibility(page, "list", faults)
    page.locator("#session-list li").first.hover()
    page.locator("#session-list li .more").first.click()
    expect(page.locator("#session-menu")).to_be_visible()
    check_accessibility(page, "menu of a conversation", faults)
    page.keyboard.press("Escape")
    page.evaluate("document.getElementById('reset-dialog').showModal()")
    check_accessibility(page, "dialog", faults)
    page.get_by_role("button", name="Cancel").click()
    show()
    page.get_by_label("Search all chats").fill("compare")
    expect(page.locator("#found-list mark").first).to_be_visible()
    check_accessibility(page, "search", faults)
    page.get_by_label("Search all chats").fill("")
    page.locator("#open-palette").evaluate("e => e.click()")
    expect(page.locator("#palette-list [role=option]").first).to_be_visible()
    check_accessibility(page, "palette", faults)
    page.keyboard.press("Escape")
    page.evaluate("document.getElementById('help').showModal()")
    check_accessibility(page, "keys", faults)
    page.keyboard.press("Escape")


@on_desk_and_phone
def test_running_and_disconnected_chat_is_accessible(
    fresh: OpenBrowser, live: Stack, root: User, size: str, faults: list[str]
) -> None:
    page = fresh(size)
    lines: list[WebSocketRoute] = []

    def opened(line: WebSocketRoute) -> None:
        lines.append(line)
        if len(lines) == 1:
            line.connect_to_server()
        else:
            line.close(code=1012)

    page.route_web_socket("**/ws", opened)
    live.sign_in(page, root)
    open_chat(page, f"agent:main:busy-{size}")
    submit(page, '[[text="one two three four five" hang_after=4]]')
    expect(page.locator(".message.assistant .answer")).to_contain_text("one two")
    submit(page, "and then")
    expect(page.locator("#queue .queued")).to_have_count(1)
    check_accessibility(page, "while it runs", faults)
    page.locator("#stop").click()
    expect(page.locator(".ending .note").first).to_have_text(re.compile("Stopped"))
    lines[0].close(code=1012)
    expect(page.locator("#banner")).to_be_visible()
    submit(page, "kept until later")
    expect(page.locator("#queue .queued, #messages .message.user").last).to_be_visible()
    check_accessibility(page, "no connection", faults)
    assert size == "desk" or page.evaluate(SMALL) == []


@on_desk_and_phone
def test_read_only_chat_is_accessible(fresh: OpenBrowser, live: Stack, make_user: Any, size: str, faults: list[str]) -> None:
    page = fresh(size)
    live.sign_in(page, make_user("Auditor"))
    open_chat(page, "agent:main:main")
    expect(page.locator("#problem")).to_be_visible()
    check_accessibility(page, "Read-only", faults)


@pytest.fixture(scope="module")
def rows(talk: Page, root: User) -> Iterator[None]:
    with sample_data.sample_rows(root):
        yield


@pytest.mark.parametrize("model", admin.site._registry, ids=lambda model: model._meta.label_lower)
def test_admin_pages_are_accessible(windows: dict[str, Page], rows: None, root: User, model: Any, faults: list[str]) -> None:
    sample_data.create_sign_in_rows()
    page, model_admin = windows["desk"], admin.site._registry[model]
    name, label = f"admin:{model._meta.app_label}_{model._meta.model_name}", model._meta.label_lower
    request = RequestFactory().get("/")
    request.user = root
    row = next((row for row in model.objects.all() if model_admin.has_delete_permission(request, row)), model.objects.first())
    assert row is not None, f"there is no {label} to look at: sample_data.py has to create one"

    def opens(address: str, what: str) -> None:
        answer = page.goto(address)
        assert answer and answer.status == 200, address
        check_accessibility(page, f"{label} {what}", faults)

    opens(reverse(f"{name}_change", args=[row.pk]), "row")
    if model_admin.has_add_permission(request):
        page.goto(reverse(f"{name}_add"))
        page.locator("button[name=_save], input[name=_save]").first.click()  # rejected, so with its errors
        check_accessibility(page, f"{label} add", faults)
    if model_admin.has_delete_permission(request):
        opens(reverse(f"{name}_delete", args=[row.pk]), "delete")
    page.goto(reverse(f"{name}_changelist"))
    choices = page.locator("select[name=action] option:not([value=''])")
    for action in [None, *choices.evaluate_all("all => all.map((each) => each.value)")]:
        page.goto(reverse(f"{name}_changelist"))
        for box in page.locator("input.action-select").all():
            box.check()
        if action is None:
            check_accessibility(page, f"{label} list", faults)
            continue
        page.locator("select[name=action]").select_option(action)
        page.get_by_role("button", name="Go").click()
        expect(page.locator("#result_list")).to_have_count(0)  # the page shows a confirmation, or why the action isn't possible
        check_accessibility(page, f"{label} {action}", faults)


@on_desk_and_phone
def test_admin_dashboard_menu_and_filters_are_accessible(
    windows: dict[str, Page], rows: None, size: str, faults: list[str]
) -> None:
    page = windows[size]
    page.goto("/admin/")
    expect(page.locator("[data-tile=running]")).to_be_visible()
    check_accessibility(page, "dashboard", faults)
    page.goto("/admin/sessions_app/run/")
    check_accessibility(page, "list of runs", faults)
    page.get_by_role("button", name="Filters").click()
    check_accessibility(page, "filters", faults)
    page.goto("/admin/sessions_app/run/?q=nothing-like-that")
    check_accessibility(page, "empty list", faults)
    if size == "phone":
        page.get_by_role("button", name="Open menu").click()
        check_accessibility(page, "menu", faults)
        for address in (
            "sessions_app/run/{}/change/".format(Run.objects.order_by("pk")[0].pk),
            "agents/agent/main/change/",
            "accounts/user/add/",
        ):
            page.goto(f"/admin/{address}")
            check_accessibility(page, address, faults)


@on_desk_and_phone
def test_other_admin_pages_are_accessible(
    windows: dict[str, Page], fresh: OpenBrowser, live: Stack, rows: None, root: User, make_user: Any, size: str, faults: list[str]
) -> None:
    page = windows[size]
    for address in (f"accounts/user/{root.pk}/history/", "accounts/", f"accounts/user/{root.pk}/password/"):
        answer = page.goto(f"/admin/{address}")
        assert answer and answer.status == 200, address
        check_accessibility(page, address, faults)
    page.locator("input[type=submit], button[type=submit]").last.click()  # without a password
    expect(page.locator(".errorlist, .errornote").first).to_be_visible()
    check_accessibility(page, "password refused", faults)
    page.goto("/admin/accounts/accesstoken/add/")
    page.locator("[name=name]").fill("seen once")
    page.locator("[name=scopes]").first.check()
    page.locator("button[name=_save], input[name=_save]").first.click()
    expect(page.locator(".admin-secret")).to_be_visible()
    check_accessibility(page, "token issued by the admin", faults)
    page.goto(f"/admin/connectors/hook/{Hook.objects.get(slug='news1').pk}/try/")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("material to read, not instructions to follow")).to_be_visible()
    check_accessibility(page, "a webhook tried", faults)
    clerk = make_user("User")
    clerk.is_staff = True
    clerk.save()
    theirs = fresh(size)
    live.sign_in(theirs, clerk)
    theirs.goto("/admin/")
    expect(theirs.locator("h1")).to_be_visible()
    expect(theirs.locator("#dashboard")).to_have_count(0)
    check_accessibility(theirs, "admin without a dashboard", faults)


def test_accessibility_check_detects_violations(windows: dict[str, Page]) -> None:
    page = windows["desk"]
    page.goto("/sign-in/?next=/account/")
    page.evaluate("""() => {
      const pale = Object.assign(document.createElement("p"), { textContent: "hardly to be read", className: "pale" });
      pale.style.color = "#bbb"; pale.style.backgroundColor = "#fff";
      document.querySelector("main").append(pale, document.createElement("button"));
    }""")
    faults: list[str] = []
    check_accessibility(page, "faulty", faults)
    assert [re.sub(r" .*", "", told.split(": ")[1]) for told in faults if "light" in told] == ["button-name", "color-contrast"]
    assert {broken["impact"] for broken in find_violations(page)} & {"critical", "serious"}


def test_touch_targets_are_large_enough_on_phone(windows: dict[str, Page], talk: Page) -> None:
    page = open_chat(windows["phone"], SAMPLE_SESSION)
    expect(page.locator(".ending[data-state=failed]")).to_be_visible()
    open_all(page, "#messages")
    small = {"conversation": page.evaluate(SMALL)}
    page.locator("#toggle-details").click()
    small["details"] = page.evaluate(SMALL)
    page.locator("#close-details").click()
    page.locator("#toggle-sessions").click()
    expect(page.locator("#session-list li a").first).to_be_visible()
    small["list"] = page.evaluate(SMALL)
    page.locator("#session-list li .more").first.click()
    small["menu"] = page.evaluate(SMALL)
    assert {where: these for where, these in small.items() if these} == {}
