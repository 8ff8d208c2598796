"""One socket's life cycle: challenge, handshake, requests, end. The WebSocket itself is accessed through functions."""

import asyncio
import logging
import uuid
from collections.abc import Callable

from clawsite.gateway.auth.accounts import HandshakeInfo
from clawsite.gateway.auth.refusals import HandshakeRejected
from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.delivery.send_queue import Send, SendClose, SocketWriter
from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.errors import CloseCode
from clawsite.gateway.protocol.frames import BadFrame, Request, encode_challenge, encode_failure, encode_success, parse_request
from clawsite.gateway.protocol.hello import hello_for_dialect
from clawsite.gateway.server.dispatch import Dispatcher, bad_frame_response
from clawsite.gateway.server.handshake import perform_handshake
from clawsite.gateway.server.runtime import Runtime
from clawsite.infra import clock
from clawsite.infra.request_body import run_off_loop

log = logging.getLogger(__name__)


class WebSocketHandler:
    def __init__(
        self, runtime: Runtime, handshake_info: HandshakeInfo, *, send: Send, send_close: SendClose, hang_up: Callable[[], None]
    ) -> None:
        self._runtime, self._handshake_info, self._hang_up = runtime, handshake_info, hang_up
        self._socket_writer = SocketWriter(id=uuid.uuid4().hex, send=send, send_close=send_close, on_close=self._close_in_time)
        self._nonce = uuid.uuid4().hex
        self._in_handshake = False  # counted as an unfinished handshake
        self._established: tuple[Connection, Dispatcher] | None = None  # after the handshake
        self._writer_task = asyncio.create_task(self._write())
        self._deadline = asyncio.get_running_loop().call_later(limits.handshake_seconds(), self._handshake_timed_out)
        self._close_timer: asyncio.TimerHandle | None = None

    def send_challenge(self) -> None:
        """Send the challenge, the first frame; the nonce is for clients that sign with a device key."""
        self._in_handshake = True
        if not self._runtime.rates.begin_handshake(self._handshake_info.address):
            self._socket_writer.close(CloseCode.TRY_LATER, "too many unfinished handshakes from this address")
            return
        self._socket_writer.reply_now(encode_challenge(self._nonce, clock.now_ms()))

    async def text(self, text: str) -> None:
        limit = limits.MAX_FRAME_BYTES if self._established else limits.MAX_FIRST_FRAME_BYTES
        if len(text) > limit or (len(text) * 4 > limit and len(text.encode()) > limit):
            self._socket_writer.close(
                CloseCode.TOO_BIG, "frame too large" if self._established else "frame too large before connect"
            )
        elif not self._socket_writer.closing:
            await self._receive_frame(text)

    async def _receive_frame(self, text: str) -> None:
        try:
            request = await run_off_loop(len(text), lambda: parse_request(text))
        except BadFrame as error:
            self._reject_frame(error.id, error.message)
            return
        if self._socket_writer.closing:
            return
        if self._established is None:
            await self._handshake(request)
        elif request.method == "connect":
            self._socket_writer.reply_now(bad_frame_response(request.id, "connect is only allowed as the first request"))
        else:
            await self._established[1].submit(request)

    def receive_binary(self) -> None:
        self._reject_frame("invalid", "invalid frame: binary frames are not used")

    def _reject_frame(self, id: str, message: str) -> None:
        """Respond with an error if the handshake is complete; otherwise close the connection."""
        if self._established:
            self._socket_writer.reply_now(bad_frame_response(id, message))
        else:
            self._socket_writer.close(CloseCode.POLICY, "invalid request frame")

    async def _handshake(self, request: Request) -> None:
        line, runtime = self._socket_writer, self._runtime
        self._deadline.cancel()
        try:
            result = await perform_handshake(line, request, self._handshake_info, runtime, self._nonce)
        except HandshakeRejected as error:
            line.reply_now(encode_failure(request.id, error.error))
            line.close(error.close, error.reason)
            log.info(
                "connection rejected: %s", error.reason, extra={"connection": line.id, "address": self._handshake_info.address}
            )
            return
        connection = result.connection
        self._end_handshake()
        line.reply_now(encode_success(request.id, hello_for_dialect(connection.dialect, result.hello)))
        self._established = (connection, Dispatcher(connection, runtime))
        log.info("client connected", extra={"connection": line.id, "user": connection.user_pk, "client": connection.client.id})
        runtime.hub.audience.add(connection, result.member_of)
        if connection.role == "node":
            runtime.nodes.add(connection)
        runtime.presence.add(connection)
        if runtime.stopping:
            line.close(CloseCode.RESTART, "service restart")

    def _end_handshake(self) -> None:
        if self._in_handshake:
            self._in_handshake = False
            self._runtime.rates.end_handshake(self._handshake_info.address)

    def handle_disconnect(self) -> None:
        """Clean up after the socket was closed by either side."""
        self._deadline.cancel()
        self._end_handshake()
        if self._close_timer:
            self._close_timer.cancel()
        self._socket_writer.discard()
        self._writer_task.cancel()
        if self._established:
            connection, dispatcher = self._established
            dispatcher.cancel()
            self._runtime.hub.leave(connection)
            if connection.role == "node":
                self._runtime.nodes.handle_disconnect(connection)
            self._runtime.presence.handle_disconnect(connection)
            log.info(
                "client disconnected",
                extra={"connection": connection.id, "user": connection.user_pk, "seq": self._socket_writer.seq},
            )

    async def _write(self) -> None:
        try:
            await self._socket_writer.write()
        except OSError:  # the client has disconnected; the server calls `handle_disconnect`
            self._socket_writer.discard()

    def _handshake_timed_out(self) -> None:
        self._socket_writer.close(CloseCode.POLICY, f"connect expected within {limits.handshake_seconds():g} s")

    def _close_in_time(self) -> None:
        """Disconnect after some seconds, because a client that doesn't read won't read the close frame either."""
        self._close_timer = asyncio.get_running_loop().call_later(limits.CLOSE_SECONDS, self._hang_up)
