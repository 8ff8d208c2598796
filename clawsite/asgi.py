"""The ASGI application: Django handles HTTP, the gateway handles WebSockets, and its runtime handles startup and shutdown.

Runs under uvicorn and daphne. daphne has no lifespan events, so the runtime also starts with the first request or socket.
"""

import asyncio
import functools
import os
from typing import Any

import django
from channels.routing import ProtocolTypeRouter
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "clawsite.settings")
django.setup(set_prefix=False)

from clawsite.gateway.server import runtime  # noqa: E402  # models can be imported only now
from clawsite.infra.process.garbage import exempt_loaded_modules  # noqa: E402
from clawsite.infra.request_body import DEFERRED_PATHS, DeferredBody  # noqa: E402
from clawsite.web.middleware.api_handler import ApiHandler, is_api_request  # noqa: E402  # as above
from clawsite.web.middleware.asgi_handler import LazyBodyHandler  # noqa: E402
from clawsite.web.middleware.body_limit import limit_body  # noqa: E402
from clawsite.ws import GatewayConsumer  # noqa: E402

PAGES_LOAD_DELAY_SECONDS = 0.5  # disconnected clients reconnect first, and their handshakes need the interpreter
SOCKET_PATHS = ("/ws", "/ws/", "/")  # OpenClaw's clients connect to the bare origin

_consumer = GatewayConsumer.as_asgi()


@functools.cache
def load_handlers() -> tuple[LazyBodyHandler, ApiHandler]:
    """Import all views and middleware; return the handlers of pages and of API requests. Sockets need none of them."""
    _ = get_resolver().url_patterns
    handlers = LazyBodyHandler(), ApiHandler()
    exempt_loaded_modules()
    return handlers


async def http(scope: dict[str, Any], receive: Any, send: Any) -> None:
    runtime.start_in_background()
    if not load_handlers.cache_info().currsize:  # a request that arrives this early waits
        await asyncio.to_thread(load_handlers)
    page_handler, api_handler = load_handlers()
    handler = api_handler if is_api_request(scope) else page_handler
    if scope["path"].startswith(DEFERRED_PATHS):
        body = DeferredBody(scope, receive, send)
        await handler(scope, body, body.send)
    else:
        await limit_body(handler, scope, receive, send)


async def websocket(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["path"] in SOCKET_PATHS:
        await _consumer(scope, receive, send)
    else:
        await receive()
        await send({"type": "websocket.close", "code": 1008})  # before accepting, so the client gets HTTP 403


async def lifespan(scope: dict[str, Any], receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await runtime.get_runtime()
            await send({"type": "lifespan.startup.complete"})
            loop = asyncio.get_running_loop()
            loop.call_later(PAGES_LOAD_DELAY_SECONDS, loop.run_in_executor, None, load_handlers)
        else:
            await runtime.stop()
            await send({"type": "lifespan.shutdown.complete"})
            return


application = ProtocolTypeRouter({"http": http, "websocket": websocket, "lifespan": lifespan})
