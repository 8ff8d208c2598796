"""Pages of other programs, such as OpenClaw's browser UI: they can connect with a token, but not with our cookie."""

import pytest

from clawsite.gateway.server import handshake
from tests.harness.devices import FakeDevice
from tests.protocol.conftest import ORIGIN

THEIRS = ORIGIN.replace("8765", "3000")


@pytest.fixture
def page(settings, make_user, make_cookie):
    """The headers that a browser sends for such a page, with a user who is signed in here."""
    settings.CLIENT_ORIGINS = [THEIRS]
    return {"Origin": THEIRS, "Cookie": make_cookie(make_user(name="ada"))}


async def test_page_from_allowed_origin_connects_with_a_token(sockets, page, make_user, make_token):
    socket = await sockets.connect(make_token(make_user(name="bob")), headers=page)
    assert (await socket.call("health"))["ok"] is True
    assert socket.hello["auth"]["scopes"]


async def test_cookie_from_allowed_origin_is_ignored(sockets, page):
    socket = await sockets.open(headers=page)
    answer = await socket.request("connect", {"minProtocol": 4, "maxProtocol": 4, "client": {"id": "x"}})
    assert answer["error"]["details"] == {"code": "AUTH_REQUIRED"}


async def knocks_with_a_device(sockets, page):
    return (await FakeDevice().try_connect(sockets, headers=page))[1]


async def test_cookie_from_allowed_origin_is_ignored_with_device(sockets, page):
    answer = await knocks_with_a_device(sockets, page)
    assert not answer["ok"], "a device that nobody knows"


async def test_accepting_cookie_from_allowed_origin_is_detected(sockets, page, monkeypatch):
    monkeypatch.setattr(handshake, "replace", lambda knock, **_: knock)
    assert (await knocks_with_a_device(sockets, page))["ok"]


async def test_unlisted_origin_is_rejected_with_any_token(sockets, page, settings):
    settings.CLIENT_ORIGINS = []
    socket = await sockets.open(headers=page)
    asked = {"minProtocol": 4, "maxProtocol": 4, "client": {"id": "x"}, "auth": {"token": "test-gateway-token"}}
    answer = await socket.request("connect", asked)
    assert answer["error"]["details"] == {"code": "CONTROL_UI_ORIGIN_NOT_ALLOWED"}
