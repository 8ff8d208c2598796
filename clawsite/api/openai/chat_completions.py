"""`POST /v1/chat/completions`: an agent that answers like a model, whole or as a stream."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import orjson
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from clawsite.api.openai import errors
from clawsite.api.openai.chat_request import read_chat
from clawsite.api.openai.completion_request import Wish
from clawsite.api.openai.run_updates import Answered, CallOut, Ended, Said, Silence, Usage
from clawsite.api.openai.runs import Started, failure_of, follow
from clawsite.api.openai.sse import KEEP_ALIVE, event_stream, started_by
from clawsite.gateway.server import runtime
from clawsite.gateway.server.runtime import Runtime

BETWEEN_ANSWERS = "\n\n"  # of a run that used tools in between


@csrf_exempt  # a token needs none; a cookie is checked by `caller`
async def chat_completions(request: HttpRequest) -> HttpResponseBase:
    try:
        started, wish = await started_by(request, read_chat)
        gateway = await runtime.running()
        if wish.stream:
            return event_stream(_told(gateway, started, wish))
        return JsonResponse(await _whole(gateway, started, wish))
    except Exception as error:
        return errors.answer(error)


async def _whole(gateway: Runtime, started: Started, wish: Wish) -> dict[str, Any]:
    texts: dict[int, str] = {}
    async with aclosing(follow(gateway, started)) as happenings:
        async for happening in happenings:
            match happening:
                case Said(-1, text) | Answered(_, text):
                    texts[len(texts)] = text
                case Ended():
                    if failure := failure_of(happening):
                        raise failure
                    return _completion(started, wish, BETWEEN_ANSWERS.join(texts.values()), happening)
    raise RuntimeError("the run's events ended without its end")


def _completion(started: Started, wish: Wish, text: str, ended: Ended) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if ended.calls:
        message["tool_calls"] = [_call(call) for call in ended.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": ended.finish}
    return {**_head(started, wish, "chat.completion"), "choices": [choice], "usage": _usage(ended.usage)}


async def _told(gateway: Runtime, started: Started, wish: Wish) -> AsyncGenerator[bytes, None]:
    """The chunks; what goes wrong in between is told as the last one, since the status has left already."""
    try:
        async with aclosing(_chunks(gateway, started, wish)) as chunks:
            async for chunk in chunks:
                yield chunk
    except Exception as error:
        yield _data({"error": errors.explain(error)[1]})
    yield b"data: [DONE]\n\n"


async def _chunks(gateway: Runtime, started: Started, wish: Wish) -> AsyncGenerator[bytes, None]:
    head = _head(started, wish, "chat.completion.chunk")
    nothing_yet = {"usage": None} if wish.include_usage else {}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _data({**head, "choices": [choice], **nothing_yet})

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    answer: int | None = None
    async with aclosing(follow(gateway, started)) as happenings:
        async for happening in happenings:
            match happening:
                case Said(index, text):
                    before = BETWEEN_ANSWERS if answer not in (None, index) else ""
                    answer = index
                    yield chunk({"content": before + text})
                case Silence():
                    yield KEEP_ALIVE
                case Ended(calls=calls, usage=usage):
                    if failure := failure_of(happening):
                        raise failure
                    for number, call in enumerate(calls):
                        whole = _call(call)
                        opened = {**whole, "index": number, "function": {"name": call.name, "arguments": ""}}
                        yield chunk({"tool_calls": [opened]})
                        yield chunk({"tool_calls": [{"index": number, "function": {"arguments": call.arguments}}]})
                    yield chunk({}, happening.finish)
                    if wish.include_usage:
                        yield _data({**head, "choices": [], "usage": _usage(usage)})


def _head(started: Started, wish: Wish, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{started.run_id}", "object": kind, "created": started.created, "model": wish.model}


def _call(call: CallOut) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"
