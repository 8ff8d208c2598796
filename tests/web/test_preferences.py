"""A user's theme and language, and what browsers need to install the page, through Django's test client."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from clawsite.accounts.models import User
from clawsite.web.preferences import THEME_COLORS, THEME_COOKIE
from tests.harness.page_source import compact_html

pytestmark = pytest.mark.usefixtures("database")

STATIC = Path(__file__).parents[2] / "static"
LANGUAGE_COOKIE = settings.LANGUAGE_COOKIE_NAME


def html_of(response: Any) -> str:
    tag = re.search(r"<html[^>]*>", compact_html(response.content.decode()))
    assert tag
    return tag[0]


@pytest.fixture
def browser(client: Client, user: User) -> Client:
    client.force_login(user)
    return client


def test_system_preference_is_the_default(client: Client) -> None:
    page = client.get("/sign-in/")
    assert html_of(page) == '<html lang="en">'
    assert '<meta name="color-scheme" content="light dark">' in page.content.decode()


def test_anonymous_user_can_set_theme_for_browser(client: Client) -> None:
    answer = client.post("/preferences/", {"theme": "dark", "next": "/sign-in/?next=/runs/"})
    assert (answer.status_code, answer["Location"]) == (302, "/sign-in/?next=/runs/")
    assert 'data-theme="dark"' in html_of(client.get("/sign-in/"))
    client.post("/preferences/", {"theme": "system"})
    assert "data-theme" not in html_of(client.get("/sign-in/"))


def test_account_theme_and_language_apply_in_every_browser(browser: Client, user: User) -> None:
    browser.post("/preferences/", {"theme": "dark"})
    browser.post("/preferences/", {"language": "zh-hans"})
    user.refresh_from_db()
    assert (user.theme, user.language) == ("dark", "zh-hans")
    elsewhere = Client(headers={"accept-language": "en"})
    elsewhere.force_login(user)
    page = elsewhere.get("/account/")
    assert html_of(page) == '<html lang="zh-Hans" data-theme="dark">'
    assert page["Content-Language"] == "zh-hans"


def test_account_preferences_persist_after_sign_out(make_user: Any) -> None:
    user = make_user()
    User.objects.filter(pk=user.pk).update(theme="dark", language="zh-hans")
    client = Client()
    client.post("/sign-in/", {"username": user.username, "password": "a-long-test-password"})
    client.post("/sign-out/")
    assert html_of(client.get("/sign-in/")) == '<html lang="zh-Hans" data-theme="dark">'


def test_unset_language_follows_accept_language(browser: Client, user: User) -> None:
    browser.post("/preferences/", {"language": "zh-hans"})
    browser.post("/preferences/", {"language": ""})
    assert browser.cookies[LANGUAGE_COOKIE].value == ""
    assert 'lang="zh-Hans"' in html_of(browser.get("/account/", headers={"accept-language": "zh-CN"}))
    assert 'lang="en"' in html_of(browser.get("/account/", headers={"accept-language": "de, en;q=0.5"}))


def test_json_request_gets_empty_response(browser: Client) -> None:
    answer = browser.post("/preferences/", {"theme": "light"}, headers={"accept": "application/json"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.cookies[THEME_COOKIE]["httponly"]


@pytest.mark.parametrize("nonsense", [{"theme": "pink"}, {"language": "tlh"}, {"theme": '"><script>'}])
def test_invalid_preference_is_rejected_without_changes(browser: Client, user: User, nonsense: dict[str, str]) -> None:
    assert browser.post("/preferences/", nonsense).status_code == 400
    user.refresh_from_db()
    assert (user.theme, user.language) == ("system", "")


def test_forged_preference_cookie_is_ignored(client: Client) -> None:
    client.cookies[THEME_COOKIE] = '"><script>'
    client.cookies[LANGUAGE_COOKIE] = "../../etc"
    assert html_of(client.get("/sign-in/")) == '<html lang="en">'


def test_preferences_require_csrf_post_and_local_redirect(user: User, browser: Client) -> None:
    assert browser.get("/preferences/").status_code == 405
    assert browser.post("/preferences/", {"theme": "dark", "next": "https://evil.example/"})["Location"] == "/"
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user)
    assert strict.post("/preferences/", {"theme": "light"}).status_code == 403
    user.refresh_from_db()
    assert user.theme == "dark"


def test_page_is_installable(client: Client) -> None:
    page = client.get("/sign-in/").content.decode()
    assert 'rel="manifest" href="/manifest.webmanifest" crossorigin="use-credentials"' in page
    manifest = client.get("/manifest.webmanifest")
    assert manifest["Content-Type"] == "application/manifest+json"
    body = manifest.json()
    assert (body["name"], body["start_url"], body["scope"], body["display"]) == ("Clawsite", "/", "/", "standalone")
    assert {(icon["sizes"], icon["purpose"]) for icon in body["icons"]} >= {
        ("192x192", "any"),
        ("512x512", "any"),
        ("512x512", "maskable"),
    }
    for icon in body["icons"]:
        file = STATIC / icon["src"].removeprefix("/static/")
        assert file.is_file()
        if icon["type"] == "image/png":
            data = file.read_bytes()
            width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
            assert f"{width}x{height}" == icon["sizes"]


def test_theme_color_matches_page_background(client: Client) -> None:
    tokens = (STATIC / "css/tokens.css").read_text()
    assert f"--paper: light-dark({THEME_COLORS['light']}, {THEME_COLORS['dark']});" in tokens
    client.post("/preferences/", {"theme": "dark"})
    metas = re.findall(r'<meta name="theme-color"[^>]* content="(#\w+)"', compact_html(client.get("/sign-in/").content.decode()))
    assert metas == [THEME_COLORS["dark"], THEME_COLORS["dark"]]
    assert client.get("/manifest.webmanifest").json()["theme_color"] == THEME_COLORS["dark"]


@pytest.mark.parametrize(("path", "status"), [("/not-there/", 404), ("/admin/", 403)])
def test_error_pages_keep_theme_and_language(browser: Client, path: str, status: int) -> None:
    browser.post("/preferences/", {"theme": "dark"})
    browser.post("/preferences/", {"language": "zh-hans"})
    page = browser.get(path, follow=True)
    assert page.status_code == status
    assert html_of(page) == '<html lang="zh-Hans" data-theme="dark">'


def test_server_error_page_works_without_database(client: Client, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    client.raise_request_exception = False
    client.cookies[THEME_COOKIE] = "dark"
    client.cookies[settings.SESSION_COOKIE_NAME] = "whatever"

    def broken(*_args: Any, **_kwargs: Any) -> None:
        raise RuntimeError("no database")

    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", broken)
    page = client.get("/")
    assert page.status_code == 500
    assert "Something went wrong" in page.content.decode()
    assert 'data-theme="dark"' in html_of(page)
    settings.STORAGES = {**settings.STORAGES, "staticfiles": {"BACKEND": "not.there"}}
    assert "Something went wrong" in client.get("/").content.decode()
