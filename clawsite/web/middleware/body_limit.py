"""Limit the size of form bodies, because Django buffers the whole body before any view or sign-in check.

API bodies and uploads are not read before the sender is authenticated: see clawsite.infra.request_body.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from clawsite.infra.request_body import AsgiMessage, AsgiReceive, AsgiSend, BodyTooLarge, announced_length

MAX_FORM_BYTES = 2 << 20  # the admin's largest forms need a tenth of this


async def limit_body(
    app: Callable[[dict[str, Any], AsgiReceive, AsgiSend], Awaitable[None]],
    scope: dict[str, Any],
    receive: AsgiReceive,
    send: AsgiSend,
) -> None:
    """Call the application, or respond with 413 as soon as the body is known to exceed the form limit."""
    if (announced_length(scope) or 0) > MAX_FORM_BYTES:
        await _send_too_large(send)
        return
    received = 0
    too_large = response_started = False

    async def limited_receive() -> AsgiMessage:
        nonlocal received, too_large
        message = await receive()
        received += len(message.get("body", b""))
        if received <= MAX_FORM_BYTES:
            return message
        too_large = True
        return {"type": "http.disconnect"}  # Django discards what it has buffered

    async def tracked_send(message: AsgiMessage) -> None:
        nonlocal response_started
        response_started = True
        await send(message)

    await app(scope, limited_receive, tracked_send)
    if too_large and not response_started:
        await _send_too_large(send)


async def _send_too_large(send: AsgiSend) -> None:
    error = BodyTooLarge(MAX_FORM_BYTES)
    body = {"error": {"code": error.code, "message": error.message}}
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": error.http_status, "headers": headers})
    await send({"type": "http.response.body", "body": orjson.dumps(body)})
