"""The body of `POST /v1/responses`, read as a `Wish`."""

from typing import Any

from pydantic import Field

from clawsite.api.openai.completion_request import Body, Count, Wish, thinking_of
from clawsite.api.openai.errors import Refused
from clawsite.api.openai.input_messages import LONGEST_ID, LONGEST_SYSTEM, MOST_MESSAGES, Spoken


class ResponsesBody(Body):
    input: str | list[dict[str, Any]]
    instructions: str | None = Field(None, max_length=LONGEST_SYSTEM)
    previous_response_id: str | None = Field(None, max_length=300)
    max_output_tokens: Count | None = None
    text: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    background: bool | None = None
    conversation: Any = None


def read_responses(sent: Any) -> Wish:
    body = ResponsesBody.model_validate(sent)
    if body.background:
        raise Refused("background: wait for the answer, or stream it", param="background", code="unsupported_parameter")
    if body.conversation is not None:
        raise Refused("conversation: use previous_response_id", param="conversation", code="unsupported_parameter")
    items = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else body.input
    if len(items) > MOST_MESSAGES:
        raise Refused(f"input: more than {MOST_MESSAGES} items", param="input", code="too_long")
    return body.wish(
        _spoken(items, body.instructions or ""),
        {"max_tokens": body.max_output_tokens, "response_format": _format((body.text or {}).get("format"))},
        thinking=thinking_of((body.reasoning or {}).get("effort"), "reasoning.effort"),
        previous=body.previous_response_id or "",
    )


def _format(wished: Any) -> dict[str, Any] | None:
    """As chat completions write it: the schema in an object of its own."""
    match wished:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "json_object"}
        case {"type": "json_schema", "name": str(), "schema": dict()}:
            schema = {name: wished[name] for name in ("name", "schema", "strict", "description") if wished.get(name) is not None}
            return {"type": "json_schema", "json_schema": schema}
    raise Refused("text.format: text, json_object or json_schema", param="text.format", code="invalid_value")


def _spoken(items: list[dict[str, Any]], instructions: str) -> Spoken:
    spoken = Spoken("input", instructions)
    for number, item in enumerate(items):
        where = f"input[{number}]"
        match item.get("type") or "message":
            case "message":
                spoken.message(item.get("role"), item.get("content"), where)
            case "function_call":
                call = {"id": _word(item, "call_id", where), "name": _word(item, "name", where)}
                spoken.call({**call, "arguments": spoken.arguments(item.get("arguments"))})
            case "function_call_output":
                spoken.result(_word(item, "call_id", where), item.get("output"), f"{where}.output")
            case "reasoning" | "item_reference":
                pass  # what the model thought is not given back to it, and what it refers to is in the session
            case other:
                raise Refused(f"{where}.type: items of type {other!r} are not taken here", param=f"{where}.type")
    return spoken


def _word(item: dict[str, Any], name: str, where: str) -> str:
    word = item.get(name)
    if not isinstance(word, str) or not word or len(word) > LONGEST_ID:
        raise Refused(f"{where}.{name}: 1 to {LONGEST_ID} characters", param=f"{where}.{name}", code="invalid_value")
    return word
