"""The body of `POST /v1/responses`, read as a `Wish`."""

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


def parse_responses_request(sent: Any) -> CompletionRequest:
    body = ResponsesBody.model_validate(sent)
    if body.background:
        raise RequestRejected("background: wait for the answer, or stream it", param="background", code="unsupported_parameter")
    if body.conversation is not None:
        raise RequestRejected("conversation: use previous_response_id", param="conversation", code="unsupported_parameter")
    items = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else body.input
    if len(items) > MAX_MESSAGES:
        raise RequestRejected(f"input: more than {MAX_MESSAGES} items", param="input", code="too_long")
    return body.to_request(
        _parse_input(items, body.instructions or ""),
        {"max_tokens": body.max_output_tokens, "response_format": _parse_format((body.text or {}).get("format"))},
        thinking=parse_thinking((body.reasoning or {}).get("effort"), "reasoning.effort"),
        previous=body.previous_response_id or "",
    )


def _parse_format(wished: Any) -> dict[str, Any] | None:
    """As chat completions write it: the schema in an object of its own."""
    match wished:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "json_object"}
        case {"type": "json_schema", "name": str(), "schema": dict()}:
            schema = {name: wished[name] for name in ("name", "schema", "strict", "description") if wished.get(name) is not None}
            return {"type": "json_schema", "json_schema": schema}
    raise RequestRejected("text.format: text, json_object or json_schema", param="text.format", code="invalid_value")


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
                pass  # what the model thought is not given back to it, and what it refers to is in the session
            case other:
                raise RequestRejected(f"{where}.type: items of type {other!r} are not taken here", param=f"{where}.type")
    return parsed


def _parse_string(item: dict[str, Any], name: str, where: str) -> str:
    word = item.get(name)
    if not isinstance(word, str) or not word or len(word) > MAX_ID_LENGTH:
        raise RequestRejected(f"{where}.{name}: 1 to {MAX_ID_LENGTH} characters", param=f"{where}.{name}", code="invalid_value")
    return word
