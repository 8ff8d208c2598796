"""A server for each test of the protocol, sockets to it, people with tokens."""

import pytest

from tests.harness.gateway import serve_gateway
from tests.harness.manual_worker import ManualWorker
from tests.harness.protocol import SocketClients

ORIGIN = "http://gateway.test:8765"


@pytest.fixture(autouse=True)
def _quick_passwords(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the real one takes a second on a busy machine


@pytest.fixture
async def address(database, settings):
    from clawsite.accounts.models import FailedSignIns

    FailedSignIns.objects.all().delete()  # of the test that guesses tokens: everybody here has the same address
    settings.ALLOWED_ORIGINS = [ORIGIN]
    settings.POLL_SECONDS = 0.2
    async with serve_gateway() as address:
        yield address


@pytest.fixture
async def sockets(address):
    opened = SocketClients(address)
    yield opened
    await opened.close()


@pytest.fixture
def hand():
    return ManualWorker()


@pytest.fixture
def token_of(database):
    """Make tokens: token_of(user) has all of the account's scopes, token_of(user, "operator.read") only that."""
    from clawsite.accounts.groups import scopes_of
    from clawsite.accounts.tokens import issue_token

    def make(user, *scopes: str) -> str:
        return issue_token(user, "test", list(scopes or scopes_of(user)))[1]

    return make


@pytest.fixture
def cookie_of(database):
    """Sign somebody in as a browser would be; returns the Cookie header."""
    from django.conf import settings
    from django.test import Client

    def sign_in(user) -> str:
        browser = Client()
        browser.force_login(user)
        name = settings.SESSION_COOKIE_NAME
        return f"{name}={browser.cookies[name].value}"

    return sign_in
