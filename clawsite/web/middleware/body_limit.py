"""How much a form may bring. Django keeps the whole body before a view or a sign-in check sees it: this comes before.

Bodies of programs and files are not kept before it is known who sends them: infra.http_body.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from clawsite.infra.request_body import AsgiMessage, AsgiReceive, AsgiSend, BodyTooLarge, announced_length

MAX_FORM_BYTES = 2 << 20  # bytes: the admin's longest forms have a tenth of it


async def limit_body(
    app: Callable[[dict[str, Any], AsgiReceive, AsgiSend], Awaitable[None]],
    scope: dict[str, Any],
    receive: AsgiReceive,
    send: AsgiSend,
) -> None:
    """Let the application answer, unless the body is longer than a form may be: then it is 413, as early as it is known."""
    if (announced_length(scope) or 0) > MAX_FORM_BYTES:
        await _send_too_large(send)
        return
    came = 0
    refused = begun = False

    async def counted() -> AsgiMessage:
        nonlocal came, refused
        message = await receive()
        came += len(message.get("body", b""))
        if came <= MAX_FORM_BYTES:
            return message
        refused = True
        return {"type": "http.disconnect"}  # Django lets go of what it has kept

    async def noted(message: AsgiMessage) -> None:
        nonlocal begun
        begun = True
        await send(message)

    await app(scope, counted, noted)
    if refused and not begun:
        await _send_too_large(send)


async def _send_too_large(send: AsgiSend) -> None:
    refusal = BodyTooLarge(MAX_FORM_BYTES)
    told = {"error": {"code": refusal.code, "message": refusal.message}}
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": refusal.http_status, "headers": headers})
    await send({"type": "http.response.body", "body": orjson.dumps(told)})
