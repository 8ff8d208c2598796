"""Convert requests and responses to and from the chat-completions format. Does no networking.

The direct provider uses it over HTTP; litellm has the same shapes.
"""

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from agents.llm.base import (
    CallDelta,
    FailureKind,
    Finished,
    ModelRequest,
    ProviderError,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolSpec,
    Usage,
)
from agents.llm.failures import error_from_stream
from agents.llm.messages import AssistantMessage, Image, Message, ToolCallRequest, ToolResultMessage, UserMessage
from agents.llm.providers.dialect import EndpointDialect, to_endpoint_call_id
from agents.llm.providers.parameters import build_chat_parameters


def build_chat_body(request: ModelRequest, dialect: EndpointDialect) -> dict[str, Any]:
    body: dict[str, Any] = {"model": request.model, "messages": to_wire_messages(request, dialect), "stream": True}
    if dialect.usage_on_request:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = to_wire_tools(request.tools)
    if dialect.effort and request.thinking not in ("", "off"):
        body["reasoning_effort"] = request.thinking
    return body | build_chat_parameters(request.parameters, dialect, with_tools=bool(request.tools))


def to_wire_messages(request: ModelRequest, dialect: EndpointDialect) -> list[dict[str, Any]]:
    wire = [{"role": "system", "content": request.system}] if request.system else []
    return wire + [_to_wire_message(message, dialect) for message in move_tool_images(request.messages) if not _is_empty(message)]


def move_tool_images(messages: Iterable[Message]) -> Iterator[Message]:
    """Move images of tool results to a user message after all results of their turn, where every provider accepts them."""
    waiting: list[ToolResultMessage] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            waiting += [message] if message.images else []
        elif waiting:
            yield _build_image_message(waiting)
            waiting = []
        yield message
    if waiting:
        yield _build_image_message(waiting)


def _build_image_message(results: Sequence[ToolResultMessage]) -> UserMessage:
    names = ", ".join(f'"{image.name}" of {result.name}' for result in results for image in result.images)
    text = f"[Not written by the user: images that tools returned, in this order: {names}]"
    return UserMessage(text, tuple(image for result in results for image in result.images))


def to_wire_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}
        for tool in tools
    ]


def _is_empty(message: Message) -> bool:
    """Whether an answer has neither text nor calls, for example because it was stopped early: providers reject it."""
    return isinstance(message, AssistantMessage) and not message.text and not message.tool_calls


def _to_wire_message(message: Message, dialect: EndpointDialect) -> dict[str, Any]:
    match message:
        case UserMessage():
            return {"role": "user", "content": _to_wire_user(message, dialect)}
        case ToolResultMessage(call_id=call_id, text=text):
            return {"role": "tool", "tool_call_id": to_endpoint_call_id(dialect, call_id), "content": text}
        case AssistantMessage(text, thinking, calls):
            wire: dict[str, Any] = {"role": "assistant", "content": text or None}
            if dialect.thinking_back:
                wire["reasoning_content"] = thinking
            if calls:
                wire["tool_calls"] = [_to_wire_call(call, dialect) for call in calls]
            return wire


def _to_wire_user(message: UserMessage, dialect: EndpointDialect) -> str | list[dict[str, Any]]:
    if not message.images:
        return message.full_text
    if not dialect.images:
        return text_without_images(message)
    blocks = [{"type": "text", "text": message.full_text}] if message.full_text else []
    return blocks + [{"type": "image_url", "image_url": {"url": to_data_url(image)}} for image in message.images]


def to_data_url(image: Image) -> str:
    return f"data:{image.mime_type};base64,{base64.b64encode(image.data).decode()}"


def text_without_images(message: UserMessage) -> str:
    """Replace images with notes, for a model that turned out to accept none."""
    notes = (
        f'[Attached image "{image.name}" ({image.mime_type}); not shown: this model takes no images]' for image in message.images
    )
    return "\n\n".join(part for part in (message.full_text, *notes) if part)


def _to_wire_call(call: ToolCallRequest, dialect: EndpointDialect) -> dict[str, Any]:
    function = {"name": call.name, "arguments": orjson.dumps(call.arguments).decode()}
    return {"id": to_endpoint_call_id(dialect, call.id), "type": "function", "function": function}


@dataclass(slots=True)
class _PartialCall:
    id: str
    name: str
    arguments: str = ""
    sent: int = 0  # characters of the arguments already yielded


class AnswerAssembler:
    """Assembles the chunks of one answer: `read` each chunk, yield the events of `take_events`, and call `finished` at the end."""

    def __init__(self, *, secret: str = "") -> None:
        self.finish_reason = ""
        self.usage = Usage()
        self.secret = secret  # removed from error messages
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._texts_sent = 0
        self._thoughts_sent = 0
        self._calls: list[_PartialCall] = []
        self._call_at: dict[Any, _PartialCall] = {}
        self.add_text = self._texts.append
        self.add_thought = self._thoughts.append

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def read(self, chunk: dict[str, Any]) -> None:
        if chunk.get("error") or chunk.get("object") == "error":
            raise error_from_stream(chunk, secret=self.secret)
        if choices := chunk.get("choices"):
            choice = choices[0]
            if delta := choice.get("delta") or choice.get("message"):  # "message": from a server that does not stream
                if content := delta.get("content") or delta.get("refusal"):
                    if isinstance(content, str):
                        self.add_text(content)
                    else:
                        self._add_blocks(content)
                if thought := delta.get("reasoning_content") or delta.get("reasoning"):
                    self.add_thought(thought)
                if calls := delta.get("tool_calls"):
                    for call in calls:
                        self.add_call(call)
            if reason := choice.get("finish_reason"):
                self.finish_reason = reason
        if usage := chunk.get("usage"):
            self.usage = parse_usage(usage)

    def take_events(self) -> Iterator[StreamEvent]:
        """Yield what arrived since the last call. Chunks that arrived together are merged, which halves the work downstream."""
        if self._thoughts_sent < len(self._thoughts):
            yield ThinkingDelta("".join(self._thoughts[self._thoughts_sent :]))
            self._thoughts_sent = len(self._thoughts)
        if self._texts_sent < len(self._texts):
            yield TextDelta("".join(self._texts[self._texts_sent :]))
            self._texts_sent = len(self._texts)
        for index, call in enumerate(self._calls):
            if call.sent < len(call.arguments):
                yield CallDelta(index, call.name, call.arguments[call.sent :])
                call.sent = len(call.arguments)

    def finished(self) -> Finished:
        calls = tuple(_parse_call(call) for call in self._calls)
        message = AssistantMessage("".join(self._texts), "".join(self._thoughts), calls)
        if not message.text.strip() and not calls:
            raise ProviderError(FailureKind.EMPTY, f"the model's answer was empty (finish reason: {self.finish_reason or 'none'})")
        return Finished(message, self.usage, self.finish_reason or "stop")

    def _add_blocks(self, blocks: list[dict[str, Any]]) -> None:
        """Add content that is a list: Mistral's reasoning models send thinking and text as blocks."""
        for block in blocks:
            if text := block.get("text"):
                self.add_text(text)
            elif thinking := block.get("thinking"):
                self.add_thought(thinking if isinstance(thinking, str) else "".join(part.get("text", "") for part in thinking))

    def add_call(self, delta: dict[str, Any]) -> None:
        """Add a part of a call. Parts share an index, but some servers omit it and others use 0 for all calls."""
        function = delta.get("function") or {}
        index, call_id, name = delta.get("index"), delta.get("id") or "", function.get("name") or ""
        call = self._call_at.get(index)
        if call is None or (name and call_id and call.id and call_id != call.id) or (index is None and name):
            call = self._call_at[index] = _PartialCall(call_id, name)
            self._calls.append(call)
        call.id = call.id or call_id
        call.name = call.name or name
        if arguments := function.get("arguments"):
            call.arguments += arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()


def parse_usage(usage: dict[str, Any]) -> Usage:
    details = usage.get("prompt_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("prompt_tokens") or 0,
        output_tokens=usage.get("completion_tokens") or 0,
        cache_read=details.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or 0,
        cache_write=details.get("cache_creation_tokens") or usage.get("cache_creation_input_tokens") or 0,
    )


def _parse_call(call: _PartialCall) -> ToolCallRequest:
    if not call.arguments.strip():
        return ToolCallRequest(call.id, call.name)
    try:
        arguments = orjson.loads(call.arguments)
    except orjson.JSONDecodeError as error:
        return ToolCallRequest(call.id, call.name, error=f"The arguments were not valid JSON: {error}.")
    if not isinstance(arguments, dict):
        return ToolCallRequest(call.id, call.name, error="The arguments were not a JSON object.")
    return ToolCallRequest(call.id, call.name, arguments)
