"""`POST /v1/chat/completions`: an agent that responds like a model, plain or streamed."""

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

ANSWER_SEPARATOR = "\n\n"  # between the answers of a run that used tools


@csrf_exempt  # tokens need no CSRF check; `authenticate` does it for cookies
async def chat_completions(request: HttpRequest) -> HttpResponseBase:
    try:
        started, params = await start_from_request(request, parse_chat_request)
        gateway = await runtime.get_runtime()
        if params.stream:
            return event_stream(_stream(gateway, started, params))
        return JsonResponse(await _collect(gateway, started, params))
    except Exception as error:
        return errors.error_response(error)


async def _collect(gateway: Runtime, started: StartedRun, params: CompletionRequest) -> dict[str, Any]:
    texts: dict[int, str] = {}
    async with aclosing(follow_run(gateway, started)) as updates:
        async for update in updates:
            match update:
                case AnswerDelta(-1, text) | AnswerDone(_, text):
                    texts[len(texts)] = text
                case RunEnded():
                    if failure := to_failure(update):
                        raise failure
                    return _build_completion(started, params, ANSWER_SEPARATOR.join(texts.values()), update)
    raise RuntimeError("event stream closed before the run finished")


def _build_completion(started: StartedRun, params: CompletionRequest, text: str, ended: RunEnded) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if ended.calls:
        message["tool_calls"] = [_to_wire_call(call) for call in ended.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": ended.finish}
    return {**_build_head(started, params, "chat.completion"), "choices": [choice], "usage": _to_wire_usage(ended.usage)}


async def _stream(gateway: Runtime, started: StartedRun, params: CompletionRequest) -> AsyncGenerator[bytes, None]:
    """Yield the chunks. An error is sent as the last chunk, because the status was already sent."""
    try:
        async with aclosing(_chunks(gateway, started, params)) as chunks:
            async for chunk in chunks:
                yield chunk
    except Exception as error:
        yield _encode_event({"error": errors.describe_error(error)[1]})
    yield b"data: [DONE]\n\n"


async def _chunks(gateway: Runtime, started: StartedRun, params: CompletionRequest) -> AsyncGenerator[bytes, None]:
    head = _build_head(started, params, "chat.completion.chunk")
    no_usage = {"usage": None} if params.include_usage else {}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _encode_event({**head, "choices": [choice], **no_usage})

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    answer: int | None = None
    async with aclosing(follow_run(gateway, started)) as updates:
        async for update in updates:
            match update:
                case AnswerDelta(index, text):
                    separator = ANSWER_SEPARATOR if answer not in (None, index) else ""
                    answer = index
                    yield chunk({"content": separator + text})
                case KeepAlive():
                    yield KEEP_ALIVE
                case RunEnded(calls=calls, usage=usage):
                    if failure := to_failure(update):
                        raise failure
                    for number, call in enumerate(calls):
                        first = {**_to_wire_call(call), "index": number, "function": {"name": call.name, "arguments": ""}}
                        yield chunk({"tool_calls": [first]})
                        yield chunk({"tool_calls": [{"index": number, "function": {"arguments": call.arguments}}]})
                    yield chunk({}, update.finish)
                    if params.include_usage:
                        yield _encode_event({**head, "choices": [], "usage": _to_wire_usage(usage)})


def _build_head(started: StartedRun, params: CompletionRequest, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{started.run_id}", "object": kind, "created": started.created, "model": params.model}


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
