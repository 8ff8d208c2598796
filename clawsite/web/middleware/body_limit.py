"""How much a form may bring. Django keeps the whole body before a view or a sign-in check sees it: this comes before.

Bodies of programs and files are not kept before it is known who sends them: infra.http_body.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from clawsite.infra.request_body import BodyTooLarge, Message, Receive, Send, announced

FORMS = 2 << 20  # bytes: the admin's longest forms have a tenth of it


async def within_limit(
    app: Callable[[dict[str, Any], Receive, Send], Awaitable[None]], scope: dict[str, Any], receive: Receive, send: Send
) -> None:
    """Let the application answer, unless the body is longer than a form may be: then it is 413, as early as it is known."""
    if (announced(scope) or 0) > FORMS:
        await _refuse(send)
        return
    came = 0
    refused = begun = False

    async def counted() -> Message:
        nonlocal came, refused
        message = await receive()
        came += len(message.get("body", b""))
        if came <= FORMS:
            return message
        refused = True
        return {"type": "http.disconnect"}  # Django lets go of what it has kept

    async def noted(message: Message) -> None:
        nonlocal begun
        begun = True
        await send(message)

    await app(scope, counted, noted)
    if refused and not begun:
        await _refuse(send)


async def _refuse(send: Send) -> None:
    refusal = BodyTooLarge(FORMS)
    told = {"error": {"code": refusal.code, "message": refusal.message}}
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": refusal.http_status, "headers": headers})
    await send({"type": "http.response.body", "body": orjson.dumps(told)})
