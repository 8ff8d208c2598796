"""Events of one model call, as a closed union. `agents.loop` passes them on, the runner stores them."""

from dataclasses import dataclass

from agents.llm.base import CallDelta, FailureKind, TextDelta, ThinkingDelta, Usage
from agents.llm.messages import AssistantMessage


@dataclass(frozen=True, slots=True)
class MessageStarted:
    """The model is being asked; the deltas that follow belong to this message and attempt."""

    message_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class AttemptReset:
    """An attempt failed: its deltas are discarded, and `attempt` follows after `delay_s` seconds."""

    message_id: str
    attempt: int
    kind: FailureKind
    delay_s: float


@dataclass(frozen=True, slots=True)
class Replied:
    """The model's complete answer, the only attempt that is added to the transcript."""

    message_id: str
    attempt: int
    message: AssistantMessage
    usage: Usage
    model: str
    finish_reason: str


AskEvent = MessageStarted | TextDelta | ThinkingDelta | CallDelta | AttemptReset | Replied
