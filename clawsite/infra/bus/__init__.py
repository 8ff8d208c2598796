"""Pass committed events and wake-ups between processes.

A message is a hint: it may be lost, duplicated or late without harm, because its content is already in the database and
every receiver also polls. Nothing is published before it is committed (services use `transaction.on_commit`).
With REDIS_URL, processes communicate over a Redis channel, otherwise over Unix sockets in the state directory.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

import orjson

log = logging.getLogger(__name__)

BusMessage = dict[str, Any]
Subscriber = Callable[[BusMessage], None]


class Transport(Protocol):
    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def send(self, line: bytes) -> None: ...


_subscribers: list[Subscriber] = []
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
        _waiting.clear()  # left over from a closed loop
    _transport = _make_transport()
    await _transport.start()


async def stop() -> None:
    global _loop, _transport
    transport, _transport, _loop = _transport, None, None
    if transport:
        await transport.stop()


def subscribe(receive: Subscriber) -> Callable[[], None]:
    """Call `receive` on the event loop with every message, including our own; return a function to unsubscribe."""
    _subscribers.append(receive)
    return lambda: _subscribers.remove(receive)


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
        deliver(message)
        if _transport:
            _transport.send(orjson.dumps(message))


def deliver(message: BusMessage) -> None:
    for receive in list(_subscribers):
        try:
            receive(message)
        except Exception:
            log.exception("bus subscriber failed on message of kind %s", message.get("k"))


def _make_transport() -> Transport:
    from django.conf import settings

    if settings.REDIS_URL:
        from clawsite.infra.bus.redis_transport import RedisTransport

        return RedisTransport(settings.REDIS_URL, channel=f"clawsite:{settings.DATABASES['default']['NAME']}", receive=deliver)
    from clawsite.infra.bus.unix_transport import UnixTransport

    return UnixTransport(settings.HOME / "bus", receive=deliver)
