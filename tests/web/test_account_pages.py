"""The account page through Django's test client: profile, password, tokens, browsers."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from clawsite.accounts import tokens
from clawsite.accounts.change_notices import AccountChanged
from clawsite.accounts.models import AccessToken, BrowserSession, User
from clawsite.accounts.sign_in import browsers
from tests.harness.users import PASSWORD

pytestmark = pytest.mark.usefixtures("database")

NEW = "quite another passphrase"
CHANGE = {"old_password": PASSWORD, "new_password1": NEW, "new_password2": NEW}
TOKEN = {"name": "laptop", "scopes": ["operator.read"], "days": "30", "form_id": "a"}
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"


def browser_of(user: User, **client: Any) -> Client:
    """A browser that has signed in with the password."""
    browser = Client(**client)
    assert browser.post("/sign-in/", {"username": user.username, "password": PASSWORD}).status_code == 302
    return browser


@pytest.fixture
def browser(user: User) -> Client:
    return browser_of(user)


def is_signed_in(browser: Client) -> bool:
    return browser.get("/account/").status_code == 200


def secret_on(page: Any) -> str:
    found = re.search(r'id="secret" value="(claw_\w+?_[\w-]+)"', page.content.decode())
    assert found
    return found[1]


@pytest.mark.parametrize("path", ["/account/", "/account/profile/", "/account/password/", "/account/tokens/"])
def test_anonymous_user_is_redirected_to_sign_in(client: Client, path: str) -> None:
    response = client.get(path) if path == "/account/" else client.post(path)
    assert response["Location"] == f"/sign-in/?next={path}"


def test_every_form_requires_csrf_token(user: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user)
    for path in (
        "profile",
        "password",
        "tokens",
        "tokens/1/revoke",
        "browsers/1/sign-out",
        "browsers/sign-out-others",
        "devices/1/revoke",
    ):
        assert strict.post(f"/account/{path}/").status_code == 403
        assert strict.get(f"/account/{path}/").status_code == 405


def test_account_page_is_not_cached(browser: Client) -> None:
    assert "no-store" in browser.get("/account/")["Cache-Control"]


def test_user_can_change_display_name(browser: Client, user: User) -> None:
    answer = browser.post("/account/profile/", {"display_name": "Ada <b>", "email": "ada@example.org"})
    assert answer["Location"] == "/account/#profile"
    page = browser.get("/account/").content.decode()
    assert "Saved." in page
    assert "Ada &lt;b&gt;" in page
    user.refresh_from_db()
    assert (user.get_full_name(), user.email) == ("Ada <b>", "ada@example.org")


def test_invalid_profile_form_keeps_submitted_values(browser: Client, user: User) -> None:
    answer = browser.post("/account/profile/", {"display_name": "Ada", "email": "not an address"})
    assert answer.status_code == 400
    assert 'value="not an address"' in answer.content.decode()
    user.refresh_from_db()
    assert user.email == ""


def test_profile_form_cannot_grant_privileges(browser: Client, user: User) -> None:
    browser.post(
        "/account/profile/", {"display_name": "x", "email": "", "is_staff": "on", "is_superuser": "on", "username": "root"}
    )
    before = user.username
    user.refresh_from_db()
    assert (user.is_staff, user.is_superuser, user.username) == (False, False, before)


def test_password_change_signs_out_only_other_browsers(browser: Client, user: User) -> None:
    others = [browser_of(user), browser_of(user)]
    answer = browser.post("/account/password/", CHANGE, follow=True)
    assert "2 other browsers were signed out" in answer.content.decode()
    assert is_signed_in(browser)
    assert not any(is_signed_in(other) for other in others)
    assert Client().post("/sign-in/", {"username": user.username, "password": NEW}).status_code == 302


def test_password_change_invalidates_old_session_cookie(browser: Client, user: User, settings: Any) -> None:
    stolen = Client()
    stolen.cookies[settings.SESSION_COOKIE_NAME] = browser.cookies[settings.SESSION_COOKIE_NAME].value
    assert is_signed_in(stolen)
    browser.post("/account/password/", CHANGE)
    assert not is_signed_in(stolen)
    assert browsers.list_browsers(user).count() == 1


@pytest.mark.parametrize(
    "wrong", [{"old_password": "guess"}, {"new_password2": "other"}, {"new_password1": "1234", "new_password2": "1234"}]
)
def test_invalid_password_change_is_rejected(browser: Client, user: User, wrong: dict[str, str]) -> None:
    other = browser_of(user)
    assert browser.post("/account/password/", {**CHANGE, **wrong}).status_code == 400
    user.refresh_from_db()
    assert user.check_password(PASSWORD)
    assert is_signed_in(other)


def test_old_password_guesses_are_rate_limited(browser: Client) -> None:
    for _ in range(6):
        assert browser.post("/account/password/", {**CHANGE, "old_password": "guess"}).status_code == 400
    answer = browser.post("/account/password/", CHANGE)
    assert answer.status_code == 429
    assert int(answer["Retry-After"]) > 0
    assert "Too many failed attempts" in answer.content.decode()


def test_access_token_secret_is_shown_once(browser: Client, user: User) -> None:
    page = browser.post("/account/tokens/", TOKEN)
    assert "no-store" in page["Cache-Control"]
    secret = secret_on(page)
    principal = tokens.find_principal(secret)
    assert principal
    assert (principal.user, principal.scopes) == (user, {"operator.read"})
    later = browser.get("/account/").content.decode()
    assert "laptop" in later
    assert secret not in later
    assert AccessToken.objects.get().digest not in later


def test_reloading_secret_page_creates_no_second_token(browser: Client) -> None:
    browser.post("/account/tokens/", TOKEN)
    again = browser.post("/account/tokens/", TOKEN)
    assert again["Location"] == "/account/#tokens"
    assert AccessToken.objects.count() == 1


def test_access_token_expires_after_chosen_lifetime(browser: Client) -> None:
    browser.post("/account/tokens/", {**TOKEN, "days": "7"})
    left = AccessToken.objects.get().expires_at - timezone.now()
    assert timedelta(days=6, hours=23) < left <= timedelta(days=7)


@pytest.mark.parametrize("wrong", [{"name": ""}, {"scopes": []}, {"scopes": ["operator.admin"]}, {"days": "9999"}])
def test_invalid_access_token_form_is_rejected(browser: Client, wrong: dict[str, Any]) -> None:
    assert browser.post("/account/tokens/", {**TOKEN, **wrong}).status_code == 400
    assert not AccessToken.objects.exists()


def test_user_without_permissions_sees_access_token_warning(make_user: Callable[..., User]) -> None:
    user = make_user()
    user.groups.clear()
    assert "an access token would have no effect" in browser_of(user).get("/account/").content.decode()


def test_revoked_access_token_is_rejected_and_listed(browser: Client) -> None:
    secret = secret_on(browser.post("/account/tokens/", TOKEN))
    answer = browser.post(f"/account/tokens/{AccessToken.objects.get().pk}/revoke/", follow=True)
    assert "was revoked" in answer.content.decode()
    assert "revoked on" in answer.content.decode()
    assert tokens.find_principal(secret) is None


def test_other_users_tokens_and_browsers_are_not_found(browser: Client, make_user: Callable[..., User]) -> None:
    stranger = make_user()
    theirs = browser_of(stranger)
    token, _secret = tokens.issue_token(stranger, "theirs", ["operator.read"])
    assert "theirs" not in browser.get("/account/").content.decode()
    assert browser.post(f"/account/tokens/{token.pk}/revoke/").status_code == 404
    row = browsers.list_browsers(stranger).get()
    assert browser.post(f"/account/browsers/{row.pk}/sign-out/").status_code == 404
    assert is_signed_in(theirs)
    token.refresh_from_db()
    assert token.revoked_at is None


def test_browser_list_shows_user_agent_and_ip(browser: Client, user: User, settings: Any) -> None:
    settings.TRUSTED_PROXIES = 1
    browser_of(user, headers={"user-agent": FIREFOX, "x-forwarded-for": "203.0.113.9"})
    page = browser.get("/account/").content.decode()
    assert "Firefox 128 on Linux" in page
    assert "203.0.113.9" in page
    assert page.count("this browser</span>") == 1
    for row in BrowserSession.objects.all():
        assert row.session_id not in page  # the session key is the cookie


def test_signing_out_another_browser_keeps_current_one(browser: Client, user: User) -> None:
    other, third = browser_of(user, headers={"user-agent": FIREFOX}), browser_of(user)
    row = BrowserSession.objects.get(user_agent=FIREFOX)
    assert browser.post(f"/account/browsers/{row.pk}/sign-out/")["Location"] == "/account/#browsers"
    assert (is_signed_in(browser), is_signed_in(other), is_signed_in(third)) == (True, False, True)
    assert browser.post(f"/account/browsers/{row.pk}/sign-out/").status_code == 404


def test_signing_out_other_browsers_notifies_every_process(browser: Client, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    others, told = [browser_of(user), browser_of(user)], []
    monkeypatch.setattr("clawsite.infra.bus.publish", told.append)
    browser.post("/account/browsers/sign-out-others/")
    assert is_signed_in(browser)
    assert not any(is_signed_in(other) for other in others)
    assert told == [AccountChanged(user.pk)]
    assert "No other browser" in browser.post("/account/browsers/sign-out-others/", follow=True).content.decode()


def test_signed_out_browser_is_removed_from_list(browser: Client, user: User) -> None:
    other = browser_of(user)
    assert browsers.list_browsers(user).count() == 2
    other.post("/sign-out/")
    assert browsers.list_browsers(user).count() == 1


def test_browser_last_seen_update_is_throttled(browser: Client, user: User) -> None:
    long_ago = timezone.now() - timedelta(days=2)
    browsers.list_browsers(user).update(last_seen_at=long_ago)
    browser.get("/account/")
    seen = browsers.list_browsers(user).get().last_seen_at
    assert seen > timezone.now() - timedelta(minutes=1)
    browser.get("/account/")
    assert browsers.list_browsers(user).get().last_seen_at == seen


def test_unrecorded_browser_session_is_recorded_on_next_request(browser: Client, user: User) -> None:
    BrowserSession.objects.all().delete()
    browser.get("/account/")
    assert browsers.list_browsers(user).count() == 1


def test_in_flight_request_does_not_restore_signed_out_browser(browser: Client, user: User, rf: Any) -> None:
    request = rf.get("/account/")
    request.session = browser.session
    browsers.sign_out_browser(user, browsers.list_browsers(user).get().pk)
    browsers.record_browser(request, user)
    assert not BrowserSession.objects.exists()
    assert not is_signed_in(browser)


def test_admin_password_change_redirects_to_account_page(browser: Client) -> None:
    assert browser.get("/admin/password_change/")["Location"] == "/account/#password"
