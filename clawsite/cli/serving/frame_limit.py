"""The server's side of a WebSocket before the gateway knows who is there: a stranger's frame is small, or it is not taken.

uvicorn has one limit for all frames. With the gateway's 25 MiB, a thousand strangers could have it hold 25 GB of frames that they
never finish. Loaded with the server only.
"""

from typing import Any

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from clawsite.gateway.protocol.limits import MAX_FIRST_FRAME_BYTES

FRAME_MARGIN_BYTES = 1024  # lets the gateway itself say that a frame is too large
HANDSHAKE_FRAMES = 2  # the challenge, and the answer to `connect`; who is not let in is closed right behind it


class HandshakeLimitProtocol(WebSocketsSansIOProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn.max_message_size = MAX_FIRST_FRAME_BYTES + FRAME_MARGIN_BYTES
        self._frames_sent = 0

    async def send(self, message: ASGISendEvent) -> None:
        if self._frames_sent < HANDSHAKE_FRAMES and message["type"] == "websocket.send":
            self._frames_sent += 1
            if self._frames_sent == HANDSHAKE_FRAMES:  # before it is sent: the client may answer at once
                self.conn.max_message_size = self.config.ws_max_size
        await super().send(message)
