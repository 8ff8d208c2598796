"""`POST /v1/responses`, plain and as a stream of events, and `GET /v1/responses/{id}`: the same runs in OpenAI's newer format."""

import itertools
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import orjson
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from clawsite.api.http.authentication import caller
from clawsite.api.openai import errors as openai_errors
from clawsite.api.openai.completion_request import Wish
from clawsite.api.openai.errors import Refused, WrongMethod
from clawsite.api.openai.models import OURS
from clawsite.api.openai.responses_output import call_item, message_item, response, status_of, text_part
from clawsite.api.openai.responses_request import read_responses
from clawsite.api.openai.run_updates import Answered, Ended, Happening, Said, Silence, Telling, Usage
from clawsite.api.openai.runs import Started, failure_of, follow
from clawsite.api.openai.sse import KEEP_ALIVE, event_stream, started_by
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server import runtime
from clawsite.gateway.server.runtime import Runtime
from clawsite.infra import clock, db
from clawsite.infra.errors import NotFound
from sessions_app.models import Run
from sessions_app.runs.answer import own_run, told_again


@csrf_exempt  # a token needs none; a cookie is checked by `caller`
async def responses(request: HttpRequest) -> HttpResponseBase:
    try:
        started, wish = await started_by(request, read_responses)
        gateway = await runtime.running()
        if wish.stream:
            return event_stream(_Events(started, wish).stream(gateway, started))
        return JsonResponse(await _whole(gateway, started, wish))
    except Exception as error:
        return openai_errors.answer(error)


@csrf_exempt  # what is not a GET is told so
async def one_response(request: HttpRequest, response_id: str) -> JsonResponse:
    """A response of one's own, also while it is being made."""
    try:
        if request.method != "GET":
            raise WrongMethod("GET")
        user = await caller(request, Scope.READ)
        try:
            run = await db.read(own_run, user, response_id.removeprefix("resp_"))
        except NotFound:
            raise Refused(f"response {response_id!r} was not found", code="not_found", status=404) from None
        shape: dict[str, Any] = {"run_id": run.run_id, "model": f"{OURS}/{run.session.agent}"}
        shape["created"] = clock.to_ms(run.accepted_at) // 1000
        if run.status not in Run.ENDED:
            return JsonResponse(response(**shape))
        telling = Telling()
        happenings = [happening for event in await db.read(told_again, run.pk) for happening in telling.take(event)]
        return JsonResponse(_made(happenings, shape))
    except Exception as error:
        return openai_errors.answer(error)


async def _whole(gateway: Runtime, started: Started, wish: Wish) -> dict[str, Any]:
    async with aclosing(follow(gateway, started)) as happenings:
        told = [happening async for happening in happenings]
    if isinstance(told[-1], Ended) and (failure := failure_of(told[-1])):
        raise failure
    return _made(told, _shape(started, wish))


def _shape(started: Started, wish: Wish) -> dict[str, Any]:
    return {"run_id": started.run_id, "created": started.created, "model": wish.model, "previous": wish.previous}


def _made(happenings: list[Happening], shape: dict[str, Any]) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    for happening in happenings:
        match happening:
            case Said(-1, text) | Answered(_, text):
                output.append(message_item(shape["run_id"], len(output), text))
            case Ended(failure=(kind, words), usage=usage):
                return response(**shape, status="failed", output=output, usage=usage, error=_error(kind, words))
            case Ended(finish, usage, calls):
                status, why = status_of(finish)
                output += [call_item(call) for call in calls]
                return response(**shape, status=status, output=output, usage=usage, incomplete=why)
    raise RuntimeError("the run's events ended without its end")


def _error(kind: str, words: str) -> dict[str, Any]:
    shape = openai_errors.explain(openai_errors.RunFailed(kind, words))[1]
    return {"code": shape["code"], "message": shape["message"]}


class _Events:
    """The events of one streamed response, numbered."""

    def __init__(self, started: Started, wish: Wish) -> None:
        self._shape = _shape(started, wish)
        self._run_id = started.run_id
        self._numbers = itertools.count()
        self._output: list[dict[str, Any]] = []  # finished items
        self._open: tuple[int, str] | None = None  # the answer that is being written: its number in the run, its words

    async def stream(self, gateway: Runtime, started: Started) -> AsyncGenerator[bytes, None]:
        """What goes wrong in between is told as the last event, since the status has left already."""
        try:
            async with aclosing(self._told(gateway, started)) as events:
                async for event in events:
                    yield event
        except Exception as error:
            shape = openai_errors.explain(error)[1]
            yield self._event("error", code=shape["code"], message=shape["message"], param=None)
        yield b"data: [DONE]\n\n"

    async def _told(self, gateway: Runtime, started: Started) -> AsyncGenerator[bytes, None]:
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, response=response(**self._shape))
        async with aclosing(follow(gateway, started)) as happenings:
            async for happening in happenings:
                match happening:
                    case Said(index, text):
                        for event in self._said(index, text):
                            yield event
                    case Silence():
                        yield KEEP_ALIVE
                    case Ended():
                        for event in self._ended(happening):
                            yield event

    def _said(self, index: int, text: str) -> list[bytes]:
        events = self._close() if self._open and self._open[0] != index else []
        if self._open is None:
            number = len(self._output)
            item = message_item(self._run_id, number, None)
            events.append(self._event("response.output_item.added", output_index=number, item=item))
            events.append(self._event("response.content_part.added", **self._where, part=text_part("")))
            self._open = (index, "")
        self._open = (index, self._open[1] + text)
        events.append(self._event("response.output_text.delta", **self._where, delta=text, logprobs=[]))
        return events

    @property
    def _where(self) -> dict[str, Any]:
        """The text part of the item that is being written."""
        number = len(self._output)
        return {"item_id": f"msg_{self._run_id}_{number}", "output_index": number, "content_index": 0}

    def _close(self) -> list[bytes]:
        """The answer that was being written is complete."""
        if self._open is None:
            return []
        text, where = self._open[1], self._where
        item = message_item(self._run_id, where["output_index"], text)
        self._open = None
        self._output.append(item)
        return [
            self._event("response.output_text.done", **where, text=text, logprobs=[]),
            self._event("response.content_part.done", **where, part=text_part(text)),
            self._event("response.output_item.done", output_index=where["output_index"], item=item),
        ]

    def _ended(self, ended: Ended) -> list[bytes]:
        events = self._close()
        if ended.failure:
            failed = self._whole("failed", ended.usage, error=_error(*ended.failure))
            return [*events, self._event("response.failed", response=failed)]
        for call in ended.calls:
            at, item = len(self._output), call_item(call)
            where = {"item_id": item["id"], "output_index": at}
            self._output.append(item)
            events += [
                self._event("response.output_item.added", output_index=at, item=call_item(call, whole=False)),
                self._event("response.function_call_arguments.delta", **where, delta=call.arguments),
                self._event("response.function_call_arguments.done", **where, name=call.name, arguments=call.arguments),
                self._event("response.output_item.done", output_index=at, item=item),
            ]
        status, why = status_of(ended.finish)
        return [*events, self._event(f"response.{status}", response=self._whole(status, ended.usage, incomplete=why))]

    def _whole(self, status: str, usage: Usage, **more: Any) -> dict[str, Any]:
        return response(**self._shape, status=status, output=self._output, usage=usage, **more)

    def _event(self, kind: str, **fields: Any) -> bytes:
        data = orjson.dumps({"type": kind, "sequence_number": next(self._numbers), **fields})
        return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"
