"""Collect the messages of a request, item by item, from either of OpenAI's formats: the earlier history and the new message."""

from collections.abc import Sequence
from typing import Any

import orjson

from clawsite.api.openai.content_parts import MessageContent, check_image_count, parse_content
from clawsite.api.openai.errors import RequestRejected
from clawsite.infra.bounded_json import count_values, is_too_deep
from clawsite.infra.text import make_storable
from clawsite.routing.supplied_history import SuppliedMessage
from sessions_app.run_request import ClientToolResult

MAX_SYSTEM_LENGTH = 100_000  # characters
MAX_ID_LENGTH = 200
MAX_MESSAGES = 2_000
MAX_VALUES = 50_000  # JSON values in a body: 25 per message


class InputMessages:
    """`where` is the name of the list in the body: `messages` or `input`."""

    def __init__(self, where: str, system: str = "") -> None:
        self._where = where
        self._system = [system]
        self._messages: list[SuppliedMessage] = []
        self._contents: list[MessageContent] = []
        self._names: dict[str, str] = {}  # call id -> tool
        self._values = 0  # JSON values in the arguments of all calls

    def add_message(self, role: Any, content: Any, param: str, calls: Sequence[dict[str, Any]] = ()) -> None:
        """Add a message; `calls` are the tool calls of a model's message."""
        parsed = self._parse_content(content, f"{param}.content")
        match role:
            case "system" | "developer":
                self._system.append(parsed.text)
            case "user":
                self._messages.append(SuppliedMessage("user", parsed.text, parsed.files))
            case "assistant":
                self._names |= {call["id"]: call["name"] for call in calls}
                self._messages.append(SuppliedMessage("assistant", parsed.text, calls=list(calls)))
            case other:
                raise RequestRejected(f"{param}.role: unknown role {other!r}", param=f"{param}.role", code="invalid_value")

    def add_call(self, call: dict[str, Any]) -> None:
        """Add a separate tool call to the model's previous message."""
        self._names[call["id"]] = call["name"]
        last = self._messages.pop() if self._messages and self._messages[-1].role == "assistant" else SuppliedMessage("assistant")
        self._messages.append(SuppliedMessage("assistant", last.text, calls=[*last.calls, call]))

    def add_result(self, call_id: str, content: Any, param: str) -> None:
        """Add the result of one of the caller's tools."""
        parsed = self._parse_content(content, param)
        self._messages.append(SuppliedMessage("tool", parsed.text, call_id=call_id, name=self._names.get(call_id, "")))

    def parse_arguments(self, text: Any) -> dict[str, Any]:
        """Parse the arguments of a call. Return {} for anything but an object, as when the call was made."""
        if not isinstance(text, str):
            return {}
        # The arguments are a string in the body, so their values were not counted yet.
        self._values += count_values(text.encode(), MAX_VALUES)
        if self._values > MAX_VALUES:
            message = f"{self._where}: the arguments of all calls exceed the limit of {MAX_VALUES} values"
            raise RequestRejected(message, param=self._where, code="too_long")
        try:
            arguments = orjson.loads(text)
        except orjson.JSONDecodeError:
            return {}
        return make_storable(arguments) if isinstance(arguments, dict) and not is_too_deep(arguments) else {}

    def _parse_content(self, content: Any, param: str) -> MessageContent:
        self._contents.append(parse_content(content, param))
        return self._contents[-1]

    def system_prompt(self) -> str:
        """Return all system messages, joined."""
        prompt = "\n\n".join(text for text in self._system if text)
        if len(prompt) > MAX_SYSTEM_LENGTH:
            message = f"{self._where}: system messages exceed the limit of {MAX_SYSTEM_LENGTH} characters"
            raise RequestRejected(message, param=self._where, code="too_long")
        return prompt

    def split(self) -> tuple[MessageContent, tuple[ClientToolResult, ...], tuple[SuppliedMessage, ...]]:
        """Return the new message, or the tool results at the end, and the earlier messages."""
        check_image_count(self._contents, self._where)
        messages, where = self._messages, self._where
        if messages and messages[-1].role == "user":
            files = tuple(file for file in messages[-1].files if not isinstance(file, str))
            return MessageContent(messages[-1].text, files), (), tuple(messages[:-1])
        begin = len(messages)
        while begin and messages[begin - 1].role == "tool":
            begin -= 1
        if begin == len(messages):
            raise RequestRejected(
                f"{where}: the last message must be from the user or a tool result", param=where, code="invalid_value"
            )
        results = tuple(ClientToolResult(callId=message.call_id, text=message.text) for message in messages[begin:])
        return MessageContent(), results, tuple(messages[:begin])
