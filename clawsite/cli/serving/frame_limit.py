"""Limit the size of WebSocket frames from clients that have not authenticated yet.

uvicorn has one limit for all frames. With the gateway's 25 MiB limit, a thousand unauthenticated clients could make it hold
25 GB of unfinished frames. Loaded only with the server.
"""

from typing import Any

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from clawsite.gateway.protocol.limits import MAX_FIRST_FRAME_BYTES

FRAME_MARGIN_BYTES = 1024  # lets the gateway itself report that a frame is too large
HANDSHAKE_FRAMES = 2  # the challenge and the response to `connect`; a rejected client is disconnected right after it


class HandshakeLimitProtocol(WebSocketsSansIOProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn.max_message_size = MAX_FIRST_FRAME_BYTES + FRAME_MARGIN_BYTES
        self._frames_sent = 0

    async def send(self, message: ASGISendEvent) -> None:
        if self._frames_sent < HANDSHAKE_FRAMES and message["type"] == "websocket.send":
            self._frames_sent += 1
            if self._frames_sent == HANDSHAKE_FRAMES:  # before sending, because the client may respond immediately
                self.conn.max_message_size = self.config.ws_max_size
        await super().send(message)
