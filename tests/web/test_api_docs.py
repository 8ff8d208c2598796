"""The REST API documentation: public, with operations that signed-in users can try, under the strict policy."""

import pytest
from django.test import Client
from playwright.sync_api import Page, expect

from clawsite.accounts.models import User
from sessions_app.models import Session
from tests.harness.users import PASSWORD
from tests.web.axe import check_accessibility


def test_docs_are_public_but_requests_need_sign_in(page: Page, site: str, database: None) -> None:
    page.goto(f"{site}/api/docs")
    expect(page.get_by_role("heading", name="REST API")).to_be_visible()
    page.locator("#listSessions > summary").click()
    expect(page.locator("#listSessions")).to_contain_text("most recently used first")
    expect(page.get_by_role("link", name="Sign in to try it")).to_be_visible()
    expect(page.get_by_role("button", name="Send as you")).to_have_count(0)
    faults: list[str] = []
    check_accessibility(page, "/api/docs", faults)
    assert not faults, "\n".join(faults)


def test_operation_runs_as_signed_in_user(page: Page, site: str, user: User) -> None:
    page.goto(f"{site}/sign-in/?next=/api/docs")
    page.get_by_label("Username").fill(user.username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    made = page.locator("#createSession")
    made.locator("summary").click()
    made.get_by_label("Body").fill('{"label": "from the page"}')
    made.get_by_role("button", name="Send as you").click()
    expect(made.get_by_role("status")).to_contain_text("201")
    assert Session.objects.get(owner=user).label == "from the page"
    listed = page.locator("#listSessions")
    listed.locator("summary").click()
    listed.get_by_label("limit").fill("1")
    listed.get_by_role("button", name="Send as you").click()
    expect(listed.get_by_label("Response")).to_contain_text("from the page")
    listed.get_by_label("limit").fill("0")
    listed.get_by_role("button", name="Send as you").click()
    expect(listed.get_by_role("status")).to_contain_text("400")
    faults: list[str] = []
    check_accessibility(page, "/api/docs, signed in", faults)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_unsafe_methods_are_rejected(client: Client, database: None, method: str) -> None:
    assert client.generic(method, "/api/docs").status_code == 405
