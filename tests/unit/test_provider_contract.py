"""What the loop requires from every provider, tested against a server that misbehaves on demand.

The same tests run against the direct provider and litellm.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from agents.llm.base import (
    CallDelta,
    Credentials,
    FailureKind,
    Finished,
    ModelProvider,
    ModelRequest,
    ProviderError,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    Timeouts,
    ToolSpec,
)
from agents.llm.messages import AssistantMessage, ToolCallRequest, ToolResultMessage, UserMessage
from agents.llm.providers.litellm_provider import LiteLLMProvider
from agents.llm.providers.openai_compat import OpenAICompatProvider
from tests.harness import fake_model

KEY = "sk-test-0123456789abcdef"
READ = ToolSpec("read", "Show a file.", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})


class Endpoint:
    """A provider connected to the fake server."""

    def __init__(self, provider: ModelProvider, prefix: str, server: fake_model.FakeModel) -> None:
        self.provider = provider
        self.server = server
        self.model = f"{prefix}fake-1"
        self.base_url = server.base_url

    def request(self, *messages: str | UserMessage | AssistantMessage | ToolResultMessage, **changes: object) -> ModelRequest:
        spoken = tuple(UserMessage(message) if isinstance(message, str) else message for message in messages)
        fields: dict[str, object] = {"credentials": Credentials(KEY, self.base_url), **changes}
        return ModelRequest(model=self.model, messages=spoken, **fields)  # type: ignore[arg-type]  # fields are ModelRequest's own

    async def ask(
        self, *messages: str | UserMessage | AssistantMessage | ToolResultMessage, **changes: object
    ) -> list[StreamEvent]:
        async with aclosing(self.provider.stream(self.request(*messages, **changes))) as events:
            return [event async for event in events]

    async def failure(self, message: str, **changes: object) -> ProviderError:
        with pytest.raises(ProviderError) as caught:
            await self.ask(message, **changes)
        return caught.value


@pytest.fixture(params=["direct", "litellm"])
async def endpoint(request: pytest.FixtureRequest) -> AsyncIterator[Endpoint]:
    provider: ModelProvider = OpenAICompatProvider() if request.param == "direct" else LiteLLMProvider()
    async with fake_model.serve() as server:
        yield Endpoint(provider, "" if request.param == "direct" else "openai/", server)
        await provider.aclose()


def finish_of(events: list[StreamEvent]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def text_of(events: list[StreamEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def test_final_message_equals_streamed_deltas(endpoint: Endpoint) -> None:
    events = await endpoint.ask("[[tokens=5 delay_ms=5]]")
    assert text_of(events) == "w0 w1 w2 w3 w4 " == finish_of(events).message.text
    assert sum(isinstance(event, TextDelta) for event in events) > 1
    assert finish_of(events).finish_reason == "stop"


async def test_finish_reason_comes_from_provider(endpoint: Endpoint) -> None:
    assert finish_of(await endpoint.ask("[[finish=length]]")).finish_reason == "length"


async def test_reasoning_is_streamed_as_thinking_not_text(endpoint: Endpoint) -> None:
    events = await endpoint.ask("[[reasoning=3 text=hello]]")
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == "r0 r1 r2 "
    assert finish_of(events).message == AssistantMessage("hello", "r0 r1 r2 ")


async def test_usage_includes_cached_tokens(endpoint: Endpoint) -> None:
    usage = finish_of(await endpoint.ask("[[tokens=4 cached=7]]")).usage
    assert usage.output_tokens == 4
    assert usage.input_tokens > 7
    assert usage.cache_read == 7


async def test_parallel_tool_calls_are_assembled_in_order(endpoint: Endpoint) -> None:
    events = await endpoint.ask('[[tool=read args={"path":"a.txt"}]] [[tool=read args={"path":"b.txt"} parallel=1]]', tools=(READ,))
    first, second = finish_of(events).message.tool_calls
    assert (first.name, first.arguments) == ("read", {"path": "a.txt"})
    assert (second.name, second.arguments) == ("read", {"path": "b.txt"})
    assert len({first.id, second.id, ""}) == 3
    assert finish_of(events).finish_reason == "tool_calls"


async def test_tool_call_arguments_are_streamed(endpoint: Endpoint) -> None:
    events = await endpoint.ask('[[tool=read args={"path":"a.txt"}]] [[tool=read args={"path":"b.txt"} parallel=1]]', tools=(READ,))
    pieces = [event for event in events if isinstance(event, CallDelta)]
    assert {piece.name for piece in pieces} == {"read"}
    written = ["".join(piece.text for piece in pieces if piece.index == index) for index in (0, 1)]
    assert [json.loads(text) for text in written] == [{"path": "a.txt"}, {"path": "b.txt"}]


async def test_invalid_json_arguments_are_reported_on_tool_call(endpoint: Endpoint) -> None:
    events = await endpoint.ask('[[tool=read args="{broken"]]', tools=(READ,))
    (call,) = finish_of(events).message.tool_calls
    assert call.arguments == {}
    assert "not valid JSON" in call.error


async def test_whole_conversation_is_sent(endpoint: Endpoint) -> None:
    asked = AssistantMessage("", "hm", (ToolCallRequest("c1", "read", {"path": "a"}), ToolCallRequest("c2", "read", {"path": "b"})))
    results = ToolResultMessage("c1", "read", "A"), ToolResultMessage("c2", "read", "no such file", is_error=True)
    await endpoint.ask("look", asked, *results, "and now?", system="Be brief.", tools=(READ,), thinking="low")
    body = endpoint.server.bodies[-1]
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert [call["id"] for call in body["messages"][2]["tool_calls"]] == ["c1", "c2"]
    assert [message["tool_call_id"] for message in body["messages"][3:5]] == ["c1", "c2"]
    assert body["tools"][0]["function"]["name"] == "read"
    assert body["model"] == "fake-1"


async def test_thinking_level_is_sent_only_if_set(endpoint: Endpoint) -> None:
    await endpoint.ask("hello", thinking="")
    await endpoint.ask("hello", thinking="off")
    assert all("reasoning_effort" not in body for body in endpoint.server.bodies)


@pytest.mark.parametrize(
    ("marker", "kind"),
    [
        ("[[error=401]]", FailureKind.AUTH),
        ("[[error=403]]", FailureKind.AUTH),
        ("[[error=402]]", FailureKind.BILLING),
        ('[[error=429 code=insufficient_quota message="You exceeded your current quota"]]', FailureKind.BILLING),
        ("[[error=429]]", FailureKind.RATE_LIMIT),
        ("[[context_overflow]]", FailureKind.CONTEXT_OVERFLOW),
        ('[[error=400 code=bad message="prompt is too long: 9 tokens > 8 maximum"]]', FailureKind.CONTEXT_OVERFLOW),
        ('[[error=400 code=bad message="tools.0.name is wrong"]]', FailureKind.FORMAT),
        ("[[error=404]]", FailureKind.FORMAT),
        ("[[error=408]]", FailureKind.TIMEOUT),
        ("[[error=504]]", FailureKind.TIMEOUT),
        ("[[error=500]]", FailureKind.UNAVAILABLE),
        ("[[error=503]]", FailureKind.UNAVAILABLE),
        ("[[error=529]]", FailureKind.UNAVAILABLE),
        ("[[tokens=5 cut_after=2 delay_ms=5]]", FailureKind.CUT),
        ('[[tokens=5 fault_after=2 code=overloaded message="the model is overloaded"]]', FailureKind.UNAVAILABLE),
        ("[[empty]]", FailureKind.EMPTY),
    ],
)
async def test_failure_is_classified_and_not_retried(endpoint: Endpoint, marker: str, kind: FailureKind) -> None:
    failure = await endpoint.failure(marker)
    assert failure.kind is kind
    assert len(endpoint.server.log) == 1


async def test_unprocessable_request_is_format_failure(endpoint: Endpoint) -> None:
    # Not in the table above: litellm omits the parameter that it thinks was rejected and retries.
    assert (await endpoint.failure("[[error=422]]")).kind is FailureKind.FORMAT


async def test_failure_keeps_provider_message_and_status(endpoint: Endpoint) -> None:
    failure = await endpoint.failure('[[error=400 code=bad message="tools.0.name is wrong"]]')
    assert failure.message == "tools.0.name is wrong (HTTP 400)"
    assert failure.status == 400


async def test_failure_does_not_contain_key(endpoint: Endpoint) -> None:
    failure = await endpoint.failure(f'[[error=401 message="Incorrect API key provided: {KEY}."]]')
    assert KEY not in failure.message
    assert "Incorrect API key provided: [key]" in failure.message


async def test_retry_after_header_is_parsed(endpoint: Endpoint) -> None:
    assert (await endpoint.failure("[[error=429 retry_after=7]]")).retry_after == 7


async def test_unresponsive_model_times_out(endpoint: Endpoint) -> None:
    failure = await endpoint.failure("[[hang]]", timeouts=Timeouts(first_byte=0.3))
    assert failure.kind is FailureKind.TIMEOUT
    await endpoint.server.record(lambda record: record.get("client_left"))


async def test_stalled_stream_times_out(endpoint: Endpoint) -> None:
    failure = await endpoint.failure("[[tokens=5 hang_after=2]]", timeouts=Timeouts(between_chunks=0.3))
    assert failure.kind is FailureKind.TIMEOUT
    await endpoint.server.record(lambda record: record.get("client_left"))


async def test_refused_connection_is_unavailable_failure(endpoint: Endpoint, unused_tcp_port: int) -> None:
    endpoint.base_url = f"http://127.0.0.1:{unused_tcp_port}/v1"
    assert (await endpoint.failure("hello")).kind is FailureKind.UNAVAILABLE


async def test_closing_stream_closes_request(endpoint: Endpoint) -> None:
    async with aclosing(endpoint.provider.stream(endpoint.request("[[tokens=5 hang_after=2]]"))) as events:
        await anext(events)
    await endpoint.server.record(lambda record: record.get("client_left"))


async def test_cancelling_reader_closes_request(endpoint: Endpoint) -> None:
    reading = asyncio.create_task(endpoint.ask("[[hang]]"))
    await endpoint.server.record(lambda record: "user" in record)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await endpoint.server.record(lambda record: record.get("client_left"))


async def test_many_answers_stream_concurrently(endpoint: Endpoint) -> None:
    answers = await asyncio.gather(*(endpoint.ask(f"[[text=answer-{number} tokens=1]]") for number in range(20)))
    assert [text_of(events) for events in answers] == [f"answer-{number}" for number in range(20)]
