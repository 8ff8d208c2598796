"""How much a request may bring. Django keeps the whole body on disk before a view or a sign-in check sees it: this comes before."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from clawsite.web.attachments import FORM_BYTES
from sessions_app.attachments import LARGEST

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

FORMS = 2 << 20  # bytes: the admin's longest forms have a tenth of it
LARGER = {"/attachments/": LARGEST + FORM_BYTES}


async def within_limit(
    app: Callable[[dict[str, Any], Receive, Send], Awaitable[None]], scope: dict[str, Any], receive: Receive, send: Send
) -> None:
    """Let the application answer, unless the body is longer than its path may have: then it is 413, as early as it is known."""
    limit = LARGER.get(scope["path"], FORMS)
    if _announced(scope) > limit:
        await _refuse(send, limit)
        return
    came = 0
    refused = begun = False

    async def counted() -> Message:
        nonlocal came, refused
        message = await receive()
        came += len(message.get("body", b""))
        if came <= limit:
            return message
        refused = True
        return {"type": "http.disconnect"}  # Django lets go of what it has kept

    async def noted(message: Message) -> None:
        nonlocal begun
        begun = True
        await send(message)

    await app(scope, counted, noted)
    if refused and not begun:
        await _refuse(send, limit)


def _announced(scope: Message) -> int:
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() else 0


async def _refuse(send: Send, limit: int) -> None:
    error = {"code": "INVALID_REQUEST", "message": f"the request is longer than {limit >> 20} MB, the most that is taken here"}
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": orjson.dumps({"error": error})})
