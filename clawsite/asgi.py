"""The ASGI application: Django handles HTTP, the gateway handles WebSockets, and its runtime handles startup and shutdown.

Runs under uvicorn and daphne. daphne has no lifespan events, so the runtime also starts with the first request or socket.
"""

import asyncio
import os
from typing import Any

import django
from channels.routing import ProtocolTypeRouter
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "clawsite.settings")
django.setup(set_prefix=False)

from clawsite.api.rest.mount import load_operations  # noqa: E402  # models can be imported only now
from clawsite.gateway.server import runtime  # noqa: E402
from clawsite.infra.request_body import DEFERRED_PATHS, DeferredBody  # noqa: E402
from clawsite.web.middleware.api_handler import ApiHandler, is_api_request  # noqa: E402  # as above
from clawsite.web.middleware.asgi_handler import LazyBodyHandler  # noqa: E402
from clawsite.web.middleware.body_limit import limit_body  # noqa: E402
from clawsite.ws import GatewayConsumer  # noqa: E402

REST_LOAD_DELAY_SECONDS = 1.0  # disconnected clients reconnect first; loading blocks the interpreter for half a second
SOCKET_PATHS = ("/ws", "/ws/", "/")  # OpenClaw's clients connect to the bare origin

_consumer = GatewayConsumer.as_asgi()
_page_handler = LazyBodyHandler()
_api_handler = ApiHandler()


async def http(scope: dict[str, Any], receive: Any, send: Any) -> None:
    runtime.start_in_background()
    handler = _api_handler if is_api_request(scope) else _page_handler
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
            # Load the pages after sockets are accepted, because sockets don't need them. A page requested before that waits.
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, lambda: get_resolver().url_patterns)
            loop.call_later(REST_LOAD_DELAY_SECONDS, loop.run_in_executor, None, load_operations)
        else:
            await runtime.stop()
            await send({"type": "lifespan.shutdown.complete"})
            return


application = ProtocolTypeRouter({"http": http, "websocket": websocket, "lifespan": lifespan})
