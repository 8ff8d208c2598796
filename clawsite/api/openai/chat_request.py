"""Parse the body of `POST /v1/chat/completions` into a CompletionRequest."""

from typing import Annotated, Any

from pydantic import Field

from clawsite.api.openai.completion_request import CompletionBody, CompletionRequest, Count, Penalty, parse_thinking
from clawsite.api.openai.errors import RequestRejected
from clawsite.api.openai.input_messages import MAX_ID_LENGTH, MAX_MESSAGES, InputMessages


class ChatBody(CompletionBody):
    messages: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_MESSAGES)]
    stream_options: dict[str, Any] | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    seed: int | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    response_format: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    n: int | None = None
    logprobs: bool | None = None
    modalities: list[str] | None = None
    functions: list[Any] | None = None


def parse_chat_request(data: Any) -> CompletionRequest:
    body = ChatBody.model_validate(data)
    _reject_unsupported(body)
    return body.to_request(
        _parse_messages(body.messages),
        {
            "max_tokens": body.max_completion_tokens or body.max_tokens,
            "stop": body.stop,
            "seed": body.seed,
            "presence_penalty": body.presence_penalty,
            "frequency_penalty": body.frequency_penalty,
            "response_format": _parse_format(body.response_format),
        },
        thinking=parse_thinking(body.reasoning_effort, "reasoning_effort"),
        include_usage=bool((body.stream_options or {}).get("include_usage")),
    )


def _reject_unsupported(body: ChatBody) -> None:
    if body.n not in (None, 1):
        raise RequestRejected("n must be 1", param="n", code="unsupported_value")
    if body.logprobs:
        raise RequestRejected("logprobs is not supported", param="logprobs", code="unsupported_parameter")
    if body.functions:
        raise RequestRejected("functions is not supported; use tools instead", param="functions", code="unsupported_parameter")
    if body.modalities and body.modalities != ["text"]:
        raise RequestRejected("modalities: only text is supported", param="modalities", code="unsupported_value")


def _parse_format(response_format: dict[str, Any] | None) -> dict[str, Any] | None:
    if response_format is None or response_format.get("type") == "text":
        return None
    kind = response_format.get("type")
    if kind == "json_object" or (kind == "json_schema" and isinstance(response_format.get("json_schema"), dict)):
        return response_format
    raise RequestRejected(
        "response_format: must be text, json_object or json_schema", param="response_format", code="invalid_value"
    )


def _parse_messages(messages: list[dict[str, Any]]) -> InputMessages:
    parsed = InputMessages("messages")
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if not isinstance(call_id, str) or not call_id or len(call_id) > MAX_ID_LENGTH:
                raise RequestRejected(f"{where}.tool_call_id: invalid ID", param=f"{where}.tool_call_id", code="invalid_value")
            parsed.add_result(call_id, message.get("content"), f"{where}.content")
        else:
            calls = (
                _parse_calls(parsed, message.get("tool_calls"), f"{where}.tool_calls") if message.get("role") == "assistant" else ()
            )
            parsed.add_message(message.get("role"), message.get("content"), where, calls)
    return parsed


def _parse_calls(parsed: InputMessages, tool_calls: Any, param: str) -> list[dict[str, Any]]:
    """Convert earlier tool calls to the transcript format."""
    if tool_calls is not None and not isinstance(tool_calls, list):
        raise RequestRejected(f"{param}: must be a list", param=param, code="invalid_type")
    calls = []
    for number, call in enumerate(tool_calls or ()):
        where, function = f"{param}[{number}]", call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(call.get("id"), str) or not isinstance(function.get("name"), str):
            message = f"{where}: must be {{id, type: function, function: {{name, arguments}}}}"
            raise RequestRejected(message, param=where, code="invalid_value")
        arguments = parsed.parse_arguments(function.get("arguments"))
        calls.append({"id": call["id"][:MAX_ID_LENGTH], "name": function["name"][:128], "arguments": arguments})
    return calls
