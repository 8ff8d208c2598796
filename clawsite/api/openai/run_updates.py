"""Convert the events of a run into updates for the caller: text deltas, waiting, the end. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from sessions_app.models import RunWait

FINISH_REASONS = ("stop", "length", "content_filter", "tool_calls")


@dataclass(frozen=True, slots=True)
class AnswerDelta:
    """More text of answer number `index`. A run that uses tools can have several answers."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class AnswerDone:
    """An answer is complete; `text` is the whole answer."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class WaitingForPeople:
    """The run is waiting for a person. `approval` is the ID of the approval request, if any."""

    approval: str


@dataclass(frozen=True, slots=True)
class RunResumed:
    """The run is no longer waiting."""


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """There was no update for a while."""


@dataclass(frozen=True, slots=True)
class ClientToolCall:
    """A call to one of the caller's tools."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class CompletionUsage:
    prompt: int = 0
    completion: int = 0
    cached: int = 0

    def __add__(self, other: "CompletionUsage") -> "CompletionUsage":
        return CompletionUsage(self.prompt + other.prompt, self.completion + other.completion, self.cached + other.cached)


@dataclass(frozen=True, slots=True)
class RunEnded:
    """`failure` is (kind, message) if there is no complete answer."""

    finish: str
    usage: CompletionUsage
    calls: tuple[ClientToolCall, ...] = ()
    failure: tuple[str, str] | None = None


RunUpdate = AnswerDelta | AnswerDone | WaitingForPeople | RunResumed | KeepAlive | RunEnded


@dataclass(slots=True)
class RunUpdateBuilder:
    """Converts events to updates. If a model restarts an answer, only the text that differs is sent."""

    usage: CompletionUsage = field(default_factory=CompletionUsage)
    _index: int = -1
    _message: str = ""
    _attempt: int = 1
    _text: str = ""  # text of this attempt
    _sent_text: str = ""  # text of this answer that was sent to the caller
    _approval: str = ""
    _last: Mapping[str, Any] = field(default_factory=dict)

    def take(self, event: Mapping[str, Any]) -> list[RunUpdate]:
        data = event["data"]
        match event["stream"]:
            case "assistant":
                return self._assistant(data)
            case "tool" if data["phase"] == "waiting":
                self._approval = data["approval"].get("id", "")
            case "lifecycle":
                return self._lifecycle(data)
        return []

    def _assistant(self, data: Mapping[str, Any]) -> list[RunUpdate]:
        self._follow_message(data["messageId"], data["attempt"])
        if data.get("reset"):
            return []
        if not data.get("final"):
            return self._add_text(data["delta"])
        self._last = data["message"]
        text = "".join(block["text"] for block in self._last["content"] if block["type"] == "text")
        used = self._last.get("usage") or {}
        self.usage += CompletionUsage(used.get("input", 0), used.get("output", 0), used.get("cacheRead", 0))
        rest = self._add_text(text[len(self._text) :]) if text.startswith(self._text) else []
        return [*rest, *([AnswerDone(self._index, text)] if text else [])]

    def _follow_message(self, message_id: str, attempt: int) -> None:
        if message_id != self._message:
            self._message, self._sent_text = message_id, ""
            self._index += 1
            self._attempt, self._text = attempt, ""
        elif attempt != self._attempt:
            self._attempt, self._text = attempt, ""

    def _add_text(self, delta: str) -> list[RunUpdate]:
        self._text += delta
        if not delta or self._sent_text.startswith(self._text):
            return []
        # Sent text can't be retracted: text that differs from it is appended.
        more = self._text[len(self._sent_text) :] if self._text.startswith(self._sent_text) else f"\n\n{self._text}"
        self._sent_text = self._text
        return [AnswerDelta(self._index, more)]

    def _lifecycle(self, data: Mapping[str, Any]) -> list[RunUpdate]:
        match data["phase"]:
            case "waiting":
                approval, self._approval = self._approval, ""
                return [WaitingForPeople(approval)] if data["reason"] in RunWait.DECIDED_BY_PEOPLE else []
            case "resume" | "rescued" | "start":
                return [RunResumed()]
            case "error":
                return [RunEnded("stop", self.usage, failure=(data["kind"], data["error"]))]
            case "end" if data["aborted"]:
                return [RunEnded("stop", self.usage, failure=("aborted", f"the run was stopped ({data['stopReason']})"))]
            case "end":
                calls = self._calls(data.get("toolCallIds") or ())
                finish = data["stopReason"] if data["stopReason"] in FINISH_REASONS else "stop"
                return [RunEnded("tool_calls" if calls else "stop" if finish == "tool_calls" else finish, self.usage, calls)]
        return []

    def _calls(self, ids: Any) -> tuple[ClientToolCall, ...]:
        blocks = [block for block in self._last.get("content", ()) if block["type"] == "toolCall" and block["id"] in ids]
        return tuple(ClientToolCall(block["id"], block["name"], orjson.dumps(block["arguments"]).decode()) for block in blocks)
