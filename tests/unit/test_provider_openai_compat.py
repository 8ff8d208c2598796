"""What only the direct provider does: server dialects, kept connections, broken streams that litellm can't detect."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import orjson
import pytest
from aiohttp import web

from agents.llm.base import (
    Credentials,
    FailureKind,
    Finished,
    ModelRequest,
    ProviderError,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    Timeouts,
    ToolSpec,
)
from agents.llm.messages import AssistantMessage, ToolCallRequest, ToolResultMessage, UserMessage
from agents.llm.providers.openai_compat import OpenAICompatProvider
from tests.harness import fake_model

READ = ToolSpec("read", "Show a file.", {"type": "object", "properties": {}})
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
async def provider() -> AsyncIterator[OpenAICompatProvider]:
    provider = OpenAICompatProvider()
    yield provider
    await provider.aclose()


@pytest.fixture
async def server() -> AsyncIterator[fake_model.FakeModel]:
    async with fake_model.serve() as running:
        yield running


@asynccontextmanager
async def serving(handler: Handler, path: str = "/v1/chat/completions") -> AsyncIterator[str]:
    """Start a custom server for what the fake model doesn't do, and return its base URL."""
    app = web.Application()
    app.router.add_post(path, handler)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


def chunk(text: str, finish_reason: str | None = None) -> bytes:
    choice = {"delta": {"content": text}, "finish_reason": finish_reason}
    return b"data: " + orjson.dumps({"choices": [choice]}) + b"\n\n"


def request(base_url: str, text: str = "hello", **changes: object) -> ModelRequest:
    fields: dict[str, object] = {"messages": (UserMessage(text),), "credentials": Credentials("k", base_url), **changes}
    return ModelRequest(model="fake-1", **fields)  # type: ignore[arg-type]  # fields are ModelRequest's own


async def ask(provider: OpenAICompatProvider, asked: ModelRequest) -> list[StreamEvent]:
    async with aclosing(provider.stream(asked)) as events:
        return [event async for event in events]


async def failure(provider: OpenAICompatProvider, asked: ModelRequest) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await ask(provider, asked)
    return caught.value


def message_of(events: list[StreamEvent]) -> AssistantMessage:
    assert isinstance(events[-1], Finished)
    return events[-1].message


async def test_stream_without_finish_reason_is_cut_failure(provider: OpenAICompatProvider, server: fake_model.FakeModel) -> None:
    assert (await failure(provider, request(server.base_url, "[[tokens=5 end_after=2]]"))).kind is FailureKind.CUT


async def test_connection_is_reused_after_background_drain(provider: OpenAICompatProvider) -> None:
    ports: list[int] = []
    answered = asyncio.Event()

    async def handler(asked: web.Request) -> web.StreamResponse:
        assert asked.transport is not None
        ports.append(asked.transport.get_extra_info("peername")[1])
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(asked)
        await response.write(chunk("ok", "stop") + b"data: [DONE]\n\n")
        await answered.wait()  # the body ends only after the caller has its answer
        return response

    async with serving(handler) as base_url:
        for _ in range(3):
            answered.clear()
            await ask(provider, request(base_url))
            answered.set()
            await asyncio.gather(*provider._draining)
    assert len(ports) == 3
    assert len(set(ports)) == 1


async def test_key_is_sent_only_in_authorization_header(provider: OpenAICompatProvider) -> None:
    seen: list[dict[str, str]] = []

    async def handler(asked: web.Request) -> web.StreamResponse:
        seen.append(dict(asked.headers))
        return web.json_response({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]})

    async with serving(handler) as base_url:
        await ask(provider, request(base_url, credentials=Credentials("secret", base_url)))
        await ask(provider, request(base_url, credentials=Credentials("", base_url)))
    assert [name for name, value in seen[0].items() if "secret" in value] == ["Authorization"]
    assert "Authorization" not in seen[1]


async def test_non_streaming_response_is_parsed(provider: OpenAICompatProvider, server: fake_model.FakeModel) -> None:
    events = await ask(provider, request(server.base_url, '[[whole text="all at once"]]'))
    assert events[0] == TextDelta("all at once")
    assert message_of(events).text == "all at once"


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_events_split_across_network_chunks_are_parsed(provider: OpenAICompatProvider, size: int) -> None:
    stream = (
        ': OPENROUTER PROCESSING\r\n\r\nevent: x\r\nid: 1\r\ndata: {"choices":[{"delta":{"reasoning":"hm"}}]}\r\n\r\n'
        'data:{"choices":[{"delta":{"content":"grüß "}}]}\n\n'
        'data: {"choices":[{"delta":{"content":"好"},"finish_reason":"stop"}]}\n\n'
        'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\ndata: [DONE]\n\n'
    ).encode()

    async def handler(asked: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(asked)
        for start in range(0, len(stream), size):
            await response.write(stream[start : start + size])
        return response

    async with serving(handler) as base_url:
        events = await ask(provider, request(base_url))
    assert message_of(events) == AssistantMessage("grüß 好", "hm")
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == "hm"
    assert isinstance(events[-1], Finished)
    assert events[-1].usage.input_tokens == 3


async def test_answer_with_finish_reason_survives_aborted_connection(provider: OpenAICompatProvider) -> None:
    async def handler(asked: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(asked)
        await response.write(b'data: {"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\n')
        assert asked.transport is not None
        asked.transport.abort()  # before usage and [DONE]
        return response

    async with serving(handler) as base_url:
        assert message_of(await ask(provider, request(base_url))).text == "ok"


async def test_last_event_without_newline_is_parsed(provider: OpenAICompatProvider) -> None:
    async def handler(asked: web.Request) -> web.StreamResponse:
        return web.Response(body=chunk("all of ") + chunk("it", "stop").rstrip(), content_type="text/event-stream")

    async with serving(handler) as base_url:
        assert message_of(await ask(provider, request(base_url))).text == "all of it"


async def test_html_response_suggests_checking_base_url(provider: OpenAICompatProvider) -> None:
    async def handler(asked: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>Welcome</html>", content_type="text/html")

    async with serving(handler) as base_url:
        found = await failure(provider, request(base_url))
    assert found.kind is FailureKind.FORMAT
    assert "check the base URL" in found.message


async def test_malformed_stream_is_format_failure(provider: OpenAICompatProvider) -> None:
    async def handler(asked: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(asked)
        await response.write(b"data: {oops\n\n")
        return response

    async with serving(handler) as base_url:
        assert (await failure(provider, request(base_url))).kind is FailureKind.FORMAT


async def test_redirect_is_not_followed_with_key(provider: OpenAICompatProvider) -> None:
    async def handler(asked: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect("http://127.0.0.1:9/elsewhere")

    async with serving(handler) as base_url:
        assert (await failure(provider, request(base_url))).kind is FailureKind.FORMAT


@pytest.mark.parametrize("base_url", ["", "not a url", "ftp://127.0.0.1/v1"])
async def test_invalid_base_url_is_format_failure(provider: OpenAICompatProvider, base_url: str) -> None:
    assert (await failure(provider, request(base_url))).kind is FailureKind.FORMAT


async def test_failure_names_host_without_url_password(provider: OpenAICompatProvider, unused_tcp_port: int) -> None:
    found = await failure(provider, request(f"http://user:secret@127.0.0.1:{unused_tcp_port}/v1"))
    assert f"127.0.0.1:{unused_tcp_port}" in found.message
    assert "secret" not in found.message


async def test_slow_reader_does_not_trigger_stream_timeout(provider: OpenAICompatProvider) -> None:
    steps = [asyncio.Event(), asyncio.Event()]

    async def handler(asked: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(asked)
        await response.write(chunk("one "))
        await steps[0].wait()
        await response.write(chunk("two "))
        await steps[1].wait()
        await response.write(chunk("three", "stop"))
        return response

    async with serving(handler) as base_url:
        asked = request(base_url, timeouts=Timeouts(between_chunks=0.1))
        async with aclosing(provider.stream(asked)) as events:
            assert await anext(events) == TextDelta("one ")
            steps[0].set()
            assert await anext(events) == TextDelta("two ")
            await asyncio.sleep(0.3)  # this is the behavior under test: the reader is busy for longer than the limit
            steps[1].set()
            assert message_of([event async for event in events]).text == "one two three"


# ---------------------------------------------------------------- dialects


async def test_rejected_field_is_omitted_from_later_requests(provider: OpenAICompatProvider, server: fake_model.FakeModel) -> None:
    for _ in range(2):
        assert message_of(await ask(provider, request(server.base_url, "[[refuse=stream_options]]"))).text == "ok"
    assert ["stream_options" in body for body in server.bodies] == [True, False, False]


async def test_rejected_reasoning_effort_is_omitted_on_retry(provider: OpenAICompatProvider, server: fake_model.FakeModel) -> None:
    await ask(provider, request(server.base_url, "[[refuse=reasoning_effort]]", thinking="high"))
    assert [body.get("reasoning_effort") for body in server.bodies] == ["high", None]


async def test_tools_requiring_responses_api_are_sent_there(provider: OpenAICompatProvider, server: fake_model.FakeModel) -> None:
    words = "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. Use /v1/responses."
    history = (
        UserMessage("earlier"),
        AssistantMessage("I look", tool_calls=(ToolCallRequest("c1", "read", {"path": "a"}),)),
        ToolResultMessage("c1", "read", "A"),
        UserMessage(f'[[error=400 times=1 message="{words}"]] [[tool=read args={{"path":"b"}}]]'),
    )
    asked = request(server.base_url, messages=history, tools=(READ,), system="Be brief.", thinking="low")
    events = await ask(provider, asked)
    assert [record["api"] for record in server.log] == ["chat", "responses"]
    (call,) = message_of(events).tool_calls
    assert (call.name, call.arguments) == ("read", {"path": "b"})
    body = server.bodies[-1]
    assert [item.get("type", item.get("role")) for item in body["input"]] == [
        "user",
        "assistant",
        "function_call",
        "function_call_output",
        "user",
    ]
    assert (body["instructions"], body["reasoning"], body["store"]) == ("Be brief.", {"effort": "low"}, False)


async def test_responses_api_answer_is_streamed(provider: OpenAICompatProvider, server: fake_model.FakeModel) -> None:
    marker = '[[error=404 times=1 message="only supported in v1/responses" tokens=4 delay_ms=5 cached=2]]'
    events = await ask(provider, request(server.base_url, marker))
    assert sum(isinstance(event, TextDelta) for event in events) > 1
    assert isinstance(events[-1], Finished)
    assert events[-1].message.text == "w0 w1 w2 w3 "
    assert (events[-1].finish_reason, events[-1].usage.output_tokens, events[-1].usage.cache_read) == ("stop", 4, 2)


async def test_thinking_is_returned_to_endpoint_requiring_it(provider: OpenAICompatProvider, server: fake_model.FakeModel) -> None:
    words = "Missing `reasoning_content` field in the assistant message at message index 1"
    history = (
        UserMessage(f'[[error=400 times=1 message="{words}"]] [[tool=read]]'),
        AssistantMessage("", "because", (ToolCallRequest("c1", "read"),)),
        ToolResultMessage("c1", "read", "A"),
    )
    await ask(provider, request(server.base_url, messages=history, tools=(READ,)))
    assert [body["messages"][1].get("reasoning_content") for body in server.bodies] == [None, "because"]


async def test_call_ids_are_shortened_to_nine_characters_if_required(
    provider: OpenAICompatProvider, server: fake_model.FakeModel
) -> None:
    words = "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."
    history = (
        UserMessage(f'[[error=400 times=1 message="{words}"]] [[tool=read]] [[tool=read parallel=1]]'),
        AssistantMessage("", "", (ToolCallRequest("call_1", "read"), ToolCallRequest("abcdefgh9", "read"))),
        ToolResultMessage("call_1", "read", "A"),
        ToolResultMessage("abcdefgh9", "read", "B"),
    )
    await ask(provider, request(server.base_url, messages=history, tools=(READ,)))
    sent = server.bodies[-1]["messages"]
    asked_ids = [call["id"] for call in sent[1]["tool_calls"]]
    assert asked_ids == [message["tool_call_id"] for message in sent[2:]]
    assert len(asked_ids[0]) == 9
    assert asked_ids[1] == "abcdefgh9"


async def test_unrelated_rejection_does_not_drop_field(provider: OpenAICompatProvider, server: fake_model.FakeModel) -> None:
    quoting = '[[error=400 message="bad prompt: what is stream_options?"]]'
    assert (await failure(provider, request(server.base_url, quoting))).kind is FailureKind.FORMAT
    await ask(provider, request(server.base_url, "hello"))
    assert "stream_options" in server.bodies[-1]
