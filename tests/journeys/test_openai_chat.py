"""POST /v1/chat/completions with OpenAI's own SDK, unchanged, and with LiteLLM, against a running installation."""

import base64
import struct
import zlib

import httpx
import openai
import pytest

from agents.llm.providers import litellm_provider
from sessions_app.models import Run, Session, ToolCall, TranscriptEntry

pytestmark = pytest.mark.dialect

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather somewhere",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def pixel() -> str:
    """A PNG with one pixel, as a data: URL."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode()


@pytest.fixture
def sdk(live, make_user):
    """The SDK with a new user, sdk.user."""
    user = make_user()
    client = openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key=live.api_token(user), max_retries=0, timeout=60)
    client.user = user
    return client


def asks(*contents, **more):
    return {"model": "clawsite", "messages": [{"role": "user", "content": content} for content in contents], **more}


async def test_completion_has_text_usage_and_finish_reason(sdk):
    made = await sdk.chat.completions.create(**asks('[[text="hello there" cached=7]]'))
    choice = made.choices[0]
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "hello there", "stop")
    assert made.usage.completion_tokens == 2
    assert made.usage.total_tokens == made.usage.prompt_tokens + 2
    assert made.usage.prompt_tokens_details.cached_tokens == 7
    run = Run.objects.get(owner=sdk.user)
    assert (made.id, made.model, run.status) == (f"chatcmpl-{run.run_id}", "clawsite", "completed")


async def test_stream_has_full_text_and_final_usage(sdk):
    stream = await sdk.chat.completions.create(
        **asks("[[tokens=40 delay_ms=2]]"), stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "".join(f"w{i} " for i in range(40))
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage.completion_tokens == 40
    assert len({chunk.id for chunk in chunks}) == 1


async def test_stateless_request_sends_its_history_as_messages(sdk, live):
    messages = [
        {"role": "system", "content": "Answer in French."},
        {"role": "developer", "content": "Be short."},
        {"role": "user", "content": "What is two and two?"},
        {"role": "assistant", "content": "Quatre."},
        {"role": "user", "content": "/stop is a word here [[tag=history text=oui]]"},
    ]
    made = await sdk.chat.completions.create(model="clawsite/main", messages=messages)
    assert made.choices[0].message.content == "oui"
    run = Run.objects.get(owner=sdk.user)
    said = TranscriptEntry.objects.filter(session=run.session).order_by("position").values_list("role", "text")
    assert list(said)[:2] == [("user", "What is two and two?"), ("assistant", "Quatre.")]
    assert live.model_requests("history")[0]["items"] == 4  # with our system prompt
    assert run.options["extraSystemPrompt"] == "Answer in French.\n\nBe short."
    async with live.client(sdk.user) as client:
        assert (await client.request("sessions.list", {}))["sessions"] == []


async def test_user_and_header_select_a_persistent_session(sdk, live):
    for words in ("first", "second [[tag=remembers]]"):
        await sdk.chat.completions.create(**asks("ignored, the session has its own", words), user="ada:x y")
    assert live.model_requests("remembers")[0]["items"] == 4
    assert Session.objects.get(owner=sdk.user).key == "agent:main:openai-user:ada%3Ax%20y"
    headers = {"x-openclaw-session-key": "agent:demo:notes"}
    await sdk.chat.completions.create(**asks("hi"), extra_headers=headers)
    assert Session.objects.filter(owner=sdk.user, key="agent:demo:notes", channel="webchat").exists()
    for reserved in ("cron:x", "hook:x", "agent:main:subagent:x"):
        with pytest.raises(openai.BadRequestError, match="reserved"):
            await sdk.chat.completions.create(**asks("hi"), extra_headers={"x-clawsite-session-key": reserved})


@pytest.mark.parametrize("model", ["clawsite/demo", "openclaw/demo", "openclaw:demo", "agent:demo", "demo"])
async def test_agent_is_selected_by_any_of_its_names(sdk, model):
    made = await sdk.chat.completions.create(**asks("hello") | {"model": model})
    assert (made.model, made.choices[0].finish_reason) == (model, "stop")
    assert Run.objects.get(owner=sdk.user).model == "demo/clawsite"


async def test_agents_are_listed_as_models(sdk):
    listed = [model.id async for model in sdk.models.list()]
    assert listed[:2] == ["clawsite", "clawsite/main"]
    assert "clawsite/demo" in listed
    assert (await sdk.models.retrieve("openclaw/demo")).id == "openclaw/demo"
    with pytest.raises(openai.NotFoundError) as none:
        await sdk.models.retrieve("gpt-4o")
    assert none.value.code == "model_not_found"


async def test_errors_raise_matching_sdk_exceptions(sdk, live, make_user):
    create = sdk.chat.completions.create
    with pytest.raises(openai.NotFoundError) as unknown:
        await create(**asks("hi") | {"model": "gpt-4.1"})
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.NotFoundError):
        await create(**asks("hi") | {"model": "clawsite/nobody"})
    with pytest.raises(openai.AuthenticationError) as wrong:
        await sdk.with_options(api_key="claw_nothing").chat.completions.create(**asks("hi"))
    assert wrong.value.code == "invalid_api_key"
    with pytest.raises(openai.PermissionDeniedError):
        reader = sdk.with_options(api_key=live.api_token(make_user("Auditor")))
        await reader.chat.completions.create(**asks("hi"))
    for more, param in (
        ({"n": 2}, "n"),
        ({"temperature": 3}, "temperature"),
        ({"logprobs": True}, "logprobs"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}]}]},
         "messages[0].content[0].image_url"),
        ({"tools": [{"type": "function", "function": {"name": "bad name"}}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "function": {"name": "read"}}]}, "tools[0].name"),
        ({"tool_choice": "required"}, "tool_choice"),
    ):  # fmt: skip
        with pytest.raises(openai.BadRequestError) as bad:
            await create(**asks("hi") | more)
        assert bad.value.param == param, more
    assert not Run.objects.filter(owner=sdk.user).exists()


async def test_model_errors_are_mapped_to_error_codes(sdk):
    with pytest.raises(openai.BadRequestError) as long:
        await sdk.chat.completions.create(**asks("[[context_overflow]]"))
    assert long.value.code == "context_length_exceeded"
    stream = await sdk.chat.completions.create(**asks("[[error=401]]"), stream=True)
    with pytest.raises(openai.APIError, match="the model did not answer"):
        [chunk async for chunk in stream]


async def test_image_reaches_the_model(sdk):
    parts = [{"type": "text", "text": "what is it?"}, {"type": "image_url", "image_url": {"url": pixel()}}]
    made = await sdk.chat.completions.create(**asks(parts))
    assert made.choices[0].message.content == "ok"
    entry = TranscriptEntry.objects.get(session__owner=sdk.user, role="user")
    assert [block["type"] for block in entry.content] == ["text", "image"]


async def test_client_tool_is_executed_by_the_client(sdk):
    messages = [{"role": "user", "content": '[[tool=get_weather args={"city":"Ulm"} call_id=c1]] [[text="it rains"]]'}]
    asked = await sdk.chat.completions.create(model="clawsite", messages=messages, tools=[WEATHER])
    choice = asked.choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    call = choice.message.tool_calls[0]
    assert (call.id, call.function.name, call.function.arguments) == ("c1", "get_weather", '{"city":"Ulm"}')
    row = ToolCall.objects.get(run__owner=sdk.user)
    assert (row.status, row.verdict["caller"], row.result) == ("handed_over", "get_weather", None)
    messages += [choice.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": "c1", "content": "rain"}]
    answer = await sdk.chat.completions.create(model="clawsite", messages=messages, tools=[WEATHER])
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("it rains", "stop")
    run = Run.objects.filter(owner=sdk.user).latest("pk")
    said = TranscriptEntry.objects.filter(session=run.session).order_by("position").values_list("role", "text")
    assert [role for role, _ in said] == ["user", "assistant", "toolResult", "assistant"]


async def test_session_needs_only_the_tool_results(sdk):
    words = '[[tool=get_weather args={"city":"A"} call_id=a]] [[tool=get_weather args={"city":"B"} call_id=b parallel=1]]'
    kept = {"user": "weather"}
    stream = await sdk.chat.completions.create(**asks(words), tools=[WEATHER], stream=True, **kept)
    chunks = [chunk async for chunk in stream]
    deltas = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    assert [(call.index, call.id) for call in deltas if call.id] == [(0, "a"), (1, "b")]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    results = [{"role": "tool", "tool_call_id": one, "content": one} for one in ("a", "b")]
    with pytest.raises(openai.BadRequestError) as unknown:
        other = [{"role": "tool", "tool_call_id": "zzz", "content": "?"}]
        await sdk.chat.completions.create(model="clawsite", messages=other, tools=[WEATHER], **kept)
    assert unknown.value.code == "unknown_tool_call"
    made = await sdk.chat.completions.create(model="clawsite", messages=results, tools=[WEATHER], **kept)
    assert made.choices[0].message.content == "done after tools"
    rows = ToolCall.objects.filter(session__owner=sdk.user).order_by("position")
    assert [(row.status, row.result["content"][0]["text"]) for row in rows] == [("finished", "a"), ("finished", "b")]


async def test_server_tools_run_before_client_tools_are_returned(sdk):
    words = '[[tool=session_status args={} call_id=ours]] [[tool=get_weather args={"city":"A"} call_id=theirs parallel=1]]'
    made = await sdk.chat.completions.create(**asks(words), tools=[WEATHER])
    assert [call.id for call in made.choices[0].message.tool_calls] == ["theirs"]
    rows = ToolCall.objects.filter(run__owner=sdk.user).order_by("position").values_list("call_id", "status")
    assert list(rows) == [("ours", "finished"), ("theirs", "handed_over")]


async def test_call_with_invalid_arguments_is_returned_to_model(sdk):
    made = await sdk.chat.completions.create(**asks('[[tool=get_weather args="{broken"]] [[text="never mind"]]'), tools=[WEATHER])
    assert (made.choices[0].message.content, made.choices[0].finish_reason) == ("never mind", "stop")
    row = ToolCall.objects.get(run__owner=sdk.user)
    assert (row.status, row.result["details"]["code"]) == ("refused", "invalid_arguments")


async def test_header_selects_another_available_model(sdk):
    await sdk.chat.completions.create(**asks("hi"), extra_headers={"x-openclaw-model": "demo/clawsite"})
    assert Run.objects.get(owner=sdk.user).model == "demo/clawsite"
    with pytest.raises(openai.BadRequestError, match="Unknown model “nothing/at-all”"):
        await sdk.chat.completions.create(**asks("hi"), extra_headers={"x-clawsite-model": "nothing/at-all"})


async def test_accounts_with_same_session_names_are_isolated(sdk, live, make_user):
    other = sdk.with_options(api_key=live.api_token(make_user()))
    for client, tag in ((sdk, "mine"), (other, "theirs")):
        await client.chat.completions.create(
            **asks(f"secret [[tag=two-{tag}]]"), user="ada", extra_headers={"Idempotency-Key": "one"}
        )
    assert live.model_requests("two-theirs")[0]["items"] == 2  # nothing from the other user's session of that name
    assert Session.objects.filter(key="agent:main:openai-user:ada", owner=sdk.user).count() == 1


async def test_same_idempotency_key_returns_same_response(sdk):
    twice = [
        await sdk.chat.completions.create(**asks("[[text=once]]"), extra_headers={"Idempotency-Key": "order 7"}) for _ in range(2)
    ]
    assert twice[0] == twice[1]
    assert Run.objects.get(owner=sdk.user).run_id == "order 7"
    with pytest.raises(openai.ConflictError):
        await sdk.chat.completions.create(**asks("something else"), extra_headers={"Idempotency-Key": "order 7"})


async def test_gateway_token_can_chat(live):
    client = openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key=live.token, max_retries=0)
    assert (await client.chat.completions.create(**asks("hi"))).choices[0].message.content == "ok"


async def test_litellm_client_works(sdk, live):
    litellm = litellm_provider._import_litellm()  # imported in a way that doesn't download prices
    to = {"model": "openai/clawsite", "api_base": f"{live.url}/v1", "api_key": sdk.api_key}
    made = await litellm.acompletion(**to, messages=[{"role": "user", "content": '[[text="hello there"]]'}])
    assert made.choices[0].message.content == "hello there"
    stream = await litellm.acompletion(**to, messages=[{"role": "user", "content": "[[tokens=5]]"}], stream=True)
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text.split() == ["w0", "w1", "w2", "w3", "w4"]


async def test_litellm_client_tools_work(sdk, live):
    litellm = litellm_provider._import_litellm()
    to = {"model": "openai/clawsite", "api_base": f"{live.url}/v1", "api_key": sdk.api_key, "tools": [WEATHER]}
    messages = [{"role": "user", "content": '[[tool=get_weather args={"city":"Ulm"} call_id=c1]] [[text="it rains"]]'}]
    asked = (await litellm.acompletion(**to, messages=messages)).choices[0]
    call = asked.message.tool_calls[0]
    assert (asked.finish_reason, call.id, call.function.name, call.function.arguments) == (
        "tool_calls",
        "c1",
        "get_weather",
        '{"city":"Ulm"}',
    )
    messages += [asked.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": "c1", "content": "rain"}]
    answer = (await litellm.acompletion(**to, messages=messages)).choices[0]
    assert (answer.message.content, answer.finish_reason) == ("it rains", "stop")


@pytest.mark.parametrize("sent", [b"{", b"", b"[" * 900 + b"]" * 900, b'{"messages": 5}', b'{"tools": [[]]}', b"[]", b'"x"'])
async def test_invalid_body_is_rejected_with_an_error(sdk, live, sent):
    async with httpx.AsyncClient(base_url=live.url, headers={"Authorization": f"Bearer {sdk.api_key}"}) as client:
        answer = await client.post("/v1/chat/completions", content=sent)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_run_keeps_the_trace_of_its_request(sdk, live):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    await sdk.chat.completions.create(**asks("hi"), extra_headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    assert trace in Run.objects.get(owner=sdk.user).options["traceparent"]


async def test_missing_token_and_wrong_method_are_rejected(live):
    async with httpx.AsyncClient(base_url=live.url) as client:
        bare = await client.post("/v1/chat/completions", json=asks("hi"))
        looked = {path: await client.get(f"/v1/{path}") for path in ("chat/completions", "responses")}
        sent = {path: await client.delete(f"/v1/{path}") for path in ("models", "models/main", "responses/resp_1")}
    assert (bare.status_code, bare.json()["error"]["code"]) == (401, "invalid_api_key")
    assert {(one.status_code, one.headers["Allow"]) for one in looked.values()} == {(405, "POST")}
    assert {(one.status_code, one.headers["Allow"]) for one in sent.values()} == {(405, "GET")}
