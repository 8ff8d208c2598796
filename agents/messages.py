"""The values a conversation is made of, as the loop and the providers see them. No wire format, no storage."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class UserMessage:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallAsked:
    """A call the model wants. `error` says why its arguments could not be read; they are empty then."""

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCallAsked, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResultMessage:
    call_id: str
    name: str
    text: str
    is_error: bool = False


Message = UserMessage | AssistantMessage | ToolResultMessage
