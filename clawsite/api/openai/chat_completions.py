"""`POST /v1/chat/completions`: an agent that answers like a model, whole or as a stream."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import orjson
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from clawsite.api.openai import errors
from clawsite.api.openai.chat_request import parse_chat_request
from clawsite.api.openai.completion_request import CompletionRequest
from clawsite.api.openai.run_updates import AnswerDelta, AnswerDone, ClientToolCall, CompletionUsage, KeepAlive, RunEnded
from clawsite.api.openai.runs import StartedRun, follow_run, to_failure
from clawsite.api.openai.sse import KEEP_ALIVE, event_stream, start_from_request
from clawsite.gateway.server import runtime
from clawsite.gateway.server.runtime import Runtime

ANSWER_SEPARATOR = "\n\n"  # of a run that used tools in between


@csrf_exempt  # a token needs none; a cookie is checked by `caller`
async def chat_completions(request: HttpRequest) -> HttpResponseBase:
    try:
        started, wish = await start_from_request(request, parse_chat_request)
        gateway = await runtime.get_runtime()
        if wish.stream:
            return event_stream(_stream(gateway, started, wish))
        return JsonResponse(await _collect(gateway, started, wish))
    except Exception as error:
        return errors.error_response(error)


async def _collect(gateway: Runtime, started: StartedRun, wish: CompletionRequest) -> dict[str, Any]:
    texts: dict[int, str] = {}
    async with aclosing(follow_run(gateway, started)) as happenings:
        async for happening in happenings:
            match happening:
                case AnswerDelta(-1, text) | AnswerDone(_, text):
                    texts[len(texts)] = text
                case RunEnded():
                    if failure := to_failure(happening):
                        raise failure
                    return _build_completion(started, wish, ANSWER_SEPARATOR.join(texts.values()), happening)
    raise RuntimeError("the run's events ended without its end")


def _build_completion(started: StartedRun, wish: CompletionRequest, text: str, ended: RunEnded) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if ended.calls:
        message["tool_calls"] = [_to_wire_call(call) for call in ended.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": ended.finish}
    return {**_build_head(started, wish, "chat.completion"), "choices": [choice], "usage": _to_wire_usage(ended.usage)}


async def _stream(gateway: Runtime, started: StartedRun, wish: CompletionRequest) -> AsyncGenerator[bytes, None]:
    """The chunks; what goes wrong in between is told as the last one, since the status has left already."""
    try:
        async with aclosing(_chunks(gateway, started, wish)) as chunks:
            async for chunk in chunks:
                yield chunk
    except Exception as error:
        yield _encode_event({"error": errors.describe_error(error)[1]})
    yield b"data: [DONE]\n\n"


async def _chunks(gateway: Runtime, started: StartedRun, wish: CompletionRequest) -> AsyncGenerator[bytes, None]:
    head = _build_head(started, wish, "chat.completion.chunk")
    nothing_yet = {"usage": None} if wish.include_usage else {}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _encode_event({**head, "choices": [choice], **nothing_yet})

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    answer: int | None = None
    async with aclosing(follow_run(gateway, started)) as happenings:
        async for happening in happenings:
            match happening:
                case AnswerDelta(index, text):
                    before = ANSWER_SEPARATOR if answer not in (None, index) else ""
                    answer = index
                    yield chunk({"content": before + text})
                case KeepAlive():
                    yield KEEP_ALIVE
                case RunEnded(calls=calls, usage=usage):
                    if failure := to_failure(happening):
                        raise failure
                    for number, call in enumerate(calls):
                        whole = _to_wire_call(call)
                        opened = {**whole, "index": number, "function": {"name": call.name, "arguments": ""}}
                        yield chunk({"tool_calls": [opened]})
                        yield chunk({"tool_calls": [{"index": number, "function": {"arguments": call.arguments}}]})
                    yield chunk({}, happening.finish)
                    if wish.include_usage:
                        yield _encode_event({**head, "choices": [], "usage": _to_wire_usage(usage)})


def _build_head(started: StartedRun, wish: CompletionRequest, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{started.run_id}", "object": kind, "created": started.created, "model": wish.model}


def _to_wire_call(call: ClientToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _to_wire_usage(usage: CompletionUsage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }


def _encode_event(value: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"
