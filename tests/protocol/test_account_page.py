"""Changes on the account page and open sockets: tokens created there work, and stop working when revoked."""

import re

import pytest
from django.test import Client

from clawsite.accounts.models import AccessToken
from clawsite.accounts.sign_in import browsers
from clawsite.infra import db
from tests.harness.users import PASSWORD
from tests.protocol.conftest import ORIGIN

NEW = "quite another passphrase"
TOKEN = {"name": "laptop", "scopes": ["operator.read", "operator.write"], "days": "30", "form_id": "a"}


@pytest.fixture
def browser(database, settings, user):
    settings.STORAGES = {**settings.STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
    client = Client()
    client.force_login(user)
    return client


async def post(browser, path, **fields):
    """Submit the page's form, in a thread where the database can be used."""
    return await db.write(lambda: browser.post(path, fields, follow=True).content.decode())


def cookie(browser, settings):
    return {"Origin": ORIGIN, "Cookie": f"{settings.SESSION_COOKIE_NAME}={browser.cookies[settings.SESSION_COOKIE_NAME].value}"}


async def test_token_from_account_page_works_until_revoked_there(sockets, browser):
    secret = re.search(r'value="(claw_[^"]+)"', await post(browser, "/account/tokens/", **TOKEN))[1]
    socket = await sockets.connect(secret)
    assert set(socket.hello["auth"]["scopes"]) == {"operator.read", "operator.write"}
    assert await socket.call("sessions.list")
    token = await db.read(AccessToken.objects.get)
    await post(browser, f"/account/tokens/{token.pk}/revoke/")
    assert await socket.closed() == (4001, "auth changed")
    with pytest.raises(AssertionError, match="AUTH_|UNAUTHORIZED"):
        await sockets.connect(secret)


async def test_remote_sign_out_closes_the_browsers_socket(sockets, browser, user, settings):
    other = Client()
    await db.write(other.force_login, user)
    mine = await sockets.connect("", headers=cookie(browser, settings), auth=None)
    theirs = await sockets.connect("", headers=cookie(other, settings), auth=None)
    row = await db.read(lambda: browsers.list_browsers(user).get(session_id=other.cookies[settings.SESSION_COOKIE_NAME].value))
    await post(browser, f"/account/browsers/{row.pk}/sign-out/")
    assert await theirs.closed() == (4001, "auth changed")
    assert await mine.call("health")


async def test_password_change_closes_sockets_and_current_browser_reconnects(sockets, browser, user, settings):
    other = Client()
    await db.write(other.force_login, user)
    opened = [await sockets.connect("", headers=cookie(one, settings), auth=None) for one in (browser, other)]
    await post(browser, "/account/password/", old_password=PASSWORD, new_password1=NEW, new_password2=NEW)
    assert [await socket.closed() for socket in opened] == [(4001, "auth changed")] * 2
    assert await sockets.connect("", headers=cookie(browser, settings), auth=None)
    with pytest.raises(AssertionError, match="AUTH_|UNAUTHORIZED"):
        await sockets.connect("", headers=cookie(other, settings), auth=None)


async def test_browser_with_open_socket_counts_as_active(sockets, browser, user, settings, monkeypatch, eventually):
    monkeypatch.setattr("clawsite.gateway.protocol.limits.SEEN_SECONDS", 0.0)
    monkeypatch.setattr("clawsite.gateway.protocol.limits.TICK_SECONDS", 0.05)
    await sockets.connect("", headers=cookie(browser, settings), auth=None)
    before = (await db.read(lambda: browsers.list_browsers(user).get())).last_seen_at
    assert await eventually(lambda: db.read(lambda: browsers.list_browsers(user).filter(last_seen_at__gt=before).exists()))
