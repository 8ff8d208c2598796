"""Forms that are too large are rejected before they are buffered, whoever sends them."""

import asyncio

import pytest

from clawsite.web.middleware import body_limit

HEAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n%s\r\n\r\n"


@pytest.fixture(autouse=True)
def _small(monkeypatch, settings):
    monkeypatch.setattr(body_limit, "MAX_FORM_BYTES", 100_000)
    settings.STORAGES = {**settings.STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}


async def answer(address, *parts):
    """Return the first line of the response; the rest of the request is never sent."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for part in parts:
        writer.write(part)
    line = await asyncio.wait_for(reader.readline(), 20)
    writer.close()
    return line.split()[1]


async def test_oversized_content_length_is_rejected_before_body_arrives(address):
    assert await answer(address, HEAD % (b"/sign-in/", b"Content-Length: 100001")) == b"413"


async def test_chunked_body_is_rejected_once_over_limit(address):
    chunk = b"c350\r\n" + b"x" * 50_000 + b"\r\n"
    assert await answer(address, HEAD % (b"/sign-in/", b"Transfer-Encoding: chunked"), chunk, chunk, chunk) == b"413"


@pytest.mark.parametrize("path", [b"/sign-in/", b"/nowhere/"])
async def test_body_within_limit_reaches_the_view(address, path):
    assert await answer(address, HEAD % (path, b"Content-Length: 3"), b"abc") in (b"403", b"404", b"302")
