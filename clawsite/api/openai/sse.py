"""HTTP helpers for both endpoints: start a run from a request, and stream server-sent events."""

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

MAX_BODY_BYTES = 20 << 20  # images and files are inline; same limit as OpenClaw

KEEP_ALIVE = b": keep-alive\n\n"  # a comment, which SSE clients ignore
SSE_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # the second disables buffering in nginx


async def start_from_request(
    request: HttpRequest, parse: Callable[[Any], CompletionRequest]
) -> tuple[StartedRun, CompletionRequest]:
    """Authenticate, read the body, start the run. Return the run and the parsed request."""
    if request.method != "POST":
        raise MethodNotAllowed("POST")
    caller = await authenticate(request, Scope.WRITE)
    params = await parse_body(request, MAX_BODY_BYTES, lambda body: _parse_body(body, parse))
    return await start_run(request, caller, params), params


def _parse_body(body: bytes, parse: Callable[[Any], CompletionRequest]) -> CompletionRequest:
    try:
        return parse(read_json(body, MAX_VALUES))
    except ValidationError as error:  # handled here, on the parser thread, because it may list thousands of errors
        raise to_request_rejected(error) from None


def event_stream(chunks: AsyncGenerator[bytes, None]) -> StreamingHttpResponse:
    return StreamingHttpResponse(chunks, content_type="text/event-stream; charset=utf-8", headers=SSE_HEADERS)
