"""What the two endpoints share of HTTP: from a request to its run, and answers as server-sent events."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from pydantic import ValidationError

from clawsite.api.http.authentication import authenticate
from clawsite.api.openai.completion_request import CompletionRequest
from clawsite.api.openai.errors import MethodNotAllowed, to_request_rejected
from clawsite.api.openai.input_messages import MAX_VALUES
from clawsite.api.openai.runs import StartedRun, start_run
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra.bounded_json import read_json
from clawsite.infra.request_body import parse_body

MAX_BODY_BYTES = 20 << 20  # bytes: images and files come inside the message; OpenClaw's number

KEEP_ALIVE = b": keep-alive\n\n"  # a comment, which every reader of such a stream leaves out
SSE_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # the second keeps nginx from holding words back


async def start_from_request(
    request: HttpRequest, read: Callable[[Any], CompletionRequest]
) -> tuple[StartedRun, CompletionRequest]:
    """The run that a request asks for, and its params. Who sends it is known before anything of the body is read."""
    if request.method != "POST":
        raise MethodNotAllowed("POST")
    who = await authenticate(request, Scope.WRITE)
    params = await parse_body(request, MAX_BODY_BYTES, lambda body: _parse_body(body, read))
    return await start_run(request, who, params), params


def _parse_body(body: bytes, read: Callable[[Any], CompletionRequest]) -> CompletionRequest:
    try:
        return read(read_json(body, MAX_VALUES))
    except ValidationError as error:  # here, and not where all failures are told: it may have thousands of faults
        raise to_request_rejected(error) from None


def event_stream(chunks: AsyncGenerator[bytes, None]) -> StreamingHttpResponse:
    return StreamingHttpResponse(chunks, content_type="text/event-stream; charset=utf-8", headers=SSE_HEADERS)
