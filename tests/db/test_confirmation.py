"""Users who entered their password long ago confirm it before changing security settings, and lose no input."""

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import get_resolver, reverse

from clawsite.accounts.models import AccessToken
from clawsite.accounts.sign_in import recent_password
from clawsite.infra.models import AuditEntry
from clawsite.web.sign_in import confirm_password
from sessions_app.runs import freezes
from tools_app.models import ExecRule

pytestmark = pytest.mark.usefixtures("database", "plain_static_files")

PASSWORD = "a long enough passphrase"


@pytest.fixture
def olga(make_user):
    user = make_user("Operator", "User", name="olga")
    user.is_staff = True
    user.set_password(PASSWORD)
    user.save()
    return user


@pytest.fixture
def long_ago(olga):
    """A browser that was signed in yesterday."""
    client = Client()
    client.force_login(olga)
    session = client.session
    session[recent_password.CONFIRMED_AT_KEY] = session[recent_password.CONFIRMED_AT_KEY] - 86_400
    session.save()
    return client


def fields_of(page: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'<textarea name="([^"]+)" hidden>\n(.*?)</textarea>', page.content.decode(), re.DOTALL):
        found.setdefault(unescape(name), []).append(unescape(value))
    return found


def test_held_change_is_submitted_unchanged_after_password(long_ago, olga):
    change = {"name": "from <home>\nand “away”", "scopes": ["operator.read", "operator.write"], "days": "30", "form_id": "f1"}
    held = long_ago.post(reverse("make-token"), change)
    assert held.status_code == 403
    assert not AccessToken.objects.filter(name__startswith="from").exists()
    assert fields_of(held)[f"{confirm_password.HELD_PREFIX}scopes"] == change["scopes"]
    wrong = long_ago.post(reverse("confirm"), {"to": reverse("make-token"), "password": "guess", **fields_of(held)})
    assert wrong.status_code == 400
    assert fields_of(wrong) == fields_of(held), "a slip of the finger costs nothing either"
    thanks = long_ago.post(reverse("confirm"), {"to": reverse("make-token"), "password": PASSWORD, **fields_of(wrong)})
    assert thanks.status_code == 200
    assert {name: value[0] if len(value) == 1 else value for name, value in fields_of(thanks).items()} == change
    assert [entry.action for entry in AuditEntry.objects.order_by("-pk")[:2]] == ["sign_in.confirmed", "sign_in.failed"]
    assert long_ago.post(reverse("make-token"), fields_of(thanks)).status_code == 200
    assert AccessToken.objects.get(user=olga).scopes == change["scopes"]


@pytest.mark.parametrize("name", sorted(confirm_password.GUARDED_URLS))
def test_every_guarded_url_exists_and_requires_password(long_ago, name):
    possibilities, *_ = get_resolver().reverse_dict[name]
    address = reverse(name, kwargs=dict.fromkeys(possibilities[0][1], 1))
    assert long_ago.post(address).status_code == 403


def test_admin_rule_changes_require_password_but_reading_does_not(long_ago):
    address = reverse("admin:tools_app_execrule_add")
    assert long_ago.get(address).status_code == 200
    assert long_ago.post(address, {"scope": "installation", "security": "full"}).status_code == 403
    assert not ExecRule.objects.exists()
    rule = ExecRule.objects.create(scope="installation", security="deny")
    assert long_ago.post(reverse("admin:tools_app_execrule_delete", args=[rule.pk]) + "?seen=1", {"post": "yes"}).status_code == 403
    assert ExecRule.objects.exists()


def test_htmx_form_is_held_on_full_page(long_ago):
    held = long_ago.post(reverse("policy-save"), {"draft": "x"}, headers={"HX-Request": "true"})
    assert (held.status_code, held["HX-Retarget"]) == (200, "body")
    assert fields_of(held) == {f"{confirm_password.HELD_PREFIX}draft": ["x"]}


def test_freeze_never_requires_password(long_ago):
    assert long_ago.post(reverse("stop"), {"scope": "all", "reason": "smoke"}).status_code != 403


def test_resume_proceeds_after_password(long_ago):
    freezes.freeze("all", reason="smoke", by=None, by_name="host")
    wish = {"scope": "all", "reason": "it was steam"}
    held = long_ago.post(reverse("resume"), wish)
    assert (held.status_code, len(freezes.list_active())) == (403, 1)
    thanks = long_ago.post(reverse("confirm"), {"to": reverse("resume"), "password": PASSWORD, **fields_of(held)})
    long_ago.post(reverse("resume"), fields_of(thanks))
    assert freezes.list_active() == []


def test_recently_signed_in_user_is_not_prompted(olga):
    client = Client()
    client.force_login(olga)
    assert client.post(reverse("make-token"), {"name": ""}).status_code != 403


def test_confirmation_redirects_only_to_own_guarded_pages(long_ago):
    sent = {"password": PASSWORD, f"{confirm_password.HELD_PREFIX}x": "1"}
    assert long_ago.post(reverse("confirm"), {**sent, "to": reverse("sign-out")}).status_code == 403
    assert long_ago.post(reverse("confirm"), {"password": PASSWORD, "to": "https://example.org/"}).headers["Location"] == "/"


def test_password_guessing_is_throttled(long_ago):
    for _ in range(8):
        last = long_ago.post(reverse("confirm"), {"to": "/", "password": "guess"})
    assert last.status_code == 429


def test_removing_guard_lets_change_through(long_ago, monkeypatch):
    monkeypatch.setattr(recent_password, "is_recent", lambda _session: True)
    assert long_ago.post(reverse("let-ask"), {"agent": "main"}).status_code == 302
    assert ExecRule.objects.filter(scope="agent", subject="main").exists(), "so it is this guard that held it"


def test_socket_checks_cookie_for_recent_password(long_ago, olga):
    assert recent_password.is_cookie_recent(long_ago.cookies["clawsite_session"].value) is False
    client = Client()
    client.force_login(olga)
    assert recent_password.is_cookie_recent(client.cookies["clawsite_session"].value) is True


def test_stale_browser_session_cannot_create_token_over_rest(long_ago, olga):
    body = {"name": "mine", "scopes": ["operator.read"]}
    made = long_ago.post("/api/tokens", body, content_type="application/json")
    assert (made.status_code, made.json()["code"]) == (403, "FORBIDDEN"), made.content
    assert not AccessToken.objects.exists()
    client = Client()
    client.force_login(olga)
    assert client.post("/api/tokens", body, content_type="application/json").status_code == 201
