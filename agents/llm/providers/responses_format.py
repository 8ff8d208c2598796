"""Convert to and from OpenAI's /responses format, the only one in which its newer models combine tools and reasoning.

Nothing is stored at the provider (`store` is false): the whole history is sent each time, as everywhere else.
"""

from typing import Any

import orjson

from agents.llm.base import ModelRequest, Usage
from agents.llm.failures import error_from_stream
from agents.llm.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from agents.llm.providers.chat_format import AnswerAssembler, move_tool_images, text_without_images, to_data_url
from agents.llm.providers.dialect import EndpointDialect
from agents.llm.providers.parameters import build_responses_parameters

FINISH_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def build_responses_body(request: ModelRequest, dialect: EndpointDialect) -> dict[str, Any]:
    items = [item for message in move_tool_images(request.messages) for item in _to_items(message, dialect)]
    body: dict[str, Any] = {"model": request.model, "input": items, "stream": True, "store": False}
    if request.system:
        body["instructions"] = request.system
    if request.tools:
        # strict would demand schemas without optional properties
        body["tools"] = [
            {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters, "strict": False}
            for tool in request.tools
        ]
    if dialect.effort and request.thinking not in ("", "off"):
        body["reasoning"] = {"effort": request.thinking}
    return body | build_responses_parameters(request.parameters, with_tools=bool(request.tools))


def _to_user_content(message: UserMessage, dialect: EndpointDialect) -> str | list[dict[str, Any]]:
    if not message.images:
        return message.full_text
    if not dialect.images:
        return text_without_images(message)
    said = [{"type": "input_text", "text": message.full_text}] if message.full_text else []
    return said + [{"type": "input_image", "image_url": to_data_url(image)} for image in message.images]


def _to_items(message: Message, dialect: EndpointDialect) -> list[dict[str, Any]]:
    match message:
        case UserMessage():
            return [{"role": "user", "content": _to_user_content(message, dialect)}]
        case ToolResultMessage(call_id=call_id, text=text):
            return [{"type": "function_call_output", "call_id": call_id, "output": text}]
        case AssistantMessage(text=text, tool_calls=calls):
            said = [{"role": "assistant", "content": text}] if text else []
            return said + [
                {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": orjson.dumps(call.arguments).decode()}
                for call in calls
            ]


class ResponsesAssembler(AnswerAssembler):
    """Assembles an answer from /responses events."""

    def read(self, chunk: dict[str, Any]) -> None:
        match chunk.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                self.add_text(chunk["delta"])
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
                self.add_thought(chunk["delta"])
            case "response.output_item.done" if chunk["item"].get("type") == "function_call":
                item = chunk["item"]
                function = {"name": item["name"], "arguments": item.get("arguments") or ""}
                self.add_call({"index": chunk.get("output_index"), "id": item.get("call_id"), "function": function})
            case "response.completed":
                self.finish_reason = "tool_calls" if self.has_calls else "stop"
                self._read_usage(chunk["response"])
            case "response.incomplete":
                reason = (chunk["response"].get("incomplete_details") or {}).get("reason", "")
                self.finish_reason = FINISH_REASONS.get(reason, reason or "length")
                self._read_usage(chunk["response"])
            case "response.failed":
                raise error_from_stream(chunk["response"].get("error"), secret=self.secret)
            case "error":
                raise error_from_stream(chunk.get("error") or chunk, secret=self.secret)

    def _read_usage(self, response: dict[str, Any]) -> None:
        usage = response.get("usage") or {}
        details = usage.get("input_tokens_details") or {}
        self.usage = Usage(usage.get("input_tokens") or 0, usage.get("output_tokens") or 0, details.get("cached_tokens") or 0)
