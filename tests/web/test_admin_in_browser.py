"""The admin in a real browser, under the strict policy: on desktop and phone, light and dark, with only the keyboard."""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

import clawsite.urls  # noqa: F401  # it registers the pages of the admin
from clawsite.accounts.models import User
from clawsite.infra import clock
from sessions_app.models import Run, Session, ToolCall
from sessions_app.runs import lifecycle

DESK = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
DAY, NIGHT = "rgb(249, 246, 240)", "rgb(25, 23, 20)"
COLOURS: tuple[Literal["light", "dark"], ...] = ("light", "dark")
NASTY = '<img src=x onerror="window.owned=1"><script>window.owned=1</script><p x-data x-init="window.owned=1">'


@pytest.fixture
def root(make_user: Callable[..., User]) -> Iterator[User]:
    root = make_user("User", "Operator", "Auditor", name="ada")
    root.is_staff = root.is_superuser = True
    root.save()
    yield root
    LogEntry.objects.all().delete()


@pytest.fixture
def work(root: User, make_session: Callable[..., Session]) -> Run:
    """A run and a tool call full of hostile markup."""
    session = make_session(root)
    Session.objects.filter(pk=session.pk).update(title=NASTY, origin={"words": NASTY})
    accepted = lifecycle.accept_run(user=root, session=session, run_id="k1", prompt=NASTY)
    ToolCall.objects.create(
        run_id=accepted.pk,
        session=session,
        call_id="c1",
        position=0,
        name=NASTY[:100],
        arguments={NASTY: NASTY},
        result={"content": NASTY},
        status="refused",
        refused_by="agent",
        lease_token=1,
        created_at=clock.now(),
    )
    return Run.objects.get(pk=accepted.pk)


@pytest.fixture
def opened(browser: Browser, site: str, root: User) -> Iterator[Callable[..., Page]]:
    """Pages of browsers signed in as root. The test fails on a policy violation, a script error or a request to another origin."""
    contexts: list[BrowserContext] = []
    faults: list[str] = []
    client = Client()
    client.force_login(root)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            faults.append(message.text)

    def open_one(path: str = "/admin/sessions_app/run/", **options: Any) -> Page:
        context = browser.new_context(base_url=site, **{**DESK, **options})
        context.set_default_timeout(30_000)  # the first page of a process loads all of them
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": site}])
        contexts.append(context)
        page = context.new_page()
        page.on("console", heard)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: request.url.startswith((site, "data:")) or faults.append(request.url))
        page.goto(path)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert faults == []


def addresses() -> list[str]:
    """Return every list, the page of one row of each table that has rows, and every form to add one."""
    found = []
    for model, model_admin in admin.site._registry.items():
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        found.append(reverse(f"{name}_changelist"))
        row = model._default_manager.first()
        if row is not None:
            found += [reverse(f"{name}_change", args=[row.pk]), reverse(f"{name}_history", args=[row.pk])]
        if type(model_admin).has_add_permission is admin.ModelAdmin.has_add_permission:
            found.append(reverse(f"{name}_add"))
    return found


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, PHONE], ids=["desk", "phone"])
def test_every_list_and_form_loads_and_fits(opened: Any, work: Run, options: dict[str, Any]) -> None:
    page = opened(**options)
    for address in addresses():
        answer = page.goto(address)
        assert answer and answer.status == 200, address
        expect(page.locator("h1")).to_be_visible()
        for colours in COLOURS:
            page.emulate_media(color_scheme=colours)
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, f"{address} scrolls sideways, {colours}"
        assert page.evaluate("window.owned") is None, f"{address} ran what somebody wrote"


def test_user_input_is_escaped(opened: Any, work: Run) -> None:
    page = opened(f"/admin/sessions_app/run/{work.pk}/change/")
    expect(page.get_by_text("onerror=").first).to_be_visible()
    assert page.locator("#content img, #content [x-init]").count() == 0


def test_theme_follows_account_then_system_preference(opened: Any, root: User) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    assert opened().evaluate(ground) == DAY
    dark = opened(color_scheme="dark")
    assert (dark.evaluate(ground), dark.evaluate("document.documentElement.className")) == (NIGHT, "dark")
    User.objects.filter(pk=root.pk).update(theme="light")
    assert opened(color_scheme="dark").evaluate(ground) == DAY
    User.objects.filter(pk=root.pk).update(theme="dark")
    assert opened().evaluate(ground) == NIGHT


def test_phone_menu_opens_and_navigates(opened: Any) -> None:
    page = opened(**PHONE)
    menu = page.get_by_role("navigation", name="Administration")
    expect(menu).to_be_hidden()
    page.get_by_role("button", name="Open menu").click()
    menu.get_by_role("link", name="Agents").click()
    expect(page.get_by_role("heading", name="Agents", level=1)).to_be_visible()
    expect(menu).to_be_hidden()


def test_keyboard_reaches_content_search_filters_and_bulk_actions(opened: Any, work: Run) -> None:
    page = opened()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#searchbar")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Filters")).to_be_focused()
    page.keyboard.press("Enter")
    filters = page.get_by_role("complementary", name="Filters")
    expect(filters).to_be_visible()
    page.keyboard.press("Escape")
    expect(filters).to_be_hidden()
    expect(page.get_by_role("button", name="Filters")).to_be_focused()
    page.locator("input.action-select").focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("group", name="Actions for the selected rows")).to_be_visible()


def test_list_is_filtered_by_autocompleted_owner(opened: Any, work: Run, make_user: Callable[..., User]) -> None:
    make_user(name="adam")
    page = opened()
    page.get_by_role("button", name="Filters").click()
    page.locator(".admin-filters .select2-selection").click()
    page.locator(".select2-search__field").fill("adam")
    page.get_by_role("option", name="adam").click()
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("Nothing matches.")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    expect(page.get_by_role("cell", name="k1")).to_be_visible()


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_runs_are_stopped_after_confirmation(opened: Any, work: Run, size: dict[str, Any]) -> None:
    page = opened(**size)
    page.locator("input.action-select").check()
    page.locator("select[name=action]").select_option(label="Stop runs")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_role("row", name="k1")).to_contain_text("will be stopped immediately")
    assert Run.objects.get().status == "accepted"
    page.get_by_role("button", name="Stop runs (1)").click()
    expect(page.get_by_text("Stop requested for 1 run; 1 has stopped.")).to_be_visible()
    assert Run.objects.get().status == "aborted"


def test_stopping_runs_can_be_cancelled(opened: Any, work: Run) -> None:
    page = opened()
    page.locator("input.action-select").check()
    page.locator("select[name=action]").select_option(label="Stop runs")
    page.get_by_role("button", name="Go").click()
    page.get_by_role("link", name="No, take me back").click()
    expect(page.get_by_role("heading", name="Runs", level=1)).to_be_visible()
    assert Run.objects.get().status == "accepted"


def test_date_is_picked_from_calendar(opened: Any) -> None:
    page = opened("/admin/accounts/accesstoken/add/")
    before = page.locator("#id_expires_at_0").input_value()
    page.locator("[id^=calendarlink]").first.click()
    page.get_by_role("link", name="Tomorrow").click()
    assert page.locator("#id_expires_at_0").input_value() != before


def test_agent_form_errors_can_be_corrected(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    page = opened("/admin/agents/agent/main/change/")
    page.get_by_label("Model", exact=True).fill("openai/gpt-5")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("No credentials for this model. Set OPENAI_API_KEY")).to_be_visible()
    page.get_by_label("Model", exact=True).fill("demo/clawsite")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    expect(page.locator("table.tools")).to_contain_text("read")
