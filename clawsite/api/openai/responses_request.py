"""Parse the body of `POST /v1/responses` into a CompletionRequest."""

from typing import Any

from pydantic import Field

from clawsite.api.openai.completion_request import CompletionBody, CompletionRequest, Count, parse_thinking
from clawsite.api.openai.errors import RequestRejected
from clawsite.api.openai.input_messages import MAX_ID_LENGTH, MAX_MESSAGES, MAX_SYSTEM_LENGTH, InputMessages


class ResponsesBody(CompletionBody):
    input: str | list[dict[str, Any]]
    instructions: str | None = Field(None, max_length=MAX_SYSTEM_LENGTH)
    previous_response_id: str | None = Field(None, max_length=300)
    max_output_tokens: Count | None = None
    text: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    background: bool | None = None
    conversation: Any = None


def parse_responses_request(data: Any) -> CompletionRequest:
    body = ResponsesBody.model_validate(data)
    if body.background:
        raise RequestRejected(
            "background is not supported; wait for the response, or stream it", param="background", code="unsupported_parameter"
        )
    if body.conversation is not None:
        raise RequestRejected(
            "conversation is not supported; use previous_response_id", param="conversation", code="unsupported_parameter"
        )
    items = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else body.input
    if len(items) > MAX_MESSAGES:
        raise RequestRejected(f"input: exceeds the limit of {MAX_MESSAGES} items", param="input", code="too_long")
    return body.to_request(
        _parse_input(items, body.instructions or ""),
        {"max_tokens": body.max_output_tokens, "response_format": _parse_format((body.text or {}).get("format"))},
        thinking=parse_thinking((body.reasoning or {}).get("effort"), "reasoning.effort"),
        previous=body.previous_response_id or "",
    )


def _parse_format(text_format: Any) -> dict[str, Any] | None:
    """Convert to the format of chat completions, which nest the schema in an object."""
    match text_format:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "json_object"}
        case {"type": "json_schema", "name": str(), "schema": dict()}:
            names = ("name", "schema", "strict", "description")
            schema = {name: text_format[name] for name in names if text_format.get(name) is not None}
            return {"type": "json_schema", "json_schema": schema}
    raise RequestRejected("text.format: must be text, json_object or json_schema", param="text.format", code="invalid_value")


def _parse_input(items: list[dict[str, Any]], instructions: str) -> InputMessages:
    parsed = InputMessages("input", instructions)
    for number, item in enumerate(items):
        where = f"input[{number}]"
        match item.get("type") or "message":
            case "message":
                parsed.add_message(item.get("role"), item.get("content"), where)
            case "function_call":
                call = {"id": _parse_string(item, "call_id", where), "name": _parse_string(item, "name", where)}
                parsed.add_call({**call, "arguments": parsed.parse_arguments(item.get("arguments"))})
            case "function_call_output":
                parsed.add_result(_parse_string(item, "call_id", where), item.get("output"), f"{where}.output")
            case "reasoning" | "item_reference":
                pass  # reasoning is not sent back to the model, and referenced items are in the session
            case other:
                raise RequestRejected(f"{where}.type: items of type {other!r} are not supported", param=f"{where}.type")
    return parsed


def _parse_string(item: dict[str, Any], name: str, where: str) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value or len(value) > MAX_ID_LENGTH:
        raise RequestRejected(
            f"{where}.{name}: must have 1 to {MAX_ID_LENGTH} characters", param=f"{where}.{name}", code="invalid_value"
        )
    return value
