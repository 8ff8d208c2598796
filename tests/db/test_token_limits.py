"""Tool limits of access tokens: given on the command line, changed in the admin, and noted in the audit log."""

import pytest
from django.test import Client
from django.urls import reverse

from clawsite.accounts.models import AccessToken
from clawsite.accounts.tokens import find_principal, issue_token
from clawsite.infra.errors import Forbidden, InvalidRequest
from clawsite.infra.models import AuditEntry
from tests.db.test_cli_token import claw_token


@pytest.fixture
def browser(make_user):
    user = make_user("Operator", "User")
    user.is_staff = True
    user.save()
    client = Client()
    client.force_login(user)
    client.user = user
    return client


def test_cli_accepts_tool_lists_and_warns_about_unknown_names(make_user, capsys):
    make_user(name="ada")
    claw_token("create", "--user", "ada", "--name", "ci", "--allow-tools", "read,group:web", "--deny-tools", "exce")
    said = capsys.readouterr()
    assert "'exce'" in said.err
    assert "'read'" not in said.err
    limits = find_principal(said.out.splitlines()[0]).user.key_limits
    assert (limits["allow"], limits["deny"]) == (["read", "group:web"], ["exce"])
    claw_token("list", "--user", "ada")
    assert "allow read,group:web" in capsys.readouterr().out


@pytest.mark.usefixtures("plain_static_files")
def test_token_admin_can_change_only_tool_limits(browser):
    form = {
        "name": "ci",
        "scopes": ["operator.read"],
        "expires_at_0": "2099-01-01",
        "expires_at_1": "00:00:00",
        "allow_tools": "read\nsessions_*",
        "deny_tools": "",
    }
    made = browser.post(reverse("admin:accounts_accesstoken_add"), form, secure=True)
    assert made.status_code == 200, made.content
    token = AccessToken.objects.get(user=browser.user)
    assert token.tools == {"allow": ["read", "sessions_*"]}
    page = reverse("admin:accounts_accesstoken_change", args=[token.pk])
    assert "sessions_*" in browser.get(page, secure=True).content.decode()
    browser.post(page, {"name": "other", "scopes": "operator.write", "allow_tools": "", "deny_tools": "exec, read"}, secure=True)
    token.refresh_from_db()
    assert (token.name, token.scopes, token.tools) == ("ci", ["operator.read"], {"deny": ["exec", "read"]})
    entry = AuditEntry.objects.get(action="token.limited", subject_id=str(token.pk))
    assert entry.details["tools"] == {"deny": ["exec", "read"]}
    wrong = browser.post(page, {"allow_tools": "re*ad", "deny_tools": ""}, secure=True)
    assert "sessions_*" in wrong.content.decode()
    token.refresh_from_db()
    assert token.tools == {"deny": ["exec", "read"]}


def test_unmatchable_pattern_is_rejected(user):
    with pytest.raises(InvalidRequest, match="The deny list"):
        issue_token(user, "x", [], deny_tools=["re*ad"])


def test_limited_token_cannot_create_unlimited_token(user):
    _token, secret = issue_token(user, "ci", ["operator.write"], deny_tools=["exec"])
    with pytest.raises(Forbidden, match="tool limits"):
        issue_token(find_principal(secret).user, "free", ["operator.write"])
