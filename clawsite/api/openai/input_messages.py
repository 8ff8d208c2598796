"""What was said before, and the message itself: taken in item by item from either of OpenAI's formats."""

from collections.abc import Sequence
from typing import Any

import orjson

from clawsite.api.openai.content_parts import MessageContent, check_image_count, parse_content
from clawsite.api.openai.errors import RequestRejected
from clawsite.infra.bounded_json import count_values, is_too_deep
from clawsite.infra.text import make_storable
from clawsite.routing.supplied_history import SuppliedMessage

MAX_SYSTEM_LENGTH = 100_000  # characters
MAX_ID_LENGTH = 200
MAX_MESSAGES = 2_000
MAX_VALUES = 50_000  # of a body: 25 for each message


class InputMessages:
    """`where` is what the body calls the list: `messages`, `input`."""

    def __init__(self, where: str, system: str = "") -> None:
        self._where = where
        self._system = [system]
        self._messages: list[SuppliedMessage] = []
        self._contents: list[MessageContent] = []
        self._names: dict[str, str] = {}  # call id -> tool
        self._values = 0  # in the arguments of all calls

    def message(self, role: Any, content: Any, place: str, calls: Sequence[dict[str, Any]] = ()) -> None:
        """Words of somebody; `calls` are those that the model made with them."""
        read = self._parse_content(content, f"{place}.content")
        match role:
            case "system" | "developer":
                self._system.append(read.text)
            case "user":
                self._messages.append(SuppliedMessage("user", read.text, read.files))
            case "assistant":
                self._names |= {call["id"]: call["name"] for call in calls}
                self._messages.append(SuppliedMessage("assistant", read.text, calls=list(calls)))
            case other:
                raise RequestRejected(f"{place}.role: {other!r} is no role here", param=f"{place}.role", code="invalid_value")

    def call(self, call: dict[str, Any]) -> None:
        """A call that stands alone belongs to what the model said just before, together with its other calls."""
        self._names[call["id"]] = call["name"]
        last = self._messages.pop() if self._messages and self._messages[-1].role == "assistant" else SuppliedMessage("assistant")
        self._messages.append(SuppliedMessage("assistant", last.text, calls=[*last.calls, call]))

    def result(self, call_id: str, content: Any, place: str) -> None:
        """What came of a call, in the caller's words."""
        read = self._parse_content(content, place)
        self._messages.append(SuppliedMessage("tool", read.text, call_id=call_id, name=self._names.get(call_id, "")))

    def arguments(self, text: Any) -> dict[str, Any]:
        """Of a call. What the model wrote may be anything; what is no object is empty, as it was when it was called."""
        if not isinstance(text, str):
            return {}
        # A string in the body, so its values were not counted yet.
        self._values += count_values(text.encode(), MAX_VALUES)
        if self._values > MAX_VALUES:
            words = f"{self._where}: the arguments of all calls have more than {MAX_VALUES} values in them"
            raise RequestRejected(words, param=self._where, code="too_long")
        try:
            read = orjson.loads(text)
        except orjson.JSONDecodeError:
            return {}
        return make_storable(read) if isinstance(read, dict) and not is_too_deep(read) else {}

    def _parse_content(self, content: Any, place: str) -> MessageContent:
        self._contents.append(parse_content(content, place))
        return self._contents[-1]

    def system(self) -> str:
        """All words of the system, joined."""
        told = "\n\n".join(text for text in self._system if text)
        if len(told) > MAX_SYSTEM_LENGTH:
            where = self._where
            raise RequestRejected(f"{where}: more than {MAX_SYSTEM_LENGTH} characters for the system", param=where, code="too_long")
        return told

    def asked(self) -> tuple[MessageContent, tuple[dict[str, Any], ...], tuple[SuppliedMessage, ...]]:
        """The message itself, or the results of the caller's tools that stand at the end; and what was said before."""
        check_image_count(self._contents, self._where)
        said, where = self._messages, self._where
        if said and said[-1].role == "user":
            files = tuple(file for file in said[-1].files if not isinstance(file, str))
            return MessageContent(said[-1].text, files), (), tuple(said[:-1])
        begin = len(said)
        while begin and said[begin - 1].role == "tool":
            begin -= 1
        if begin == len(said):
            raise RequestRejected(f"{where}: the last one must be a user's, or a tool's result", param=where, code="invalid_value")
        results = tuple({"callId": message.call_id, "text": message.text} for message in said[begin:])
        return MessageContent(), results, tuple(said[:begin])
