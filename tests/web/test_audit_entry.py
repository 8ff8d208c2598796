"""An operator looks for the audit log: it is visible in the admin's menu and explains how to get access."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from clawsite.accounts.models import User
from tests.web import axe
from tests.web.chat_page import sign_in
from tests.web.sample_data import SIZES

IN_SIGHT = """(link) => {
  const [mine, menu] = [link, link.closest(".admin-groups")].map((each) => each.getBoundingClientRect());
  return mine.top >= menu.top && mine.bottom <= menu.bottom + 1;
}"""


@pytest.mark.parametrize("size", SIZES)
def test_operator_without_audit_access_sees_required_group(
    browser: Browser, site: str, make_user: Callable[..., User], size: str
) -> None:
    olga = make_user("Operator", "Approver", name="olga")
    olga.is_staff = True
    olga.save()
    context = browser.new_context(**SIZES[size])
    page = context.new_page()
    sign_in(page, site, olga)
    page.goto(f"{site}/admin/")
    if size == "phone":
        page.locator("[popovertarget=admin-nav]:visible").click()
    page.get_by_role("link", name="Audit log").click()
    expect(page.get_by_role("heading", name="You don’t have access yet")).to_be_visible()
    faults: list[str] = []
    axe.check_accessibility(page, f"the way to the audit log on a {size}", faults)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("link", name="Open my account in the admin").click()
    expect(page.get_by_label("Auditor")).not_to_be_checked()
    context.close()
    assert faults == []


def test_long_menu_scrolls_to_current_page(browser: Browser, site: str, make_user: Callable[..., User]) -> None:
    dora = make_user("Operator", "Auditor", name="dora")
    dora.is_staff = True
    dora.save()
    context = browser.new_context(viewport={"width": 1280, "height": 600})
    page = context.new_page()
    sign_in(page, site, dora)
    page.goto(f"{site}/admin/infra/auditentry/")
    expect(page.get_by_role("link", name="Audit log").first).to_be_visible()
    assert page.locator("#admin-nav [aria-current=page]").evaluate(IN_SIGHT)
    context.close()
