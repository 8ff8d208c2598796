"""Error pages keep no database connection open, whatever thread Django renders them on."""

import threading
from contextlib import contextmanager

import pytest
from django.db.backends.signals import connection_created
from django.test import AsyncClient

from clawsite.web import error_pages

pytestmark = pytest.mark.usefixtures("plain_static_files")
ASKED = ("/nothing-here/", "/runs/2000000000/", "/policies/")  # two that don't exist, and one that requires permission


@contextmanager
def outside_of_requests():
    """Return the connections opened on threads other than this one and Django's request thread."""
    opened = []

    def made(connection, **_):
        if threading.current_thread().name.startswith("asyncio"):
            opened.append(connection)

    connection_created.connect(made)
    try:
        yield opened
    finally:
        connection_created.disconnect(made)
        for connection in opened:
            connection.inc_thread_sharing()
            connection.close()


async def ask(user):
    browser = AsyncClient(raise_request_exception=False)
    await browser.aforce_login(user)
    return [(await browser.get(path)).status_code for path in ASKED]


async def test_error_pages_release_their_database_connection(user):
    with outside_of_requests() as opened:
        assert await ask(user) == [404, 404, 403]
        assert opened, "nothing was rendered outside of a request: this looks at nothing"
        assert [each for each in opened if each.connection is not None] == []


async def test_unreleased_connection_is_detected(user, monkeypatch):
    monkeypatch.setattr(error_pages, "_release_connection", lambda page: page)
    with outside_of_requests() as opened:
        await ask(user)
        assert [each for each in opened if each.connection is not None]
