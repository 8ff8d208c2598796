"""The real ASGI server in the test's own event loop."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import uvicorn

from clawsite.cli.serving.frame_limit import HandshakeLimitProtocol

TIMEOUT = 20.0  # seconds; only a guard against hangs


class Server(uvicorn.Server):
    """Like `claw web`: the application shuts down while its sockets are still open, so that it can close them itself."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.shutdown()
        await super().shutdown(sockets)


@contextlib.asynccontextmanager
async def serve_gateway(**options: Any) -> AsyncIterator[str]:
    """Run a server and yield its host:port. `options` are uvicorn's."""
    from clawsite.asgi import application

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application,
        ws=HandshakeLimitProtocol,
        ws_max_size=26_214_400 + 1024,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        **options,
    )
    server = Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    await asyncio.wait_for(server.listening.wait(), TIMEOUT)
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
