"""The events of a run as what its caller is told: words as they come, what waits, how it ended. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

FINISHES = ("stop", "length", "content_filter", "tool_calls")


@dataclass(frozen=True, slots=True)
class Said:
    """More words of answer number `index`. A run that uses tools may give several answers."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer is complete; `text` is all of it."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Waits:
    """For people. `approval` is the question they are asked, if it is one."""

    approval: str


@dataclass(frozen=True, slots=True)
class GoesOn:
    """It does not wait any more."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing has happened for a while."""


@dataclass(frozen=True, slots=True)
class CallOut:
    """A call of one of the caller's tools."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Usage:
    prompt: int = 0
    completion: int = 0
    cached: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.prompt + other.prompt, self.completion + other.completion, self.cached + other.cached)


@dataclass(frozen=True, slots=True)
class Ended:
    """`failure` is why there is no whole answer: (kind, words)."""

    finish: str
    usage: Usage
    calls: tuple[CallOut, ...] = ()
    failure: tuple[str, str] | None = None


Happening = Said | Answered | Waits | GoesOn | Silence | Ended


@dataclass(slots=True)
class Telling:
    """Turns events into happenings. A model that began an answer anew is shown only from where it differs."""

    usage: Usage = field(default_factory=Usage)
    _index: int = -1
    _message: str = ""
    _attempt: int = 1
    _now: str = ""  # words of this attempt
    _shown: str = ""  # words of this answer that the caller has
    _approval: str = ""
    _last: Mapping[str, Any] = field(default_factory=dict)

    def take(self, event: Mapping[str, Any]) -> list[Happening]:
        data = event["data"]
        match event["stream"]:
            case "assistant":
                return self._assistant(data)
            case "tool" if data["phase"] == "waiting":
                self._approval = data["approval"].get("id", "")
            case "lifecycle":
                return self._lifecycle(data)
        return []

    def _assistant(self, data: Mapping[str, Any]) -> list[Happening]:
        self._follow(data["messageId"], data["attempt"])
        if data.get("reset"):
            return []
        if not data.get("final"):
            return self._say(data["delta"])
        self._last = data["message"]
        text = "".join(block["text"] for block in self._last["content"] if block["type"] == "text")
        used = self._last.get("usage") or {}
        self.usage += Usage(used.get("input", 0), used.get("output", 0), used.get("cacheRead", 0))
        rest = self._say(text[len(self._now) :]) if text.startswith(self._now) else []
        return [*rest, *([Answered(self._index, text)] if text else [])]

    def _follow(self, message_id: str, attempt: int) -> None:
        if message_id != self._message:
            self._message, self._shown = message_id, ""
            self._index += 1
            self._attempt, self._now = attempt, ""
        elif attempt != self._attempt:
            self._attempt, self._now = attempt, ""

    def _say(self, delta: str) -> list[Happening]:
        self._now += delta
        if not delta or self._shown.startswith(self._now):
            return []
        # What was shown cannot be taken back: words that differ from it stand behind it.
        more = self._now[len(self._shown) :] if self._now.startswith(self._shown) else f"\n\n{self._now}"
        self._shown = self._now
        return [Said(self._index, more)]

    def _lifecycle(self, data: Mapping[str, Any]) -> list[Happening]:
        match data["phase"]:
            case "waiting":
                approval, self._approval = self._approval, ""
                return [Waits(approval)]
            case "resume" | "rescued" | "start":
                return [GoesOn()]
            case "error":
                return [Ended("stop", self.usage, failure=(data["kind"], data["error"]))]
            case "end" if data["aborted"]:
                return [Ended("stop", self.usage, failure=("aborted", f"the run was stopped ({data['stopReason']})"))]
            case "end":
                calls = self._calls(data.get("toolCallIds") or ())
                finish = data["stopReason"] if data["stopReason"] in FINISHES else "stop"
                return [Ended("tool_calls" if calls else "stop" if finish == "tool_calls" else finish, self.usage, calls)]
        return []

    def _calls(self, ids: Any) -> tuple[CallOut, ...]:
        blocks = [block for block in self._last.get("content", ()) if block["type"] == "toolCall" and block["id"] in ids]
        return tuple(CallOut(block["id"], block["name"], orjson.dumps(block["arguments"]).decode()) for block in blocks)
