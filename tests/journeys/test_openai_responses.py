"""POST /v1/responses with OpenAI's own SDK, unchanged: plain, streamed, with tools, and chained responses."""

import base64
import datetime as dt

import openai
import pytest

from agents import worker_tasks
from clawsite.infra import clock, db
from sessions_app.models import Run, Session, TranscriptEntry

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather somewhere",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.fixture
def sdk(live, make_user):
    user = make_user()
    client = openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key=live.api_token(user), max_retries=0, timeout=60)
    client.user = user
    return client


async def test_response_has_text_usage_and_can_be_retrieved(sdk):
    made = await sdk.responses.create(model="clawsite", instructions="Be short.", input='[[text="hello there" cached=3]]')
    assert (made.status, made.output_text, made.output[0].type) == ("completed", "hello there", "message")
    assert (made.usage.output_tokens, made.usage.input_tokens_details.cached_tokens) == (2, 3)
    assert Run.objects.get(owner=sdk.user).options["extraSystemPrompt"] == "Be short."
    again = await sdk.responses.retrieve(made.id)
    assert (again.id, again.output_text, again.usage, again.model) == (made.id, "hello there", made.usage, "clawsite/main")


async def test_response_continues_only_from_same_account_response(sdk, live, make_user):
    first = await sdk.responses.create(model="clawsite", input="remember the number 7")
    second = await sdk.responses.create(model="clawsite", input="which? [[tag=goes-on]]", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert live.model_requests("goes-on")[0]["items"] == 4
    assert Session.objects.filter(owner=sdk.user).count() == 1
    stranger = sdk.with_options(api_key=live.api_token(make_user()))
    with pytest.raises(openai.BadRequestError) as refused:
        await stranger.responses.create(model="clawsite", input="which?", previous_response_id=first.id)
    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")
    with pytest.raises(openai.NotFoundError):
        await stranger.responses.retrieve(first.id)


async def test_old_response_expires_unless_in_a_named_session(sdk):
    alone = await sdk.responses.create(model="clawsite", input="hello")
    named = await sdk.responses.create(model="clawsite", input="hello", user="ada")
    await db.write(Session.objects.filter(owner=sdk.user).update, updated_at=clock.now() - dt.timedelta(days=31))
    await worker_tasks.delete_stateless_sessions()
    with pytest.raises(openai.NotFoundError):
        await sdk.responses.retrieve(alone.id)
    with pytest.raises(openai.BadRequestError) as refused:
        await sdk.responses.create(model="clawsite", input="and?", previous_response_id=alone.id)
    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")
    assert (await sdk.responses.create(model="clawsite", input="and?", previous_response_id=named.id)).status == "completed"


async def test_events_are_ordered_and_numbered(sdk):
    stream = await sdk.responses.create(model="clawsite", input="[[tokens=30 delay_ms=2]]", stream=True)
    events = [event async for event in stream]
    kinds = [event.type.removeprefix("response.") for event in events if event.type != "response.output_text.delta"]
    assert kinds == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text == "".join(f"w{i} " for i in range(30))


async def test_sdk_stream_parser_accepts_the_stream(sdk):
    words = '[[tool=get_weather args={"city":"Ulm"} call_id=c9]]'
    async with sdk.responses.stream(model="clawsite", input=words, tools=[WEATHER]) as stream:
        made = await stream.get_final_response()
    assert [(item.type, item.call_id, item.arguments) for item in made.output] == [("function_call", "c9", '{"city":"Ulm"}')]


async def test_client_tool_completes_round_trip(sdk):
    words = '[[tool=get_weather args={"city":"Ulm"} call_id=c1]] [[text="it rains"]]'
    asked = await sdk.responses.create(model="clawsite", input=words, tools=[WEATHER], tool_choice="auto")
    call = asked.output[0]
    assert (asked.status, call.type, call.name, call.call_id) == ("completed", "function_call", "get_weather", "c1")
    result = {"type": "function_call_output", "call_id": "c1", "output": "rain"}
    kept = await sdk.responses.create(model="clawsite", input=[result], previous_response_id=asked.id, tools=[WEATHER])
    assert kept.output_text == "it rains"
    alone = [{"role": "user", "content": words}, call.model_dump(), result]
    sent = await sdk.responses.create(model="clawsite", input=alone, tools=[WEATHER])
    assert sent.output_text == "it rains"
    roles = TranscriptEntry.objects.filter(session__runs__owner=sdk.user, session__runs__run_id=sent.id.removeprefix("resp_"))
    assert list(roles.order_by("position").values_list("role", flat=True)) == ["user", "assistant", "toolResult", "assistant"]


async def test_inline_file_is_accepted(sdk):
    file = {
        "type": "input_file",
        "filename": "note.txt",
        "file_data": "data:text/plain;base64," + base64.b64encode(b"seven").decode(),
    }
    content = [{"type": "input_text", "text": "read it"}, file]
    made = await sdk.responses.create(model="clawsite", input=[{"role": "user", "content": content}])
    assert made.output_text == "ok"
    entry = TranscriptEntry.objects.get(session__owner=sdk.user, role="user")
    assert [block.get("name") for block in entry.content] == [None, "note.txt"]


async def test_image_reaches_the_model(sdk):
    picture = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
    content = [{"type": "input_text", "text": "what is it?"}, {"type": "input_image", "image_url": picture, "detail": "auto"}]
    made = await sdk.responses.create(model="clawsite", input=[{"role": "user", "content": content}])
    assert made.output_text == "ok"
    entry = TranscriptEntry.objects.get(session__owner=sdk.user, role="user")
    assert [block["type"] for block in entry.content] == ["text", "image"]


async def test_truncated_response_is_incomplete_and_failed_one_has_error(sdk):
    cut = await sdk.responses.create(model="clawsite", input="[[tokens=3 finish=length]]", max_output_tokens=3)
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    stream = await sdk.responses.create(model="clawsite", input="[[error=401]]", stream=True)
    last = [event async for event in stream][-1]
    assert (last.type, last.response.error.code) == ("response.failed", "model_unavailable")
    for more, param in (({"background": True}, "background"), ({"input": [{"type": "web_search_call"}]}, "input[0].type")):
        with pytest.raises(openai.BadRequestError) as bad:
            await sdk.responses.create(**{"model": "clawsite", "input": "hi", **more})
        assert bad.value.param == param
