"""The handshake and later credential checks only read; writes are done by the writer thread."""

import asyncio
import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from clawsite.accounts.models import AccessToken, User
from clawsite.accounts.tokens import install_gateway_user
from clawsite.infra import db
from clawsite.infra.errors import Unavailable
from tests.harness.devices import FakeDevice
from tests.protocol.conftest import ORIGIN


@pytest.fixture
def read_about_devices():
    """Statements on reader threads about devices, in order."""
    return []


@pytest.fixture(autouse=True)
def written_by_readers(monkeypatch, read_about_devices):
    """Statements on reader threads that are not reads."""
    found = []

    def note(execute, sql, params, many, context):
        if "gateway_device" in sql or "gateway_pairing" in sql:
            read_about_devices.append(sql)
        if not sql.lstrip("( \n").upper().startswith("SELECT"):
            found.append(sql)
        return execute(sql, params, many, context)

    plainly = db._on_reader

    def watched(fn, args, kwargs):
        with connection.execute_wrapper(note):
            return plainly(fn, args, kwargs)

    monkeypatch.setattr(db, "_on_reader", watched)
    yield found
    assert found == []


@pytest.fixture
def used_at():
    return lambda: db.read(AccessToken.objects.values_list("last_used_at", flat=True).get)


async def test_token_use_is_recorded_after_handshake_once_a_minute(sockets, user, make_token, used_at, eventually):
    token = make_token(user)
    await sockets.connect(token)
    first = await eventually(used_at)
    await sockets.connect(token)
    await db.write(lambda: None)  # everything the second handshake had to write was written before this point
    assert await used_at() == first
    long_ago = timezone.now() - timedelta(minutes=2)
    await db.write(AccessToken.objects.all().update, last_used_at=long_ago)
    await sockets.connect(token)

    async def is_noted():
        return await used_at() > long_ago

    await eventually(is_noted)


async def test_handshake_does_not_wait_for_token_use_write(sockets, user, make_token, used_at, eventually):
    done = threading.Event()
    busy = asyncio.create_task(db.write(done.wait))
    try:
        assert await sockets.connect(make_token(user))
        assert await used_at() is None
    finally:
        done.set()
        await busy
    assert await eventually(used_at)


async def test_failed_token_use_write_does_not_block_connect(sockets, user, make_token, monkeypatch, caplog, eventually):
    def cannot(token_id):
        raise Unavailable("the disk of the database is full")

    monkeypatch.setattr("clawsite.accounts.tokens.record_use", cannot)
    socket = await sockets.connect(make_token(user))
    assert await socket.call("health")
    await eventually(lambda: "could not record the use of token" in caplog.text)


async def test_gateway_token_handshake_writes_nothing(sockets):
    socket = await sockets.connect()
    assert socket.hello["auth"]["scopes"] == ["operator.read", "operator.write"]


async def test_missing_gateway_account_error_includes_a_remedy(sockets):
    await db.write(User.objects.filter(is_service=True).delete)
    try:
        socket = await sockets.open()
        client = {"id": "test", "version": "1", "platform": "linux", "mode": "test"}
        first = {"minProtocol": 4, "maxProtocol": 4, "client": client, "auth": {"token": "test-gateway-token"}}
        refused = await socket.request("connect", first)
        assert "claw prepare" in refused["error"]["message"]
    finally:
        await db.write(install_gateway_user)


async def test_sign_in_with_old_password_is_rejected_and_kept(sockets, user, make_cookie):
    cookie = make_cookie(user)

    def change_password():
        user.set_password("another-long-password")
        user.save()

    await db.write(change_password)
    with pytest.raises(AssertionError, match="AUTH_REQUIRED"):
        await sockets.connect("", headers={"Origin": ORIGIN, "Cookie": cookie}, auth=None)


async def test_sign_in_under_fallback_secret_key_is_accepted_unchanged(sockets, user, make_cookie, settings):
    cookie = make_cookie(user)
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another-secret-key-for-this-test"
    for _ in range(2):
        socket = await sockets.connect("", headers={"Origin": ORIGIN, "Cookie": cookie}, auth=None)
        assert socket.hello["auth"]["scopes"] == ["operator.read", "operator.write"]


async def test_client_without_device_reads_no_device_rows(sockets, user, make_token, make_cookie, read_about_devices):
    await sockets.connect(make_token(user))
    await sockets.connect()
    await sockets.connect("", headers={"Origin": ORIGIN, "Cookie": make_cookie(user)}, auth=None)
    assert read_about_devices == []


async def test_known_device_handshake_needs_few_reads_and_no_write(sockets, user, make_token, read_about_devices):
    device, token = FakeDevice(), make_token(user)
    await device.connect(sockets, auth={"token": token})
    await db.write(lambda: None)  # everything the first handshake had to write was written before this point
    done = threading.Event()
    busy = asyncio.create_task(db.write(done.wait))
    try:
        read_about_devices.clear()
        await device.connect(sockets, auth={"token": token})
        assert len(read_about_devices) == 2, "the device and its token"
        read_about_devices.clear()
        await device.connect(sockets, auth={"token": device.token})
        assert len(read_about_devices) == 1, "both at once"
    finally:
        done.set()
        await busy
