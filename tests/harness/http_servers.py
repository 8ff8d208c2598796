"""The world outside, on 127.0.0.1: web servers that answer as a test says, and names that lead where it says."""

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
class Site:
    """A server that is up. `url` has its address; other names lead here through a `Names`."""

    port: int
    scheme: str
    requests: list[web.Request] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)  # a client went away in mid-answer

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def at(self, name: str, path: str = "/") -> str:
        return f"{self.scheme}://{name}:{self.port}{path}"

    @property
    def allow(self) -> fetch_client.Allowlist:
        return fetch_client.Allowlist.parse(f"127.0.0.1:{self.port}")


@asynccontextmanager
async def site(
    answer: Answer | dict[str, Answer | web.Response], *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Site]:
    """A server: one handler for all paths, or a handler or a ready response for each."""
    found = Site(port, "https" if tls else "http")

    async def handle(request: web.Request) -> web.StreamResponse:
        found.requests.append(request)
        await request.read()
        chosen = answer if callable(answer) else answer.get(request.path, web.Response(status=404, text="not here"))
        if isinstance(chosen, web.Response):
            return web.Response(status=chosen.status, body=chosen.body, headers=chosen.headers)
        try:
            return await chosen(request)
        except asyncio.CancelledError:
            found.left.set()
            raise

    server = web.Server(handle, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, host, port, ssl_context=tls).start()
    found.port = runner.addresses[0][1]
    try:
        yield found
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_site(reply: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[Site]:
    """A server for answers that are no proper HTTP; the request's header has been read when `reply` is called."""

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
        yield Site(server.sockets[0].getsockname()[1], "http")
    finally:
        server.close()


class Names:
    """A name server. A list of answers is given one after the other, the last one for ever."""

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


def says(text: str, **headers: str) -> web.Response:
    return web.Response(text=text, headers=headers)


def to(url: str, status: int = 302) -> web.Response:
    """A redirect."""
    return web.Response(status=status, headers={"location": url})


async def forever(request: web.Request) -> web.StreamResponse:
    """Never answers."""
    await asyncio.Event().wait()
    raise AssertionError


async def drip(request: web.Request) -> web.StreamResponse:
    """Answers with a byte now and then, without end."""
    response = web.StreamResponse(headers={"content-type": "text/plain"})
    await response.prepare(request)
    while True:
        await response.write(b"x")
        await asyncio.sleep(0.01)
