"""What can happen in a conversation, as one closed union of values. `agents.loop` yields them, the runner stores them."""

from dataclasses import dataclass

from agents.llm.base import CallDelta, FailureKind, TextDelta, ThinkingDelta, Usage
from agents.llm.messages import AssistantMessage, ToolCallAsked
from tools_app.core.definition import ToolEnded, ToolStarted, ToolUpdated


@dataclass(frozen=True, slots=True)
class MessageStarted:
    """The model is being asked; the deltas that follow belong to this message and attempt."""

    message_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class AttemptReset:
    """An attempt failed: its deltas are void, `attempt` follows after `delay_s` seconds."""

    message_id: str
    attempt: int
    kind: FailureKind
    delay_s: float


@dataclass(frozen=True, slots=True)
class Replied:
    """The model's whole answer; of all attempts only this one enters the transcript."""

    message_id: str
    attempt: int
    message: AssistantMessage
    usage: Usage
    model: str
    finish_reason: str


@dataclass(frozen=True, slots=True)
class Parked:
    """Nothing is in flight and a call waits for people or children: the conversation goes on in another run of the loop."""

    reason: str


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What is left of the last answer is for whoever asked to carry out: the results come with their next message."""

    calls: tuple[ToolCallAsked, ...]


@dataclass(frozen=True, slots=True)
class TurnsUsedUp:
    limit: int


AskEvent = MessageStarted | TextDelta | ThinkingDelta | CallDelta | AttemptReset | Replied
UseEvent = ToolStarted | ToolUpdated | ToolEnded | Parked
LoopEvent = AskEvent | UseEvent | HandedOver | TurnsUsedUp
