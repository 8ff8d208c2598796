"""The body of an HTTP request, read when its view asks for it: once it is known who sends it, and no more than the operation takes.

Django reads all of it first. What comes in here is for programs and files (`LATER`); forms are read as Django does it, within
web.body_limit.
"""

import asyncio
import contextlib
import functools
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, BinaryIO, TypeVar, cast

from django.conf import settings
from django.http import HttpRequest

from clawsite.infra.errors import ClawError

T = TypeVar("T")
AsgiMessage = Mapping[str, Any]
AsgiReceive = Callable[[], Awaitable[AsgiMessage]]
AsgiSend = Callable[[AsgiMessage], Awaitable[None]]

DEFERRED_PATHS = ("/v1/", "/responses", "/tools/invoke", "/api/", "/hooks/", "/attachments/")
READ_TIMEOUT_SECONDS = 300.0  # 20 MB at half a megabit
MAX_INLINE_BYTES = 32 << 10  # bytes that are understood on the event loop: a millisecond
MAX_UNREAD_BYTES = 64 << 10  # what the server throws away by itself, so that the connection can be used again
LINGER_BYTES = 1 << 20  # what a refused body may still bring while its sender notices
LINGER_SECONDS = 2.0
METHODS_WITHOUT_BODY = ("GET", "HEAD", "OPTIONS")
SCOPE_KEY = "clawsite.body"


class BodyTooLarge(ClawError):
    http_status = 413

    def __init__(self, most: int) -> None:
        super().__init__(f"the request is longer than {_describe_limit(most)}, the most that is taken here")


class BodyTooSlow(ClawError):
    http_status = 408

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the body has not come within {seconds:g} s")


class ClientDisconnected(ClawError):
    """The client has gone before all of it had come. Nobody reads this."""


def announced_length(scope: AsgiMessage) -> int | None:
    """The length that the request says it has."""
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() else None


class DeferredBody:
    """Stands between the server and Django: as what Django receives from, and with `send`. `read` is for the view."""

    def __init__(self, scope: dict[str, Any], receive: AsgiReceive, send: AsgiSend) -> None:
        self._length = announced_length(scope)
        self._announced = bool(self._length) or any(name == b"transfer-encoding" for name, _ in scope["headers"])
        self._receive, self._send = receive, send
        self._over = asyncio.Event()  # nothing of the body is still to come
        if not self._announced and scope["method"] in METHODS_WITHOUT_BODY:
            self._over.set()
        scope[SCOPE_KEY] = self

    async def read(self, most: int, seconds: float) -> tuple[IO[bytes], int]:
        """All of it, and how much that is; on disk where it is large. At most once."""
        if self._length is not None and self._length > most:
            raise BodyTooLarge(most)
        file = tempfile.SpooledTemporaryFile(max_size=settings.FILE_UPLOAD_MAX_MEMORY_SIZE)  # noqa: SIM115  # the request closes it
        try:
            async with asyncio.timeout(seconds):
                size = await self._fill(file, most)
        except BaseException as error:
            file.close()
            if isinstance(error, TimeoutError):
                raise BodyTooSlow(seconds) from None
            raise
        file.seek(0)
        return file, size

    async def _fill(self, file: IO[bytes], most: int) -> int:
        came = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._gone()
                raise ClientDisconnected("the connection was closed before the body was whole")
            piece = message.get("body", b"")
            came += len(piece)
            if came > most:
                raise BodyTooLarge(most)
            file.write(piece)
            if not message.get("more_body", False):
                self._over.set()
                return came

    def _gone(self) -> None:
        async def gone() -> AsgiMessage:
            return {"type": "http.disconnect"}

        self._receive = gone
        self._over.set()

    async def __call__(self) -> AsgiMessage:
        """The end of the connection, which Django waits for while it answers. It is noticed once the body has come."""
        await self._over.wait()
        while (message := await self._receive())["type"] == "http.request":
            pass
        return message

    async def send(self, message: AsgiMessage) -> None:
        """What is left of a refused body is not kept: the connection ends soon after the answer."""
        if self._is_refused and message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        elif self._is_refused and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._linger()
            message = {"type": "http.response.body"}
        await self._send(message)

    @property
    def _is_refused(self) -> bool:
        long = self._announced and (self._length is None or self._length > MAX_UNREAD_BYTES)
        return long and not self._over.is_set()

    async def _linger(self) -> None:
        """Throw a little away: who is cut off while sending may never see the answer."""
        left = LINGER_BYTES
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while left > 0 and (message := await self._receive()).get("more_body", False):
                    left -= len(message["body"])


async def read_body(request: HttpRequest, most: int, seconds: float = READ_TIMEOUT_SECONDS) -> int:
    """Wait for the body, so that the request can be read as any other; -> its length. BodyTooLarge as soon as that is known."""
    coming: DeferredBody | None = getattr(request, "scope", {}).get(SCOPE_KEY)
    if coming is None:  # it has come already: Django's test client
        size = int(request.META.get("CONTENT_LENGTH") or 0)
        if size > most:
            raise BodyTooLarge(most)
        return size
    file, size = await coming.read(most, seconds)
    request._stream = cast(BinaryIO, file)
    request._read_started = False  # type: ignore[attr-defined]  # not in the stubs; see web.handlers
    return size


async def parse_body(request: HttpRequest, most: int, understand: Callable[[bytes], T], seconds: float = READ_TIMEOUT_SECONDS) -> T:
    """What a function makes of the body. A large one is read and understood on a thread: sockets of this process go on.

    One at a time, since Python lets one work anyway; so as many as there are, they never need more memory than one and its values.
    """
    return await run_off_loop(await read_body(request, most, seconds), lambda: understand(request.read()))


async def run_off_loop(size: int, understand: Callable[[], T]) -> T:
    """What a function makes of something from outside, on the thread for large things if it is one."""
    if size <= MAX_INLINE_BYTES:
        return understand()
    return await asyncio.get_running_loop().run_in_executor(_parser_thread(), understand)


@functools.cache
def _parser_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="bodies")


def _describe_limit(most: int) -> str:
    return f"{most >> 20} MB" if most >= 1 << 20 else f"{most >> 10} KB"
