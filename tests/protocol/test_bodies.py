"""Request bodies and uploads: nothing is read before the sender is authenticated, and then no more than is accepted."""

import asyncio
import contextlib
import json

import pytest

from clawsite.connectors.webhook import views
from clawsite.infra import request_body
from clawsite.web.middleware.asgi_handler import LazyBodyHandler
from tests.harness.rest_client import CSRF
from tests.harness.webhooks import create_webhook

MB = 1 << 20
PLACES = [
    "POST /v1/chat/completions",
    "POST /v1/responses",
    "POST /responses",
    "POST /tools/invoke",
    "POST /api/sessions",
    "PATCH /api/sessions/x",
    "POST /attachments/",
]


@pytest.fixture(autouse=True)
def _files(settings):
    settings.STORAGES = {**settings.STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}


class Line:
    """A connection on which a request is sent piece by piece."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    def head(self, operation, *headers):
        lines = [f"{operation} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers, "", ""]
        self.writer.write("\r\n".join(lines).encode())

    async def send(self, size):
        """Return how much of the request the server accepted before it closed the connection."""
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < size:
                self.writer.write(b"[" * 65_536)
                await self.writer.drain()
                sent += 65_536
        return sent

    async def answer(self):
        """Status, headers, body."""
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 20)).decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        chunked = "content-length" not in headers
        body = self.reader.readuntil(b"0\r\n\r\n") if chunked else self.reader.readexactly(int(headers["content-length"]))
        return int(head[0].split()[1]), headers, await asyncio.wait_for(body, 20)

    async def is_closed(self):
        with contextlib.suppress(ConnectionError):
            return await asyncio.wait_for(self.reader.read(), 20) == b""
        return True


@pytest.fixture
async def dial(address):
    lines = []

    async def call():
        host, port = address.split(":")
        lines.append(Line(*await asyncio.open_connection(host, int(port))))
        return lines[-1]

    yield call
    for line in lines:
        line.writer.close()


@pytest.fixture
def kept(monkeypatch):
    """Return how many bytes of bodies were read from the server."""
    pieces = []
    fill = request_body.DeferredBody._fill

    async def counted(self, file, most):
        receive = self._receive

        async def counting():
            message = await receive()
            pieces.append(len(message.get("body", b"")))
            return message

        self._receive = counting
        return await fill(self, file, most)

    monkeypatch.setattr(request_body.DeferredBody, "_fill", counted)
    monkeypatch.setattr(request_body, "LINGER_SECONDS", 0.2)
    return pieces


@pytest.fixture
def token(user, make_token):
    return make_token(user)


@pytest.mark.parametrize("credential", ["", "Authorization: Bearer claw_wrong", "Cookie: sessionid=wrong"])
@pytest.mark.parametrize("operation", PLACES)
async def test_unauthenticated_request_is_rejected_before_body_arrives(dial, kept, operation, credential):
    line = await dial()
    line.head(operation, "Content-Length: 20000000", *filter(None, [credential]))
    status, headers, _ = await line.answer()  # although not one byte of the body was sent
    assert (status, headers["connection"], kept) == (401, "close", [])
    assert await line.is_closed()


async def test_unauthenticated_body_is_discarded(dial, kept):
    line = await dial()
    line.head("POST /v1/chat/completions", "Transfer-Encoding: chunked")
    for _ in range(3):
        line.writer.write(b"10000\r\n" + b"[" * 65_536 + b"\r\n")
    assert (await line.answer())[0] == 401
    assert await line.send(200 * MB) < 200 * MB  # the server no longer reads
    assert kept == []


async def test_unauthenticated_client_gets_response_after_sending_first(dial, kept):
    line = await dial()
    line.head("POST /v1/chat/completions", "Content-Length: 1000000")
    assert await line.send(1_000_000 - 65_536) >= 1_000_000 - 65_536
    line.writer.write(b"[" * (1_000_000 % 65_536))
    assert (await line.answer())[0] == 401
    assert await line.is_closed()
    assert kept == []


async def test_unauthenticated_small_body_keeps_connection_alive(dial, kept):
    line = await dial()
    for _ in range(2):
        line.head("POST /v1/chat/completions", "Content-Length: 2")
        line.writer.write(b"{}")
        status, headers, _ = await line.answer()
        assert (status, headers.get("connection"), kept) == (401, None, [])


async def test_slow_unauthenticated_client_is_not_awaited(dial):
    line = await dial()
    line.head("POST /api/sessions", "Transfer-Encoding: chunked")
    line.writer.write(b"1\r\n{\r\n")
    assert (await line.answer())[0] == 401


@pytest.mark.parametrize("operation", [place for place in PLACES if "attachments" not in place])
async def test_unauthorized_request_is_rejected_before_body_arrives(dial, kept, user, make_token, make_cookie, settings, operation):
    """The request lacks the scope, or comes from another site's page, so it has the cookie but not the header."""
    foreign = f"Cookie: {make_cookie(user)}; {settings.CSRF_COOKIE_NAME}={CSRF}"
    for credential in (f"Authorization: Bearer {make_token(user, 'operator.read')}", foreign):
        line = await dial()
        line.head(operation, "Content-Length: 20000000", credential)
        assert (await line.answer())[0] == 403
    assert kept == []
    line = await dial()
    line.head(operation, "Content-Length: 2", foreign, f"X-CSRFToken: {CSRF}")
    line.writer.write(b"[]")
    assert (await line.answer())[0] in (400, 404)
    assert sum(kept) == 2


@pytest.mark.parametrize(
    ("operation", "most"),
    [
        ("POST /v1/responses", 20 * MB),
        ("POST /tools/invoke", 2 * MB),
        ("POST /api/sessions", 64 << 10),
        ("POST /hooks/x", 256 << 10),
    ],
)
async def test_each_operation_enforces_its_body_limit(dial, token, kept, operation, most):
    line = await dial()
    line.head(operation, f"Content-Length: {most + 1}", f"Authorization: Bearer {token}")
    status, _, told = await line.answer()
    assert (status, b"the request exceeds the limit" in told, kept) == (413, True, [])
    assert (b"request_too_large" in told) == ("/v1/" in operation)
    line = await dial()
    line.head(operation, "Transfer-Encoding: chunked", f"Authorization: Bearer {token}")
    sending = asyncio.create_task(send_chunks(line, most + 2 * 65_536))
    assert (await line.answer())[0] == 413
    await sending
    assert most < sum(kept) <= most + 2 * 65_536 + 65_536


async def send_chunks(line, size):
    with contextlib.suppress(ConnectionError):
        for _ in range(size // 65_536 + 1):
            line.writer.write(b"10000\r\n" + b" " * 65_536 + b"\r\n")
            await line.writer.drain()


async def test_slow_body_times_out(dial, token, monkeypatch):
    monkeypatch.setattr(views, "MAX_BODY_SECONDS", 0.2)
    line = await dial()
    line.head("POST /hooks/news", "Content-Length: 100")
    line.writer.write(b"{")
    assert (await line.answer())[0] == 408


async def test_client_disconnect_during_body_leaves_nothing_behind(dial, token, caplog, monkeypatch):
    begun, ended = asyncio.Event(), asyncio.Event()
    handle = LazyBodyHandler.handle

    async def watched(self, *given):
        begun.set()
        try:
            await handle(self, *given)
        finally:
            ended.set()

    monkeypatch.setattr(LazyBodyHandler, "handle", watched)
    line = await dial()
    line.head("POST /v1/chat/completions", "Content-Length: 5000", f"Authorization: Bearer {token}")
    line.writer.write(b"{")
    await asyncio.wait_for(begun.wait(), 20)
    line.writer.close()
    await asyncio.wait_for(ended.wait(), 20)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("pad", [0, 100_000])
async def test_accepted_body_is_parsed_at_any_size(dial, token, pad):
    line = await dial()
    body = json.dumps({"messages": [{"role": "nobody", "content": "x" * pad}]}).encode()
    line.head("POST /v1/chat/completions", f"Content-Length: {len(body)}", f"Authorization: Bearer {token}")
    line.writer.write(body)
    status, headers, told = await line.answer()
    assert (status, headers.get("connection")) == (400, None)
    assert b'"param": "messages[0].role"' in told


@pytest.mark.parametrize(
    ("operation", "most"), [("POST /v1/responses", 50_000), ("POST /tools/invoke", 20_000), ("POST /api/sessions", 1_000)]
)
async def test_body_with_too_many_values_is_rejected_before_parsing(dial, token, operation, most):
    line = await dial()
    body = b"[" + b"0," * most + b"0]"
    line.head(operation, f"Content-Length: {len(body)}", f"Authorization: Bearer {token}")
    line.writer.write(body)
    status, _, told = await line.answer()
    assert status == 400
    assert f"limit of {most} values" in told.decode()


async def test_rate_limited_webhook_request_is_rejected_before_body_read(dial, kept, make_user):
    create_webhook(make_user("Operator"))
    for _ in range(20):
        line = await dial()
        line.head("POST /hooks/news", "Content-Length: 2")
        line.writer.write(b"{}")
        assert (await line.answer())[0] == 401
    kept.clear()
    line = await dial()
    line.head("POST /hooks/news", "Content-Length: 200000")
    assert (await line.answer())[0] == 429
    assert kept == []
