"""The life of one socket: challenge, handshake, requests, end. The WebSocket itself is behind the functions it is given."""

import asyncio
import logging
import uuid
from collections.abc import Callable

from clawsite.gateway import limits
from clawsite.gateway.connection import Connection, Send, SendClose
from clawsite.gateway.dispatch import Dispatcher, bad_frame
from clawsite.gateway.errors import Close
from clawsite.gateway.frames import BadFrame, Request, encode_challenge, encode_failure, encode_success, parse_request
from clawsite.gateway.handshake import Knock, Refused, shake_hands
from clawsite.gateway.runtime import Runtime
from clawsite.infra import clock

log = logging.getLogger(__name__)


class Peer:
    def __init__(self, runtime: Runtime, knock: Knock, *, send: Send, send_close: SendClose, hang_up: Callable[[], None]) -> None:
        self._runtime, self._knock, self._hang_up = runtime, knock, hang_up
        self.connection = Connection(id=uuid.uuid4().hex, send=send, send_close=send_close, on_close=self._close_in_time)
        self._dispatcher: Dispatcher | None = None
        self._writer = asyncio.create_task(self._write())
        self._deadline = asyncio.get_running_loop().call_later(limits.handshake_seconds(), self._too_late)
        self._last_call: asyncio.TimerHandle | None = None

    def greet(self) -> None:
        """The server speaks first; the nonce is for clients that sign with a device key."""
        self.connection.reply_now(encode_challenge(uuid.uuid4().hex, clock.now_ms()))

    async def text(self, text: str) -> None:
        connection = self.connection
        most = limits.FRAME_BYTES if self._dispatcher else limits.FIRST_FRAME_BYTES
        if len(text) > most or (len(text) * 4 > most and len(text.encode(errors="surrogatepass")) > most):
            connection.close(Close.TOO_BIG, "frame too large" if self._dispatcher else "frame too large before connect")
        elif not connection.closing:
            await self._frame(text)

    async def _frame(self, text: str) -> None:
        try:
            request = parse_request(text)
        except BadFrame as bad:
            self._refuse_frame(bad.id, bad.message)
            return
        if self._dispatcher is None:
            await self._shake_hands(request)
        elif request.method == "connect":
            self.connection.reply_now(bad_frame(request.id, "connect is only allowed as the first request"))
        else:
            self._dispatcher.submit(request)

    def binary(self) -> None:
        self._refuse_frame("invalid", "invalid frame: binary frames are not used")

    def _refuse_frame(self, id: str, message: str) -> None:
        """After the handshake a bad frame costs an error; before it, the connection."""
        if self._dispatcher is None:
            self.connection.close(Close.POLICY, "invalid request frame")
        else:
            self.connection.reply_now(bad_frame(id, message))

    async def _shake_hands(self, request: Request) -> None:
        connection, runtime = self.connection, self._runtime
        self._deadline.cancel()
        try:
            hello = await shake_hands(connection, request, self._knock, runtime)
        except Refused as refused:
            connection.reply_now(encode_failure(request.id, refused.error))
            connection.close(refused.close, refused.reason)
            log.info("refused a connection: %s", refused.reason, extra={"connection": connection.id, "address": self._knock.address})
            return
        connection.reply_now(encode_success(request.id, hello))
        runtime.hub.audience.add(connection)
        runtime.presence.joined(connection)
        self._dispatcher = Dispatcher(connection, runtime)
        if runtime.stopping:
            connection.close(Close.RESTART, "service restart")

    async def lost(self) -> None:
        """The socket has ended, by whichever side."""
        self._deadline.cancel()
        if self._last_call:
            self._last_call.cancel()
        self.connection.gone()
        self._writer.cancel()
        if self._dispatcher:
            self._dispatcher.cancel()
            self._runtime.hub.leave(self.connection)
            self._runtime.presence.left(self.connection)

    async def _write(self) -> None:
        try:
            await self.connection.write()
        except OSError:  # the client has gone; the server tells us so by itself
            self.connection.gone()

    def _too_late(self) -> None:
        self.connection.close(Close.POLICY, f"connect expected within {limits.handshake_seconds():g} s")

    def _close_in_time(self) -> None:
        """A client that does not read does not read our close frame either: it gets some seconds, then the line is cut."""
        self._last_call = asyncio.get_running_loop().call_later(limits.CLOSE_SECONDS, self._hang_up)
