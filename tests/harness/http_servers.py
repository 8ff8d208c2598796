"""Remote web servers on 127.0.0.1 with responses chosen by the test, and a fake DNS resolver."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address

from aiohttp import web

from clawsite.infra.fetch import client as fetch_client
from clawsite.infra.fetch.addresses import IpAddress
from clawsite.infra.fetch.targets import FetchFailed

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class HttpServer:
    """A running server. `url` has its address; a `FakeResolver` can map other names to it."""

    port: int
    scheme: str
    requests: list[web.Request] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)  # a client disconnected during the response

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def at(self, name: str, path: str = "/") -> str:
        return f"{self.scheme}://{name}:{self.port}{path}"

    @property
    def allow(self) -> fetch_client.Allowlist:
        return fetch_client.Allowlist.parse(f"127.0.0.1:{self.port}")


@asynccontextmanager
async def http_server(
    answer: Answer | dict[str, Answer | web.Response], *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[HttpServer]:
    """Run a server with one handler for all paths, or a handler or response per path."""
    running = HttpServer(port, "https" if tls else "http")

    async def handle(request: web.Request) -> web.StreamResponse:
        running.requests.append(request)
        await request.read()
        chosen = answer if callable(answer) else answer.get(request.path, web.Response(status=404, text="not here"))
        if isinstance(chosen, web.Response):
            return web.Response(status=chosen.status, body=chosen.body, headers=chosen.headers)
        try:
            return await chosen(request)
        except asyncio.CancelledError:
            running.left.set()
            raise

    server = web.Server(handle, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, host, port, ssl_context=tls).start()
    running.port = runner.addresses[0][1]
    try:
        yield running
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_server(reply: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[HttpServer]:
    """Run a server for malformed HTTP responses. `reply` is called after the request header has been read."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await reply(reader, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield HttpServer(server.sockets[0].getsockname()[1], "http")
    finally:
        server.close()


class FakeResolver:
    """A DNS resolver. Successive lookups of a name return the addresses of its list in turn; the last one repeats."""

    def __init__(self, **answers: str | list[str]) -> None:
        self.asked: list[str] = []
        self._answers = {
            name.replace("__", "."): list(each) if isinstance(each, list) else [each] for name, each in answers.items()
        }

    async def resolve(self, host: str, port: int) -> list[IpAddress]:
        self.asked.append(host)
        if host not in self._answers:
            raise FetchFailed(f"the name {host} can't be resolved")
        answers = self._answers[host]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return [ip_address(text) for text in answer.split()]


def text_response(text: str, **headers: str) -> web.Response:
    return web.Response(text=text, headers=headers)


def redirect_to(url: str, status: int = 302) -> web.Response:
    """Return a redirect."""
    return web.Response(status=status, headers={"location": url})


async def never_respond(request: web.Request) -> web.StreamResponse:
    """Never respond."""
    await asyncio.Event().wait()
    raise AssertionError


async def drip_bytes(request: web.Request) -> web.StreamResponse:
    """Send one byte at a time, forever."""
    response = web.StreamResponse(headers={"content-type": "text/plain"})
    await response.prepare(request)
    while True:
        await response.write(b"x")
        await asyncio.sleep(0.01)
