"""A server for each protocol test, sockets to it, access tokens."""

import pytest

from tests.harness.gateway import serve_gateway
from tests.harness.manual_worker import ManualWorker
from tests.harness.protocol import SocketClients

ORIGIN = "http://gateway.test:8765"


@pytest.fixture(autouse=True)
def _fast_passwords(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the real one takes up to a second


@pytest.fixture
async def address(database, settings):
    from clawsite.accounts.models import FailedSignIns

    FailedSignIns.objects.all().delete()  # left by the test that guesses tokens: all clients share one address
    settings.ALLOWED_ORIGINS = [ORIGIN]
    settings.POLL_SECONDS = 0.2
    async with serve_gateway() as address:
        yield address


@pytest.fixture
async def sockets(address):
    clients = SocketClients(address)
    yield clients
    await clients.close()


@pytest.fixture
def worker():
    return ManualWorker()


@pytest.fixture
def make_token(database):
    """Create access tokens: make_token(user) has all of the account's scopes, make_token(user, "operator.read") only that one."""
    from tests.harness.users import create_token

    return create_token


@pytest.fixture
def make_cookie(database):
    """Sign a user in as a browser does. Returns the Cookie header."""
    from django.conf import settings

    from tests.harness.users import session_cookie

    return lambda user: f"{settings.SESSION_COOKIE_NAME}={session_cookie(user)}"
