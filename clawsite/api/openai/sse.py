"""What the two endpoints share of HTTP: from a request to its run, and answers as server-sent events."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from pydantic import ValidationError

from clawsite.api.http.authentication import identified
from clawsite.api.openai.completion_request import Wish
from clawsite.api.openai.errors import WrongMethod, first_fault
from clawsite.api.openai.input_messages import MOST_VALUES
from clawsite.api.openai.runs import Started, start
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra.bounded_json import read_json
from clawsite.infra.request_body import understood

MESSAGES = 20 << 20  # bytes: images and files come inside the message; OpenClaw's number

KEEP_ALIVE = b": keep-alive\n\n"  # a comment, which every reader of such a stream leaves out
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # the second keeps nginx from holding words back


async def started_by(request: HttpRequest, read: Callable[[Any], Wish]) -> tuple[Started, Wish]:
    """The run that a request asks for, and its wish. Who sends it is known before anything of the body is read."""
    if request.method != "POST":
        raise WrongMethod("POST")
    who = await identified(request, Scope.WRITE)
    wish = await understood(request, MESSAGES, lambda body: _wish_in(body, read))
    return await start(request, who, wish), wish


def _wish_in(body: bytes, read: Callable[[Any], Wish]) -> Wish:
    try:
        return read(read_json(body, MOST_VALUES))
    except ValidationError as error:  # here, and not where all failures are told: it may have thousands of faults
        raise first_fault(error) from None


def event_stream(chunks: AsyncGenerator[bytes, None]) -> StreamingHttpResponse:
    return StreamingHttpResponse(chunks, content_type="text/event-stream; charset=utf-8", headers=HEADERS)
