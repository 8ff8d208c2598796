"""The life of one socket: challenge, handshake, requests, end. The WebSocket itself is behind the functions it is given."""

import asyncio
import logging
import uuid
from collections.abc import Callable

from clawsite.gateway.auth.accounts import Knock
from clawsite.gateway.auth.refusals import Refused
from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.delivery.send_queue import Line, Send, SendClose
from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.errors import Close
from clawsite.gateway.protocol.frames import BadFrame, Request, encode_challenge, encode_failure, encode_success, parse_request
from clawsite.gateway.protocol.hello import hello_in
from clawsite.gateway.server.dispatch import Dispatcher, bad_frame
from clawsite.gateway.server.handshake import shake_hands
from clawsite.gateway.server.runtime import Runtime
from clawsite.infra import clock
from clawsite.infra.request_body import apart

log = logging.getLogger(__name__)


class Peer:
    def __init__(self, runtime: Runtime, knock: Knock, *, send: Send, send_close: SendClose, hang_up: Callable[[], None]) -> None:
        self._runtime, self._knock, self._hang_up = runtime, knock, hang_up
        self._line = Line(id=uuid.uuid4().hex, send=send, send_close=send_close, on_close=self._close_in_time)
        self._nonce = uuid.uuid4().hex
        self._knocking = False  # counted among those who have not been let in
        self._taken_in: tuple[Connection, Dispatcher] | None = None  # after the handshake
        self._writer = asyncio.create_task(self._write())
        self._deadline = asyncio.get_running_loop().call_later(limits.handshake_seconds(), self._too_late)
        self._last_call: asyncio.TimerHandle | None = None

    def greet(self) -> None:
        """The server speaks first; the nonce is for clients that sign with a device key."""
        self._knocking = True
        if not self._runtime.rates.knock(self._knock.address):
            self._line.close(Close.TRY_LATER, "too many connections of this address wait to be let in")
            return
        self._line.reply_now(encode_challenge(self._nonce, clock.now_ms()))

    async def text(self, text: str) -> None:
        most = limits.FRAME_BYTES if self._taken_in else limits.FIRST_FRAME_BYTES
        if len(text) > most or (len(text) * 4 > most and len(text.encode()) > most):
            self._line.close(Close.TOO_BIG, "frame too large" if self._taken_in else "frame too large before connect")
        elif not self._line.closing:
            await self._frame(text)

    async def _frame(self, text: str) -> None:
        try:
            request = await apart(len(text), lambda: parse_request(text))
        except BadFrame as bad:
            self._refuse_frame(bad.id, bad.message)
            return
        if self._line.closing:
            return
        if self._taken_in is None:
            await self._shake_hands(request)
        elif request.method == "connect":
            self._line.reply_now(bad_frame(request.id, "connect is only allowed as the first request"))
        else:
            await self._taken_in[1].submit(request)

    def binary(self) -> None:
        self._refuse_frame("invalid", "invalid frame: binary frames are not used")

    def _refuse_frame(self, id: str, message: str) -> None:
        """After the handshake a bad frame costs an error; before it, the connection."""
        if self._taken_in:
            self._line.reply_now(bad_frame(id, message))
        else:
            self._line.close(Close.POLICY, "invalid request frame")

    async def _shake_hands(self, request: Request) -> None:
        line, runtime = self._line, self._runtime
        self._deadline.cancel()
        try:
            shaken = await shake_hands(line, request, self._knock, runtime, self._nonce)
        except Refused as refused:
            line.reply_now(encode_failure(request.id, refused.error))
            line.close(refused.close, refused.reason)
            log.info("refused a connection: %s", refused.reason, extra={"connection": line.id, "address": self._knock.address})
            return
        connection = shaken.connection
        self._is_let_in()
        line.reply_now(encode_success(request.id, hello_in(connection.dialect, shaken.hello)))
        self._taken_in = (connection, Dispatcher(connection, runtime))
        log.info("a client connected", extra={"connection": line.id, "user": connection.user_pk, "client": connection.client.id})
        runtime.hub.audience.add(connection, shaken.member_of)
        if connection.role == "node":
            runtime.nodes.joined(connection)
        runtime.presence.joined(connection)
        if runtime.stopping:
            line.close(Close.RESTART, "service restart")

    def _is_let_in(self) -> None:
        if self._knocking:
            self._knocking = False
            self._runtime.rates.entered(self._knock.address)

    def lost(self) -> None:
        """The socket has ended, by whichever side."""
        self._deadline.cancel()
        self._is_let_in()
        if self._last_call:
            self._last_call.cancel()
        self._line.gone()
        self._writer.cancel()
        if self._taken_in:
            connection, dispatcher = self._taken_in
            dispatcher.cancel()
            self._runtime.hub.leave(connection)
            if connection.role == "node":
                self._runtime.nodes.left(connection)
            self._runtime.presence.left(connection)
            log.info("a client left", extra={"connection": connection.id, "user": connection.user_pk, "seq": self._line.seq})

    async def _write(self) -> None:
        try:
            await self._line.write()
        except OSError:  # the client has gone; the server tells us so by itself
            self._line.gone()

    def _too_late(self) -> None:
        self._line.close(Close.POLICY, f"connect expected within {limits.handshake_seconds():g} s")

    def _close_in_time(self) -> None:
        """A client that does not read does not read our close frame either: it gets some seconds, then the line is cut."""
        self._last_call = asyncio.get_running_loop().call_later(limits.CLOSE_SECONDS, self._hang_up)
