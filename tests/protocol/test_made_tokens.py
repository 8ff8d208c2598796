"""Tokens that programs create with their own: never more powerful than the parent, and revoked with it, also on open sockets."""

import datetime as dt

import pytest

from clawsite.accounts import models, tokens
from clawsite.accounts.models import AccessToken
from clawsite.accounts.tokens import find_principal, issue_token, limit_token, revoke_token
from clawsite.gateway.auth import authority
from clawsite.gateway.auth.authority import Credential, read_access
from clawsite.gateway.models import DeviceToken
from clawsite.infra import clock, db
from clawsite.infra.errors import Forbidden
from tests.harness.devices import FakeDevice
from tests.harness.rest_client import RestClient

CHAT = ["operator.read", "operator.write"]


@pytest.fixture
def first(user):
    """Return a token and its secret, as created by a person."""
    return issue_token(user, "robot", CHAT, clock.now() + dt.timedelta(days=1))


def made_with(first, *scopes):
    token, secret = issue_token(first[0].user, "helper", list(scopes or CHAT), made_with=first[0])
    return token, secret


def expire(token):
    AccessToken.objects.filter(pk=token.pk).update(expires_at=clock.now() - dt.timedelta(seconds=1))
    tokens.change_notices.notify_account_changed(token.user_id)  # sockets recheck every minute


ENDS = {"revoked": revoke_token, "expired": expire, "deleted": lambda token: token.delete()}


async def test_rest_token_is_bound_to_its_parent_token(address, first):
    made = (await RestClient(first[1]).post("/tokens", {"name": "helper", "scopes": CHAT, "expiresAt": 4_102_444_800_000})).data
    assert made["madeWith"] == first[0].pk
    assert made["expiresAt"] == clock.to_ms(first[0].expires_at)
    refused = await RestClient(made["secret"]).post("/tokens", {"name": "more", "scopes": CHAT})
    assert (refused.status_code, "created with another token" in refused.data["detail"]) == (403, True)


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_child_token_and_sockets_end_with_parent(address, sockets, first, end):
    helper, secret = made_with(first)
    socket = await sockets.connect(secret)
    assert (await RestClient(secret).get("/sessions")).status_code == 200
    await db.write(end, first[0])
    assert (await socket.closed())[0] == 4001
    assert (await RestClient(secret).get("/sessions")).status_code == 401
    assert find_principal(secret) is None
    assert read_access(Credential("api-token", token_id=helper.pk)) is None


@pytest.mark.parametrize("end", [revoke_token, expire], ids=["revoked", "expired"])
def test_missing_parent_check_is_detected(first, end, monkeypatch):
    """Deliberate fault: only the token's own expiration counts."""
    helper, secret = made_with(first)
    end(first[0])
    assert find_principal(secret) is None
    monkeypatch.setattr(authority, "valid_token_filter", lambda: models.Q(revoked_at__isnull=True))
    assert read_access(Credential("api-token", token_id=helper.pk))


def test_child_token_inherits_current_parent_scopes_and_limits(first):
    helper, secret = made_with(first, *CHAT, "operator.admin")
    assert helper.scopes == CHAT
    AccessToken.objects.filter(pk=first[0].pk).update(scopes=["operator.read"])
    limit_token(AccessToken.objects.get(pk=first[0].pk), allow_tools=["read", "write"], deny_tools=["exec"])
    found = find_principal(secret)
    assert found.scopes == {"operator.read"}
    assert found.user.key_limits == {"name": helper.prefix, "allow": ["read", "write"], "deny": ["exec"]}
    limit_token(helper, allow_tools=["write", "web_fetch"], deny_tools=[])
    assert find_principal(secret).user.key_limits == {"name": helper.prefix, "allow": ["write"], "deny": ["exec"]}
    limit_token(helper, allow_tools=["web_fetch"], deny_tools=[])
    assert find_principal(secret).user.key_limits["deny"] == ["*"]


def test_child_token_cannot_create_tokens(first):
    helper, _secret = made_with(first)
    with pytest.raises(Forbidden):
        issue_token(helper.user, "more", CHAT, made_with=helper)


async def test_device_paired_by_child_token_ends_with_parent(address, sockets, first):
    _helper, secret = made_with(first)
    device = FakeDevice()
    await device.connect(sockets, auth={"token": secret}, scopes=CHAT)
    assert await db.read(DeviceToken.objects.valid().count) == 1
    socket = await device.connect(sockets, auth={"token": device.token}, scopes=CHAT)
    await db.write(revoke_token, first[0])
    assert (await socket.closed())[0] == 4001
    assert await db.read(DeviceToken.objects.valid().count) == 0


@pytest.mark.usefixtures("plain_static_files")
def test_account_page_shows_the_parent_token(first, user):
    from django.test import Client

    helper, _secret = made_with(first)
    browser = Client()
    browser.force_login(user)
    assert "Created with “robot” and revoked with it" in browser.get("/account/").content.decode()
    revoke_token(first[0])
    page = browser.get("/account/").content.decode()
    assert "Created with" not in page
    assert "revoked with “robot”" in page
    helper.refresh_from_db()
    assert (helper.revoked_at, helper.has_ended) == (None, True)
