"""`POST /v1/responses`, plain or streamed, and `GET /v1/responses/{id}`: the same runs in OpenAI's newer format."""

import itertools
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import orjson
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from clawsite.api.http.authentication import authenticate_user
from clawsite.api.openai import errors as openai_errors
from clawsite.api.openai.completion_request import CompletionRequest
from clawsite.api.openai.errors import MethodNotAllowed, RequestRejected
from clawsite.api.openai.models import MODEL_PREFIX
from clawsite.api.openai.responses_output import (
    build_call_item,
    build_message_item,
    build_response,
    build_text_part,
    to_response_status,
)
from clawsite.api.openai.responses_request import parse_responses_request
from clawsite.api.openai.run_updates import (
    AnswerDelta,
    AnswerDone,
    CompletionUsage,
    KeepAlive,
    RunEnded,
    RunUpdate,
    RunUpdateBuilder,
)
from clawsite.api.openai.runs import StartedRun, follow_run, to_failure
from clawsite.api.openai.sse import KEEP_ALIVE, event_stream, start_from_request
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server import runtime
from clawsite.gateway.server.runtime import Runtime
from clawsite.infra import clock, db
from clawsite.infra.errors import NotFound
from sessions_app.models import Run
from sessions_app.runs.results import find_own_run, rebuild_answer_events


@csrf_exempt  # tokens need no CSRF check; `authenticate` does it for cookies
async def create_response(request: HttpRequest) -> HttpResponseBase:
    try:
        started, params = await start_from_request(request, parse_responses_request)
        gateway = await runtime.get_runtime()
        if params.stream:
            return event_stream(_EventStream(started, params).stream(gateway, started))
        return JsonResponse(await _collect(gateway, started, params))
    except Exception as error:
        return openai_errors.error_response(error)


@csrf_exempt  # so that other methods get a 405 instead of a CSRF error
async def retrieve_response(request: HttpRequest, response_id: str) -> JsonResponse:
    """Return one of the caller's responses, even while it is in progress."""
    try:
        if request.method != "GET":
            raise MethodNotAllowed("GET")
        user = await authenticate_user(request, Scope.READ)
        try:
            run = await db.read(find_own_run, user, response_id.removeprefix("resp_"))
        except NotFound:
            raise RequestRejected(f"response {response_id!r} was not found", code="not_found", status=404) from None
        fields: dict[str, Any] = {"run_id": run.run_id, "model": f"{MODEL_PREFIX}/{run.session.agent}"}
        fields["created"] = clock.to_ms(run.accepted_at) // 1000
        if run.status not in Run.ENDED:
            return JsonResponse(build_response(**fields))
        builder = RunUpdateBuilder()
        updates = [update for event in await db.read(rebuild_answer_events, run.pk) for update in builder.take(event)]
        return JsonResponse(_build_output(updates, fields))
    except Exception as error:
        return openai_errors.error_response(error)


async def _collect(gateway: Runtime, started: StartedRun, params: CompletionRequest) -> dict[str, Any]:
    async with aclosing(follow_run(gateway, started)) as stream:
        updates = [update async for update in stream]
    if isinstance(updates[-1], RunEnded) and (failure := to_failure(updates[-1])):
        raise failure
    return _build_output(updates, _response_fields(started, params))


def _response_fields(started: StartedRun, params: CompletionRequest) -> dict[str, Any]:
    return {"run_id": started.run_id, "created": started.created, "model": params.model, "previous": params.previous}


def _build_output(updates: list[RunUpdate], fields: dict[str, Any]) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    for update in updates:
        match update:
            case AnswerDelta(-1, text) | AnswerDone(_, text):
                output.append(build_message_item(fields["run_id"], len(output), text))
            case RunEnded(failure=(kind, message), usage=usage):
                return build_response(**fields, status="failed", output=output, usage=usage, error=_error_object(kind, message))
            case RunEnded(finish, usage, calls):
                status, reason = to_response_status(finish)
                output += [build_call_item(call) for call in calls]
                return build_response(**fields, status=status, output=output, usage=usage, incomplete=reason)
    raise RuntimeError("event stream closed before the run finished")


def _error_object(kind: str, message: str) -> dict[str, Any]:
    error = openai_errors.describe_error(openai_errors.CompletionFailed(kind, message))[1]
    return {"code": error["code"], "message": error["message"]}


class _EventStream:
    """Builds the numbered events of one streamed response."""

    def __init__(self, started: StartedRun, params: CompletionRequest) -> None:
        self._fields = _response_fields(started, params)
        self._run_id = started.run_id
        self._numbers = itertools.count()
        self._output: list[dict[str, Any]] = []  # finished items
        self._open: tuple[int, str] | None = None  # the answer in progress: its number in the run, its text

    async def stream(self, gateway: Runtime, started: StartedRun) -> AsyncGenerator[bytes, None]:
        """Yield the events. An error is sent as the last event, because the status was already sent."""
        try:
            async with aclosing(self._stream_events(gateway, started)) as events:
                async for event in events:
                    yield event
        except Exception as error:
            content = openai_errors.describe_error(error)[1]
            yield self._event("error", code=content["code"], message=content["message"], param=None)
        yield b"data: [DONE]\n\n"

    async def _stream_events(self, gateway: Runtime, started: StartedRun) -> AsyncGenerator[bytes, None]:
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, response=build_response(**self._fields))
        async with aclosing(follow_run(gateway, started)) as updates:
            async for update in updates:
                match update:
                    case AnswerDelta(index, text):
                        for event in self._add_text(index, text):
                            yield event
                    case KeepAlive():
                        yield KEEP_ALIVE
                    case RunEnded():
                        for event in self._finish(update):
                            yield event

    def _add_text(self, index: int, text: str) -> list[bytes]:
        events = self._close() if self._open and self._open[0] != index else []
        if self._open is None:
            number = len(self._output)
            item = build_message_item(self._run_id, number, None)
            events.append(self._event("response.output_item.added", output_index=number, item=item))
            events.append(self._event("response.content_part.added", **self._text_position, part=build_text_part("")))
            self._open = (index, "")
        self._open = (index, self._open[1] + text)
        events.append(self._event("response.output_text.delta", **self._text_position, delta=text, logprobs=[]))
        return events

    @property
    def _text_position(self) -> dict[str, Any]:
        """The position of the text part in progress."""
        number = len(self._output)
        return {"item_id": f"msg_{self._run_id}_{number}", "output_index": number, "content_index": 0}

    def _close(self) -> list[bytes]:
        """Complete the answer in progress."""
        if self._open is None:
            return []
        text, where = self._open[1], self._text_position
        item = build_message_item(self._run_id, where["output_index"], text)
        self._open = None
        self._output.append(item)
        return [
            self._event("response.output_text.done", **where, text=text, logprobs=[]),
            self._event("response.content_part.done", **where, part=build_text_part(text)),
            self._event("response.output_item.done", output_index=where["output_index"], item=item),
        ]

    def _finish(self, ended: RunEnded) -> list[bytes]:
        events = self._close()
        if ended.failure:
            failed = self._build_response("failed", ended.usage, error=_error_object(*ended.failure))
            return [*events, self._event("response.failed", response=failed)]
        for call in ended.calls:
            at, item = len(self._output), build_call_item(call)
            where = {"item_id": item["id"], "output_index": at}
            self._output.append(item)
            events += [
                self._event("response.output_item.added", output_index=at, item=build_call_item(call, complete=False)),
                self._event("response.function_call_arguments.delta", **where, delta=call.arguments),
                self._event("response.function_call_arguments.done", **where, name=call.name, arguments=call.arguments),
                self._event("response.output_item.done", output_index=at, item=item),
            ]
        status, reason = to_response_status(ended.finish)
        return [*events, self._event(f"response.{status}", response=self._build_response(status, ended.usage, incomplete=reason))]

    def _build_response(self, status: str, usage: CompletionUsage, **more: Any) -> dict[str, Any]:
        return build_response(**self._fields, status=status, output=self._output, usage=usage, **more)

    def _event(self, kind: str, **fields: Any) -> bytes:
        data = orjson.dumps({"type": kind, "sequence_number": next(self._numbers), **fields})
        return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"
