"""Requests in OpenAI's formats as they are parsed, and a run's events as updates. Pure."""

import pytest

from clawsite.api.openai.chat_request import parse_chat_request
from clawsite.api.openai.completion_request import MAX_SCHEMA_BYTES, MAX_TOOLS
from clawsite.api.openai.errors import RequestRejected, describe_error
from clawsite.api.openai.models import parse_agent_id
from clawsite.api.openai.responses_request import parse_responses_request
from clawsite.api.openai.run_updates import (
    AnswerDelta,
    AnswerDone,
    ClientToolCall,
    CompletionUsage,
    RunEnded,
    RunResumed,
    RunUpdateBuilder,
    WaitingForPeople,
)


def delta(text, message="m1", attempt=1):
    return {"stream": "assistant", "data": {"messageId": message, "attempt": attempt, "delta": text, "offset": 0}}


def final(text="", message="m1", attempt=1, calls=(), usage=None):
    content = [{"type": "text", "text": text}] if text else []
    content += [{"type": "toolCall", "id": one, "name": "t", "arguments": {"a": 1}} for one in calls]
    told = {"content": content, "usage": usage or {"input": 5, "output": 2, "cacheRead": 1}}
    return {"stream": "assistant", "data": {"messageId": message, "attempt": attempt, "final": True, "message": told}}


def phase(name, **data):
    return {"stream": "lifecycle", "data": {"phase": name, **data}}


def told(*events):
    builder = RunUpdateBuilder()
    return [update for event in events for update in builder.take(event)]


END = phase("end", aborted=False, stopReason="stop")


def test_deltas_are_streamed_and_completed_from_final_message():
    assert told(delta("hel"), final("hello"), END) == [
        AnswerDelta(0, "hel"),
        AnswerDelta(0, "lo"),
        AnswerDone(0, "hello"),
        RunEnded("stop", CompletionUsage(5, 2, 1)),
    ]


def test_retried_answer_streams_only_text_that_differs():
    reset = {"stream": "assistant", "data": {"messageId": "m1", "attempt": 2, "reset": True}}
    same = told(delta("one two"), reset, delta("one ", attempt=2), delta("two three", attempt=2), final("one two three", attempt=2))
    assert [each.text for each in same if isinstance(each, AnswerDelta)] == ["one two", " three"]
    other = told(delta("one two"), reset, delta("one 2", attempt=2), final("one 2", attempt=2))
    assert [each.text for each in other if isinstance(each, AnswerDelta)] == ["one two", "\n\none 2"]
    assert other[-1] == AnswerDone(0, "one 2")


def test_run_end_sums_usage_and_lists_client_tool_calls():
    events = [final("look", calls=["ours"]), final(message="m2", calls=["ours2", "theirs"])]
    ended = told(*events, phase("end", aborted=False, stopReason="tool_calls", toolCallIds=["theirs"]))[-1]
    assert ended == RunEnded("tool_calls", CompletionUsage(10, 4, 2), (ClientToolCall("theirs", "t", '{"a":1}'),))


def test_waiting_event_has_approval_id_until_run_resumes():
    asks = {"stream": "tool", "data": {"phase": "waiting", "approval": {"id": "q1"}}}
    assert told(asks, phase("waiting", reason="approval"), phase("resume", rescues=0)) == [WaitingForPeople("q1"), RunResumed()]


@pytest.mark.parametrize("kind", ["child", "model", "external"])
def test_wait_that_no_person_decides_does_not_end_the_response(kind):
    assert told(phase("waiting", reason=kind), phase("resume", rescues=0)) == [RunResumed()]


def test_failure_status_tells_sdk_whether_to_retry():
    from clawsite.api.openai.errors import CompletionFailed

    assert told(phase("error", kind="rate_limit", error="slow down"))[-1].failure == ("rate_limit", "slow down")
    statuses = {
        kind: describe_error(CompletionFailed(kind, "x"))[0]
        for kind in ("rate_limit", "context_overflow", "auth", "aborted", "internal")
    }
    assert statuses == {"rate_limit": 429, "context_overflow": 400, "auth": 503, "aborted": 400, "internal": 500}


@pytest.mark.parametrize(
    ("model", "agent"),
    [
        ("clawsite", "main"),
        ("openclaw", "main"),
        ("openclaw/default", "main"),
        ("clawsite/ops", "ops"),
        ("openclaw:ops", "ops"),
        ("agent:ops", "ops"),
        ("ops", "ops"),
    ],
)
def test_model_name_is_parsed_as_agent_id(model, agent):
    assert parse_agent_id(model) == agent


def test_chat_is_split_into_system_history_and_message():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    wish = parse_chat_request(
        {
            "messages": [
                {"role": "system", "content": "a"},
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "r"},
                {"role": "developer", "content": [{"type": "text", "text": "b"}]},
            ],
            "max_completion_tokens": 9,
            "max_tokens": 5,
            "unheard_of": True,
        }
    )
    assert (wish.system, wish.text, wish.results) == ("a\n\nb", "", ({"callId": "c1", "text": "r"},))
    assert [(message.role, message.text) for message in wish.past] == [("user", "q"), ("assistant", "")]
    assert wish.past[1].calls == [{"id": "c1", "name": "f", "arguments": {"x": 1}}]
    assert wish.parameters == {"max_tokens": 9}


def test_responses_input_groups_calls_of_one_answer():
    items = [
        {"role": "user", "content": "q"},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": "broken"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "2"}]},
    ]
    wish = parse_responses_request(
        {"input": items, "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}}
    )
    assert [call["id"] for call in wish.past[1].calls] == ["a", "b"]
    assert [result["text"] for result in wish.results] == ["1", "2"]
    assert wish.parameters["response_format"]["json_schema"] == {"name": "n", "schema": {"type": "object"}}


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("tools", "code"),
    [
        ([TOOL] * 2, "duplicate_tool"),
        ([{"type": "web_search"}], "unsupported_tool"),
        ([{"type": "function", "function": {"name": f"f{n}"}} for n in range(MAX_TOOLS + 1)], "too_many_tools"),
        ([{"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}], "invalid_schema"),
        ([{"type": "function", "function": {"name": "f", "parameters": {"d": "x" * MAX_SCHEMA_BYTES}}}], "invalid_schema"),
    ],
)
def test_tools_beyond_limits_are_rejected(tools, code):
    with pytest.raises(RequestRejected) as refused:
        parse_chat_request({"messages": [{"role": "user", "content": "q"}], "tools": tools})
    assert refused.value.error_code == code


def test_tool_choice_applies_to_client_tools():
    body = {"messages": [{"role": "user", "content": "q"}], "tools": [TOOL]}
    assert parse_chat_request({**body, "tool_choice": "none"}).tools == ()
    named = {"type": "function", "function": {"name": "f"}}
    assert parse_chat_request({**body, "tool_choice": named}).parameters == {"tool_choice": named}
    with pytest.raises(RequestRejected, match="name one of your tools"):
        parse_chat_request({**body, "tool_choice": {"type": "function", "function": {"name": "g"}}})


def test_number_of_images_is_limited():
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(RequestRejected, match="exceed the limit of 8"):
        parse_chat_request({"messages": [{"role": "user", "content": [part] * 9}]})


@pytest.mark.parametrize("read", [parse_chat_request, parse_responses_request])
def test_argument_values_are_limited_across_all_calls(read):
    many = "[" + "0," * 30_000 + "0]"
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": "t", "arguments": many}} for n in range(2)]
    sent = {
        "messages": [{"role": "assistant", "tool_calls": calls[:1]}, {"role": "user", "content": "hi"}],
        "input": [{"type": "function_call", "call_id": "c", "name": "t", "arguments": many}, {"role": "user", "content": "hi"}],
    }
    assert read(sent).past[0].calls[0]["arguments"] == {}  # not an object
    sent["messages"][0]["tool_calls"] = calls
    sent["input"].insert(0, sent["input"][0])
    with pytest.raises(RequestRejected, match="arguments of all calls"):
        read(sent)


def test_tool_calls_must_be_a_list():
    with pytest.raises(RequestRejected, match=r"messages\[0\].tool_calls: must be a list"):
        parse_chat_request({"messages": [{"role": "assistant", "tool_calls": 5}]})
