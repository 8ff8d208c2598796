"""Pass committed events and wake-ups between processes.

A message is a hint: it may be lost, duplicated or late without harm, because its content is already in the database and
every receiver also polls. Nothing is published before it is committed (services use `publish_on_commit`).
With REDIS_URL, processes communicate over a Redis channel, otherwise over Unix sockets in the state directory.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from django.db import transaction

from clawsite.infra.bus.messages import BusMessage, MalformedMessage, decode, encode

__all__ = ["BusMessage", "publish", "publish_on_commit", "receive", "start", "stop", "subscribe"]

log = logging.getLogger(__name__)

M = TypeVar("M", bound=BusMessage)


class Transport(Protocol):
    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def send(self, line: bytes) -> None: ...


_handlers: dict[type[BusMessage], list[Callable[[Any], None]]] = {}
_loop: asyncio.AbstractEventLoop | None = None
_transport: Transport | None = None
_waiting: list[BusMessage] = []
_lock = threading.Lock()


async def start() -> None:
    """Join the server's other processes. A second start in the same process has no effect."""
    global _loop, _transport
    if _loop is not None:
        return
    _loop = asyncio.get_running_loop()
    with _lock:
        _waiting.clear()  # messages left over from a closed loop
    _transport = _make_transport()
    await _transport.start()


async def stop() -> None:
    global _loop, _transport
    transport, _transport, _loop = _transport, None, None
    if transport:
        await transport.stop()


def subscribe(kind: type[M], handler: Callable[[M], None]) -> Callable[[], None]:
    """Call `handler` on the event loop with every message of this class, including our own; return a function to unsubscribe."""
    handlers = _handlers.setdefault(kind, [])
    handlers.append(handler)
    return lambda: handlers.remove(handler)


def publish_on_commit(message: BusMessage) -> None:
    """Publish when the surrounding transaction commits, so nothing is sent that could still be rolled back."""
    transaction.on_commit(lambda: publish(message))


def publish(message: BusMessage) -> None:
    """Publish a message from any thread. Without a running bus (in a management command), receivers find the rows by polling."""
    loop = _loop
    if loop is None:
        return
    with _lock:
        _waiting.append(message)
        if len(_waiting) > 1:
            return  # a call to the loop is already scheduled and will send this one too
    try:
        loop.call_soon_threadsafe(_deliver_waiting)
    except RuntimeError:  # the loop has closed
        with _lock:
            _waiting.clear()


def _deliver_waiting() -> None:
    with _lock:
        messages = _waiting[:]
        _waiting.clear()
    for message in messages:
        _deliver(message)
        if _transport:
            _transport.send(encode(message))


def receive(line: bytes) -> None:
    """Handle a message from another process. Kinds without a handler here are ignored."""
    try:
        message = decode(line, _handlers)
    except MalformedMessage as error:
        log.warning("dropped a malformed bus message: %s", error)
        return
    if message:
        _deliver(message)


def _deliver(message: BusMessage) -> None:
    for handler in list(_handlers.get(type(message), ())):
        try:
            handler(message)
        except Exception:
            log.exception("bus handler failed on message of kind %s", message.kind)


def _make_transport() -> Transport:
    from django.conf import settings

    if settings.REDIS_URL:
        from clawsite.infra.bus.redis_transport import RedisTransport

        return RedisTransport(settings.REDIS_URL, channel=f"clawsite:{settings.DATABASES['default']['NAME']}", receive=receive)
    from clawsite.infra.bus.unix_transport import UnixTransport

    return UnixTransport(settings.HOME / "bus", receive=receive)
