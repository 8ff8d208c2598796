"""The ASGI application: HTTP by Django, WebSockets by the gateway, start and end of the process by its runtime.

Runs under uvicorn and daphne alike. daphne has no lifespan, so the runtime also starts with the first request or socket.
"""

import os
from typing import Any

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "clawsite.settings")
_django = get_asgi_application()

from clawsite.gateway import runtime  # noqa: E402  # models can be imported only now
from clawsite.web.body_limit import within_limit  # noqa: E402  # it knows models too
from clawsite.ws import GatewayConsumer  # noqa: E402

SOCKETS = ("/ws", "/ws/", "/")  # OpenClaw's clients dial the bare origin

_consumer = GatewayConsumer.as_asgi()


async def http(scope: dict[str, Any], receive: Any, send: Any) -> None:
    runtime.begin()
    await within_limit(_django, scope, receive, send)


async def websocket(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["path"] in SOCKETS:
        await _consumer(scope, receive, send)
    else:
        await receive()
        await send({"type": "websocket.close", "code": 1008})  # before accepting: the client sees HTTP 403


async def lifespan(scope: dict[str, Any], receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await runtime.running()
            await send({"type": "lifespan.startup.complete"})
        else:
            await runtime.stop()
            await send({"type": "lifespan.shutdown.complete"})
            return


application = ProtocolTypeRouter({"http": http, "websocket": websocket, "lifespan": lifespan})
