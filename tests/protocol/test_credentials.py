"""Sockets outlive sign-ins: what happens to them when the account, token or session changes."""

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from clawsite.accounts import change_notices
from clawsite.accounts.models import AccessToken
from clawsite.accounts.tokens import revoke_token
from clawsite.infra import db
from tests.protocol.conftest import ORIGIN

SEND = {"sessionKey": "agent:main:main", "message": "hi", "idempotencyKey": "k"}


async def test_revoked_token_closes_only_its_own_sockets(sockets, user, make_token):
    first, second = make_token(user), make_token(user)
    revoked, kept = await sockets.connect(first), await sockets.connect(second)
    await db.write(lambda: revoke_token(AccessToken.objects.order_by("pk").first()))
    assert await revoked.closed() == (4001, "auth changed")
    assert await kept.call("health")


async def test_deactivated_account_closes_its_sockets(sockets, user, make_token):
    socket = await sockets.connect(make_token(user))

    def close_account():
        user.is_active = False
        user.save()

    await db.write(close_account)
    assert await socket.closed() == (4001, "auth changed")


async def test_sign_out_closes_the_browsers_socket(sockets, user, make_cookie):
    cookie = make_cookie(user)
    socket = await sockets.connect("", headers={"Origin": ORIGIN, "Cookie": cookie}, auth=None)

    def sign_out():
        browser = Client()
        browser.cookies.load(cookie)
        browser.logout()
        change_notices.notify_account_changed(user.pk)  # what the sign-out page does

    await db.write(sign_out)
    assert await socket.closed() == (4001, "auth changed")


async def test_password_change_closes_sockets_of_old_sign_ins(sockets, user, make_cookie):
    socket = await sockets.connect("", headers={"Origin": ORIGIN, "Cookie": make_cookie(user)}, auth=None)

    def change_password():
        user.set_password("another-long-password")
        user.save()

    await db.write(change_password)
    assert await socket.closed() == (4001, "auth changed")


async def test_removed_permission_takes_effect_immediately(sockets, user, make_token):
    socket = await sockets.connect(make_token(user))
    assert (await socket.request("chat.send", SEND))["ok"]
    await db.write(lambda: user.groups.remove(Group.objects.get(name="User")))
    refused = await socket.request("chat.send", {**SEND, "idempotencyKey": "k2"})
    assert refused["error"]["code"] == "FORBIDDEN"


async def test_added_permission_takes_effect_without_reconnecting(sockets, make_user, make_cookie):
    user = make_user("Auditor")
    socket = await sockets.connect("", headers={"Origin": ORIGIN, "Cookie": make_cookie(user)}, auth=None)
    assert (await socket.request("chat.send", SEND))["error"]["code"] == "FORBIDDEN"
    await db.write(lambda: user.groups.add(Group.objects.get(name="User")))
    assert (await socket.request("chat.send", SEND))["ok"]


@pytest.mark.parametrize("scopes", [["operator.admin", "operator.approvals"], ["operator.pairing"]])
async def test_connection_never_exceeds_account_permissions(sockets, user, make_token, scopes):
    socket = await sockets.connect(make_token(user), scopes=scopes)
    assert set(socket.hello["auth"]["scopes"]) <= {"operator.read", "operator.write"}


async def test_credential_is_rechecked_without_change_notification(sockets, user, make_token, monkeypatch):
    socket = await sockets.connect(make_token(user))
    monkeypatch.setattr("clawsite.gateway.protocol.limits.RECHECK_SECONDS", 0.0)
    await db.write(AccessToken.objects.all().delete)  # without a notification
    await socket.send({"type": "req", "id": "1", "method": "health"})
    assert await socket.closed() == (4001, "auth changed")


async def test_stale_browser_session_can_freeze_but_not_resume(sockets, make_user, make_cookie, settings):
    cookie = await db.write(make_cookie, make_user("Operator"))
    desk = await sockets.connect("", headers={"Origin": ORIGIN, "Cookie": cookie}, auth=None)
    settings.CONFIRM_MINUTES = -1
    assert (await desk.request("panic.stop", {"scope": "all", "reason": "smoke"}))["ok"]
    answer = await desk.request("panic.resume", {"scope": "all", "reason": "it was steam"})
    assert answer["error"]["details"]["code"] == "CONFIRMATION_REQUIRED"
    settings.CONFIRM_MINUTES = 30
    assert (await desk.request("panic.resume", {"scope": "all", "reason": "it was steam"}))["ok"]
