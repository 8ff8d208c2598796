"""Sign-in and account in a real browser: on desktop and phone, with only the keyboard, in the user's theme."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from clawsite.accounts import tokens
from clawsite.accounts.models import AccessToken, User
from clawsite.accounts.sign_in import first_admin
from tests.harness.users import PASSWORD

DESK = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
DAY, NIGHT = "rgb(249, 246, 240)", "rgb(25, 23, 20)"

on_desk_and_phone = pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open new browsers: opened(), opened(color_scheme="dark"), opened(**PHONE)."""
    contexts: list[BrowserContext] = []

    def open_one(**options: Any) -> Page:
        contexts.append(browser.new_context(**options))
        contexts[-1].set_default_timeout(10_000)
        return contexts[-1].new_page()

    yield open_one
    for context in contexts:
        context.close()


def sign_in(page: Page, site: str, user: User, path: str = "/account/") -> None:
    page.goto(f"{site}/sign-in/?next={path}")
    page.get_by_label("Username").fill(user.username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{site}{path}")


def paper(page: Page) -> Any:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def too_small_for_fingers(page: Page) -> Any:
    """Return visible controls less than 44 px high; links inside a sentence are excluded."""
    return page.evaluate(
        """() => [...document.querySelectorAll("button, .button, summary, select, input:not([type=hidden], [type=checkbox])")]
            .filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 44)
            .map((e) => e.outerHTML.slice(0, 80))"""
    )


@on_desk_and_phone
def test_signed_out_pages_fit_the_viewport(opened: Callable[..., Page], site: str, database: None, size: dict[str, Any]) -> None:
    page = opened(**size)
    link = first_admin.create_first_admin_link(site)
    assert link
    for address in (f"{site}/sign-in/", link, f"{site}/not-there/", f"{site}/first-admin/wrong/"):
        page.goto(address)
        expect(page.get_by_role("heading", level=1)).to_be_in_viewport()
        assert fits(page)
        if size is PHONE:
            assert too_small_for_fingers(page) == []


@on_desk_and_phone
def test_account_page_fits_the_viewport(opened: Callable[..., Page], site: str, user: User, size: dict[str, Any]) -> None:
    tokens.issue_token(user, "a-name-without-any-place-to-break-it-" * 2, ["operator.read"])
    User.objects.filter(pk=user.pk).update(display_name="N" * 150)
    page = opened(**size)
    sign_in(page, site, user)
    page.get_by_text("New access token").click()
    expect(page.get_by_label("Name", exact=True)).to_be_visible()
    assert fits(page)
    page.get_by_label("Account menu").click()
    expect(page.get_by_role("link", name="Account", exact=True)).to_be_in_viewport()
    assert fits(page)
    if size is PHONE:
        assert too_small_for_fingers(page) == []


def test_theme_is_applied_without_javascript(opened: Callable[..., Page], site: str, user: User) -> None:
    User.objects.filter(pk=user.pk).update(theme="dark")
    page = opened(java_script_enabled=False, color_scheme="light")
    page.goto(f"{site}/sign-in/")
    assert paper_without_script(page) == "light"
    sign_in(page, site, user)
    assert paper_without_script(page) == "dark"
    page.get_by_role("button", name="Light").last.click()  # the switch is a form too
    page.wait_for_url(f"{site}/account/**")
    assert paper_without_script(page) == "light"


def paper_without_script(page: Page) -> str:
    """Return the theme of a page without scripts: by how dark its screenshot is."""
    box = {"x": 2.0, "y": 300.0, "width": 4.0, "height": 4.0}
    plain = page.screenshot(clip=box)
    viewer = page.context.browser.new_page() if page.context.browser else None
    assert viewer
    script = """async (bytes) => {
        const picture = await createImageBitmap(new Blob([new Uint8Array(bytes)]));
        const canvas = new OffscreenCanvas(1, 1).getContext("2d");
        canvas.drawImage(picture, 0, 0);
        return canvas.getImageData(0, 0, 1, 1).data[0] > 127 ? "light" : "dark";
    }"""
    shade = viewer.evaluate(script, list(plain))
    viewer.close()
    return str(shade)


def test_theme_switch_applies_to_all_tabs_and_persists(page: Page, site: str, user: User) -> None:
    page.emulate_media(color_scheme="light")
    sign_in(page, site, user)
    tab = page.context.new_page()
    tab.emulate_media(color_scheme="light")
    tab.goto(f"{site}/account/")
    page.evaluate("window.sameDocument = true")
    assert paper(page) == DAY
    with page.expect_response("**/preferences/") as stored:
        page.locator("#look").get_by_role("button", name="Dark").click()
    assert stored.value.status == 204
    assert (paper(page), page.evaluate("window.sameDocument")) == (NIGHT, True)
    expect(page.locator("#look").get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    assert paper(page) == NIGHT
    with page.expect_response("**/preferences/"):
        page.locator("#look").get_by_role("button", name="System").click()
    assert paper(page) == DAY
    page.emulate_media(color_scheme="dark")
    assert paper(page) == NIGHT


def test_language_chosen_before_sign_in_is_kept(page: Page, site: str, user: User) -> None:
    page.goto(f"{site}/sign-in/?next=/account/")
    page.get_by_role("button", name="简体中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    page.locator("input[name=username]").fill(user.username)
    page.locator("input[name=password]").fill(PASSWORD)
    page.locator("input[name=password]").press("Enter")
    page.wait_for_url(f"{site}/account/")  # the page requested at the beginning
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    page.locator("#look").get_by_role("button", name="English").click()
    expect(page.locator("html")).to_have_attribute("lang", "en")
    user.refresh_from_db()
    assert user.language == "en"


def test_access_token_is_created_copied_and_revoked(page: Page, site: str, user: User) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site)
    sign_in(page, site, user)
    page.get_by_label("Name", exact=True).fill("laptop")
    page.get_by_label("Send messages").uncheck()
    page.get_by_label("Valid for").select_option("7")
    page.get_by_role("button", name="Create access token").click()
    secret = page.get_by_label("Secret").input_value()
    page.get_by_role("button", name="Copy").click()
    expect(page.locator("#copied")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == secret
    principal = tokens.find_principal(secret)
    assert principal
    assert principal.scopes == {"operator.read"}
    page.get_by_role("link", name="I have copied it").click()
    expect(page.locator("#tokens")).to_contain_text("laptop")
    assert secret not in page.content()
    page.locator("summary", has_text="Revoke laptop").click()
    page.get_by_role("button", name="Revoke it").click()
    expect(page.get_by_role("status")).to_contain_text("was revoked")
    assert tokens.find_principal(secret) is None


def test_user_can_sign_out_another_browser(page: Page, opened: Callable[..., Page], site: str, user: User) -> None:
    other = opened(user_agent="Mozilla/5.0 (Windows NT 10.0; rv:128.0) Gecko/20100101 Firefox/128.0")
    sign_in(page, site, user)
    sign_in(other, site, user)
    page.reload()
    page.get_by_role("button", name="Sign out Firefox 128").click()
    expect(page.get_by_role("status")).to_have_text("That browser was signed out.")
    other.reload()
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()


def test_password_change_signs_out_all_other_browsers(page: Page, opened: Callable[..., Page], site: str, user: User) -> None:
    other = opened()
    sign_in(page, site, user)
    sign_in(other, site, user)
    page.get_by_label("Current password").fill(PASSWORD)
    page.get_by_label("New password", exact=True).fill("quite another passphrase")
    page.get_by_label("Confirm new password").fill("quite another passphrase")
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_role("status")).to_contain_text("1 other browser was signed out")
    other.reload()
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()


def test_account_page_works_by_keyboard(page: Page, site: str, user: User) -> None:
    page.goto(f"{site}/sign-in/?next=/account/")
    expect(page.get_by_label("Username")).to_be_focused()
    page.keyboard.type(user.username)
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{site}/account/")

    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    menu = page.get_by_label("Account menu")
    for _ in range(10):
        page.keyboard.press("Tab")
        if menu.evaluate("e => e === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="Account", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(menu).to_be_focused()
    expect(page.get_by_role("link", name="Account", exact=True)).to_be_hidden()
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("link", name="Account", exact=True)).to_be_hidden()

    page.get_by_label("Name", exact=True).focus()
    page.keyboard.type("typed")
    for _ in range(4):  # two checkboxes, the expiration, the button
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Secret")).to_have_value(re.compile("^claw_"))
    assert AccessToken.objects.get().name == "typed"


def test_password_can_be_revealed(page: Page, site: str, database: None) -> None:
    page.goto(f"{site}/sign-in/")
    page.get_by_label("Password").fill("secret")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_label("Password")).to_have_attribute("type", "text")
    page.get_by_role("button", name="Hide").click()
    expect(page.get_by_label("Password")).to_have_attribute("type", "password")
