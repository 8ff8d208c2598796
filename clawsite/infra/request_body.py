"""Read the body of an HTTP request when its view needs it: after authentication, and up to the limit of the operation.

Django would read all of it first. This applies to APIs and uploads (DEFERRED_PATHS); Django reads forms as usual, within the
limit of `clawsite.web.middleware.body_limit`.
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
from django.utils.translation import gettext as _

from clawsite.infra.errors import ClawError

T = TypeVar("T")
AsgiMessage = Mapping[str, Any]
AsgiReceive = Callable[[], Awaitable[AsgiMessage]]
AsgiSend = Callable[[AsgiMessage], Awaitable[None]]

DEFERRED_PATHS = ("/v1/", "/responses", "/tools/invoke", "/api/", "/hooks/", "/attachments/")
READ_TIMEOUT_SECONDS = 300.0  # 20 MB at half a megabit per second
MAX_INLINE_BYTES = 32 << 10  # parsed on the event loop: takes a millisecond
MAX_UNREAD_BYTES = 64 << 10  # discarded by the server itself, so that the connection can be reused
LINGER_BYTES = 1 << 20  # read and discarded from a rejected body until its sender notices
LINGER_SECONDS = 2.0
METHODS_WITHOUT_BODY = ("GET", "HEAD", "OPTIONS")
SCOPE_KEY = "clawsite.body"


class BodyTooLarge(ClawError):
    http_status = 413

    def __init__(self, max_bytes: int) -> None:
        super().__init__(_("the request exceeds the limit of %s") % _describe_limit(max_bytes))


class BodyTooSlow(ClawError):
    http_status = 408

    def __init__(self, seconds: float) -> None:
        super().__init__(_("the request body did not arrive within %s s") % f"{seconds:g}")


class ClientDisconnected(ClawError):
    """The client disconnected before the whole body arrived, so no one sees this error."""


def announced_length(scope: AsgiMessage) -> int | None:
    """Return the Content-Length of the request, or None."""
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() else None


class DeferredBody:
    """Wraps the ASGI `receive` and `send` of the server for Django, and lets the view `read` the body."""

    def __init__(self, scope: dict[str, Any], receive: AsgiReceive, send: AsgiSend) -> None:
        self._length = announced_length(scope)
        self._announced = bool(self._length) or any(name == b"transfer-encoding" for name, _value in scope["headers"])
        self._receive, self._send = receive, send
        self._complete = asyncio.Event()  # the whole body was received
        if not self._announced and scope["method"] in METHODS_WITHOUT_BODY:
            self._complete.set()
        scope[SCOPE_KEY] = self

    async def read(self, max_bytes: int, seconds: float) -> tuple[IO[bytes], int]:
        """Return the whole body as a file (on disk if it is large) and its size. Can only be called once."""
        if self._length is not None and self._length > max_bytes:
            raise BodyTooLarge(max_bytes)
        file = tempfile.SpooledTemporaryFile(max_size=settings.FILE_UPLOAD_MAX_MEMORY_SIZE)  # noqa: SIM115  # the request closes it
        try:
            async with asyncio.timeout(seconds):
                size = await self._fill(file, max_bytes)
        except BaseException as error:
            file.close()
            if isinstance(error, TimeoutError):
                raise BodyTooSlow(seconds) from None
            raise
        file.seek(0)
        return file, size

    async def _fill(self, file: IO[bytes], max_bytes: int) -> int:
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._set_disconnected()
                raise ClientDisconnected("the connection was closed before the body was complete")
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > max_bytes:
                raise BodyTooLarge(max_bytes)
            file.write(chunk)
            if not message.get("more_body", False):
                self._complete.set()
                return size

    def _set_disconnected(self) -> None:
        async def receive() -> AsgiMessage:
            return {"type": "http.disconnect"}

        self._receive = receive
        self._complete.set()

    async def __call__(self) -> AsgiMessage:
        """Wait for the disconnect, as Django does while it responds. It is only detected after the whole body arrived."""
        await self._complete.wait()
        while (message := await self._receive())["type"] == "http.request":
            pass
        return message

    async def send(self, message: AsgiMessage) -> None:
        """Send the response. If the body was rejected, discard the rest of it and close the connection soon after."""
        if self._is_rejected and message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        elif self._is_rejected and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._linger()
            message = {"type": "http.response.body"}
        await self._send(message)

    @property
    def _is_rejected(self) -> bool:
        large = self._announced and (self._length is None or self._length > MAX_UNREAD_BYTES)
        return large and not self._complete.is_set()

    async def _linger(self) -> None:
        """Read and discard a little more: a client that is disconnected while sending may never see the response."""
        left = LINGER_BYTES
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while left > 0 and (message := await self._receive()).get("more_body", False):
                    left -= len(message["body"])


async def read_body(request: HttpRequest, max_bytes: int, seconds: float = READ_TIMEOUT_SECONDS) -> int:
    """Wait for the body, so that `request` can be read as usual, and return its size. Raise BodyTooLarge as early as possible."""
    deferred: DeferredBody | None = getattr(request, "scope", {}).get(SCOPE_KEY)
    if deferred is None:  # Django's test client: the body is already there
        size = int(request.META.get("CONTENT_LENGTH") or 0)
        if size > max_bytes:
            raise BodyTooLarge(max_bytes)
        return size
    file, size = await deferred.read(max_bytes, seconds)
    request._stream = cast(BinaryIO, file)
    request._read_started = False  # type: ignore[attr-defined]  # not in the stubs; see web.middleware.asgi_handler
    return size


async def parse_body(request: HttpRequest, max_bytes: int, parse: Callable[[bytes], T], seconds: float = READ_TIMEOUT_SECONDS) -> T:
    """Read the body and parse it. A large one is parsed on a thread, so that the sockets of this process aren't blocked.

    There is only one such thread, because of the GIL and so that only one body and its values need memory at a time.
    """
    return await run_off_loop(await read_body(request, max_bytes, seconds), lambda: parse(request.read()))


async def run_off_loop(size: int, parse: Callable[[], T]) -> T:
    """Parse untrusted input: large input on the parser thread, small input directly."""
    if size <= MAX_INLINE_BYTES:
        return parse()
    return await asyncio.get_running_loop().run_in_executor(_parser_thread(), parse)


@functools.cache
def _parser_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="bodies")


def _describe_limit(max_bytes: int) -> str:
    return f"{max_bytes >> 20} MB" if max_bytes >= 1 << 20 else f"{max_bytes >> 10} KB"
