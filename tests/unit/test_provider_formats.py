"""Unusual responses that servers really send, and the many forms of their errors."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from agents.llm.base import FailureKind, ProviderError
from agents.llm.failures import error_from_response, error_from_stream, shorten_message
from agents.llm.messages import ToolCallRequest
from agents.llm.providers.chat_format import AnswerAssembler
from agents.llm.providers.responses_format import ResponsesAssembler


def call_delta(arguments: Any = None, **fields: Any) -> dict[str, Any]:
    name = fields.pop("name", None)
    return {"choices": [{"delta": {"tool_calls": [{**fields, "function": {"name": name, "arguments": arguments}}]}}]}


def calls_of(*chunks: dict[str, Any]) -> tuple[ToolCallRequest, ...]:
    answer = AnswerAssembler()
    for chunk in chunks:
        answer.read(chunk)
    return answer.finished().message.tool_calls


def test_tool_call_deltas_are_joined_by_index() -> None:
    calls = calls_of(
        call_delta('{"a"', index=0, id="x", name="read"),
        call_delta("", index=1, id="y", name="write"),
        call_delta(":1}", index=0),
        call_delta('{"b":2}', index=1),
    )
    assert calls == (ToolCallRequest("x", "read", {"a": 1}), ToolCallRequest("y", "write", {"b": 2}))


def test_calls_with_same_index_are_distinguished_by_id() -> None:
    calls = calls_of(call_delta('{"a":1}', index=0, id="x", name="read"), call_delta('{"a":2}', index=0, id="y", name="read"))
    assert [call.arguments for call in calls] == [{"a": 1}, {"a": 2}]


def test_calls_without_index_are_distinguished_by_name() -> None:
    calls = calls_of(call_delta('{"a":1}', name="read"), call_delta('{"a":2}', name="read"))
    assert [call.arguments for call in calls] == [{"a": 1}, {"a": 2}]


def test_name_repeated_in_every_delta_is_one_call() -> None:
    calls = calls_of(call_delta('{"a":', index=0, id="x", name="read"), call_delta("1}", index=0, id="x", name="read"))
    assert calls == (ToolCallRequest("x", "read", {"a": 1}),)


@pytest.mark.parametrize(
    ("arguments", "expected", "error"),
    [
        ("", {}, ""),
        (None, {}, ""),
        ("{}", {}, ""),
        ({"a": 1}, {"a": 1}, ""),
        ("[1]", {}, "not a JSON object"),
        ('"x"', {}, "not a JSON object"),
        ('{"a": 1', {}, "not valid JSON"),
    ],
)
def test_arguments_must_be_json_object(arguments: Any, expected: dict[str, Any], error: str) -> None:
    (call,) = calls_of(call_delta(arguments, index=0, id="x", name="read"))
    assert call.arguments == expected
    assert error in call.error
    assert bool(call.error) == bool(error)


def test_content_blocks_are_split_into_text_and_thinking() -> None:
    answer = AnswerAssembler()
    blocks = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}]
    answer.read({"choices": [{"delta": {"content": blocks}}]})
    message = answer.finished().message
    assert (message.text, message.thinking) == ("yes", "hm")


def test_refusal_becomes_answer_text() -> None:
    answer = AnswerAssembler()
    answer.read({"choices": [{"delta": {"refusal": "I will not."}, "finish_reason": "stop"}]})
    assert answer.finished().message.text == "I will not."


def test_empty_answer_error_includes_finish_reason() -> None:
    answer = AnswerAssembler()
    answer.read({"choices": [{"delta": {"content": " \n"}, "finish_reason": "content_filter"}]})
    with pytest.raises(ProviderError, match="content_filter") as caught:
        answer.finished()
    assert caught.value.kind is FailureKind.EMPTY


def test_incomplete_response_has_finish_reason() -> None:
    answer = ResponsesAssembler()
    answer.read({"type": "response.output_text.delta", "delta": "half"})
    answer.read({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}})
    assert answer.finished().finish_reason == "length"


def test_failed_response_raises_provider_error() -> None:
    with pytest.raises(ProviderError) as caught:
        ResponsesAssembler().read(
            {"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded", "message": "slow"}}}
        )
    assert caught.value.kind is FailureKind.RATE_LIMIT


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "no such model", "code": "x"}}', "no such model"),
        (b'{"error": "model not found"}', "model not found"),
        (b'{"object": "error", "message": "bad", "code": 40}', "bad"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b'[{"error": {"message": "in a list"}}]', "in a list"),
        (b"plain words", "plain words"),
        (b"<html><body>502 Bad Gateway</body></html>", "no explanation given"),
        (b"", "no explanation given"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_error_message_is_found_in_any_format(body: bytes, words: str) -> None:
    assert error_from_response(400, body, {}).message == f"{words} (HTTP 400)"


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (400, "This model's maximum context length is 8192 tokens", FailureKind.CONTEXT_OVERFLOW),
        (400, "input token count (99) exceeds the maximum number of tokens allowed (98)", FailureKind.CONTEXT_OVERFLOW),
        (500, "the request exceeds the available context size", FailureKind.CONTEXT_OVERFLOW),
        (413, "Request Entity Too Large", FailureKind.CONTEXT_OVERFLOW),
        (400, "Your credit balance is too low to access the API", FailureKind.BILLING),
        (429, "You exceeded your current quota, please check your plan", FailureKind.BILLING),
        (429, "Rate limit reached for tokens per minute", FailureKind.RATE_LIMIT),
        (301, "", FailureKind.FORMAT),
        (502, "", FailureKind.UNAVAILABLE),
    ],
)
def test_ambiguous_status_is_classified_by_message(status: int, words: str, kind: FailureKind) -> None:
    assert error_from_response(status, words.encode(), {}).kind is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 502, "message": "Provider returned error"}, FailureKind.UNAVAILABLE),
        ({"code": 429, "message": "slow down"}, FailureKind.RATE_LIMIT),
        ({"type": "overloaded_error", "message": "Overloaded"}, FailureKind.UNAVAILABLE),
        ({"type": "invalid_request_error", "message": "bad tool"}, FailureKind.FORMAT),
        ({"code": "context_length_exceeded", "message": "too long"}, FailureKind.CONTEXT_OVERFLOW),
        ("something broke", FailureKind.UNAVAILABLE),
        (None, FailureKind.UNAVAILABLE),
    ],
)
def test_error_inside_stream_is_classified(error: Any, kind: FailureKind) -> None:
    assert error_from_stream(error).kind is kind


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-1"}, 0),
        ({}, None),
    ],
)
def test_retry_after_is_parsed_as_seconds(headers: dict[str, str], seconds: float | None) -> None:
    assert error_from_response(429, b"", headers).retry_after == seconds


def test_retry_after_date_is_parsed() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    found = error_from_response(429, b"", {"Retry-After": later}).retry_after
    assert found is not None
    assert 50 < found <= 60


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-abcdefghijklmnop",
        "sk-ant-api03-abcdefghijk",
        "gsk_abcdefghijklmnop",
        "AIzaSyA-abcdefghijklmn",
        "xai-abcdefghijklmno",
    ],
)
def test_key_like_strings_are_redacted(key: str) -> None:
    assert shorten_message(f"Incorrect API key provided: {key}, see the docs") == "Incorrect API key provided: [key], see the docs"


def test_request_key_is_redacted_in_any_format() -> None:
    assert shorten_message("token letmein is wrong", secret="letmein") == "token [key] is wrong"


def test_long_error_message_is_truncated_without_newlines() -> None:
    shown = shorten_message("a\nb " * 1000)
    assert len(shown) == 300
    assert "\n" not in shown
