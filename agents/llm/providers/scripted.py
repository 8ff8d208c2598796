"""A model that follows a script, for tests. It fails if it is asked more or fewer times than the script has steps.

model = ScriptedModel().script(calls("read", path="notes.txt"), says("It is empty."))
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from agents.llm.base import FailureKind, Finished, ModelRequest, ProviderError, StreamEvent, TextDelta, ThinkingDelta, Usage
from agents.llm.messages import AssistantMessage, ToolCallRequest

USAGE = Usage(input_tokens=10, output_tokens=5)


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """One answer: what is streamed, then either the end or a failure."""

    thinking: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    tool_calls: tuple[ToolCallRequest, ...] = ()
    failure: FailureKind | None = None
    failure_details: dict[str, Any] = field(default_factory=dict)
    usage: Usage = USAGE

    def __add__(self, other: "ScriptedAnswer") -> "ScriptedAnswer":
        """Combine two parts of one answer: `thinks("…") + says("…") + calls("read", path="x")`."""
        return ScriptedAnswer(
            self.thinking + other.thinking,
            self.texts + other.texts,
            self.tool_calls + other.tool_calls,
            other.failure or self.failure,
            other.failure_details or self.failure_details,
            self.usage,
        )


def says(*deltas: str) -> ScriptedAnswer:
    return ScriptedAnswer(texts=deltas)


def thinks(*deltas: str) -> ScriptedAnswer:
    return ScriptedAnswer(thinking=deltas)


def calls(name: str, /, *, call_id: str = "", **arguments: Any) -> ScriptedAnswer:
    return ScriptedAnswer(tool_calls=(ToolCallRequest(call_id, name, arguments),))


def fails(kind: FailureKind | str, message: str = "as scripted", **details: Any) -> ScriptedAnswer:
    """Fail after the parts it is added to: `says("half an ans") + fails("cut")`. Details: status, retry_after."""
    return ScriptedAnswer(failure=FailureKind(kind), failure_details={"message": message, **details})


class ScriptedModel:
    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self._steps: list[ScriptedAnswer] = []

    def script(self, *steps: ScriptedAnswer) -> "ScriptedModel":
        self._steps.extend(steps)
        return self

    def assert_used_up(self) -> None:
        if len(self.requests) < len(self._steps):
            raise AssertionError(self._mismatch())

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        self.requests.append(request)
        if len(self.requests) > len(self._steps):
            raise AssertionError(self._mismatch())
        step = self._steps[len(self.requests) - 1]
        for thought in step.thinking:
            yield ThinkingDelta(thought)
        for text in step.texts:
            yield TextDelta(text)
        if step.failure is not None:
            raise ProviderError(step.failure, **step.failure_details)
        message = AssistantMessage("".join(step.texts), "".join(step.thinking), step.tool_calls)
        yield Finished(message, step.usage, "tool_calls" if step.tool_calls else "stop")

    async def aclose(self) -> None:
        pass

    def _mismatch(self) -> str:
        return f"the model was asked {len(self.requests)} times; its script has {len(self._steps)} steps"
