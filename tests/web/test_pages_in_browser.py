"""Our pages and Django's admin in a real browser, under the strict policy (the `page` fixture fails on any violation)."""

import pytest
from django.contrib.auth.models import Group
from playwright.sync_api import Page, expect

from clawsite.accounts.groups import scopes_of
from clawsite.accounts.models import AccessToken, User
from clawsite.accounts.sign_in import first_admin

PASSWORD = "correct horse battery"


@pytest.fixture
def admin(database: None) -> User:
    user = User.objects.create_user("ada", password=PASSWORD, is_staff=True)
    user.groups.set(Group.objects.filter(name__in=["Operator", "Approver", "User"]))
    return user


def sign_in(page: Page, site: str, path: str = "/") -> None:
    page.goto(site + path)
    page.get_by_label("Username").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def test_user_signs_in_and_out(page: Page, site: str, admin: User) -> None:
    sign_in(page, site)
    expect(page.get_by_role("button", name="New chat")).to_be_visible()
    page.get_by_label("Account menu").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_wrong_password_shows_error(page: Page, site: str, admin: User) -> None:
    page.goto(site)
    page.get_by_label("Username").fill("ada")
    page.get_by_label("Password").fill("wrong")
    page.get_by_label("Password").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Wrong username or password")


def test_first_admin_uses_setup_link(page: Page, site: str, database: None) -> None:
    seen: list[str] = []
    page.on("request", lambda request: seen.append(f"{request.url} {request.headers.get('referer', '')}"))
    link = first_admin.create_first_admin_link(site)
    assert link
    page.goto(link)
    page.get_by_label("Username").fill("ada")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password confirmation").fill(PASSWORD)
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("button", name="New chat")).to_be_visible()
    token = link.rstrip("/").rpartition("/")[2]
    assert len([line for line in seen if token in line]) == 1  # the link itself, and no referrer after it
    assert User.objects.get(username="ada").is_staff


def test_admin_works_under_strict_csp(page: Page, site: str, admin: User) -> None:
    sign_in(page, site, "/admin/")
    page.get_by_role("link", name="Users").first.click()
    page.get_by_role("link", name="ada").first.click()
    expect(page.get_by_label("Approver")).to_be_checked()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()


def test_new_account_can_chat_by_default(page: Page, site: str, admin: User) -> None:
    sign_in(page, site, "/admin/accounts/user/add/")
    expect(page.get_by_label("User", exact=True)).to_be_checked()
    expect(page.get_by_text("User can chat with agents")).to_be_visible()
    expect(page.get_by_text("An account without a group can sign in but not chat")).to_be_visible()
    page.get_by_label("Username").fill("grace")
    page.locator("input[name=password1]").fill(PASSWORD)
    page.locator("input[name=password2]").fill(PASSWORD)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    assert scopes_of(User.objects.get(username="grace")) == {"operator.read", "operator.write"}


def test_admin_created_access_token_is_shown_once(page: Page, site: str, admin: User) -> None:
    sign_in(page, site, "/admin/accounts/accesstoken/add/")
    page.get_by_label("Name").fill("laptop")
    page.get_by_label("operator.read").check()
    page.get_by_role("button", name="Save", exact=True).click()
    secret = page.locator("#content code").inner_text()
    assert secret.startswith("claw_")
    token = AccessToken.objects.get()
    assert (token.user, token.scopes) == (admin, ["operator.read"])
    for path in ("", f"{token.pk}/change/"):
        page.goto(f"{site}/admin/accounts/accesstoken/{path}")
        assert token.prefix in page.content()
        assert secret not in page.content()
        assert token.digest not in page.content()


def test_access_tokens_can_be_revoked_in_admin(page: Page, site: str, admin: User) -> None:
    AccessToken.objects.create(user=admin, name="lost", prefix="abc", digest="x", scopes=[])
    sign_in(page, site, "/admin/accounts/accesstoken/")
    page.locator(".action-select").check()
    page.locator("select[name=action]").select_option("revoke")
    page.get_by_role("button", name="Go").click()
    page.get_by_role("button", name="Revoke access tokens (1)").click()
    expect(page.get_by_text("1 access token was revoked")).to_be_visible()
    assert AccessToken.objects.get().revoked_at


def test_operator_cannot_become_or_edit_superuser(page: Page, site: str, admin: User) -> None:
    root = User.objects.create_superuser("root", password=PASSWORD)
    sign_in(page, site, f"/admin/accounts/user/{admin.pk}/change/")
    expect(page.get_by_label("Username")).to_be_visible()
    assert page.locator("input[name=is_superuser]").count() == 0
    page.goto(f"{site}/admin/accounts/user/{root.pk}/change/")
    assert page.locator("input[name=username]").count() == 0
    answer = page.goto(f"{site}/admin/accounts/user/{root.pk}/password/")
    assert answer
    assert answer.status == 403
