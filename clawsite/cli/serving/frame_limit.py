"""The server's side of a WebSocket before the gateway knows who is there: a stranger's frame is small, or it is not taken.

uvicorn has one limit for all frames. With the gateway's 25 MiB, a thousand strangers could have it hold 25 GB of frames that they
never finish. Loaded with the server only.
"""

from typing import Any

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from clawsite.gateway.protocol.limits import FIRST_FRAME_BYTES

MARGIN = 1024  # lets the gateway itself say that a frame is too large
GREETINGS = 2  # the challenge, and the answer to `connect`; who is not let in is closed right behind it


class SmallUntilLetIn(WebSocketsSansIOProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn.max_message_size = FIRST_FRAME_BYTES + MARGIN
        self._said = 0

    async def send(self, message: ASGISendEvent) -> None:
        if self._said < GREETINGS and message["type"] == "websocket.send":
            self._said += 1
            if self._said == GREETINGS:  # before it is sent: the client may answer at once
                self.conn.max_message_size = self.config.ws_max_size
        await super().send(message)
