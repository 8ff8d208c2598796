"""The values a conversation is made of, as the loop and the providers see them. No wire format, no storage."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Image:
    name: str
    mime_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file that is told about and not shown: `told` says what and where it is, or all that is in it."""

    name: str
    told: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """`text` is the person's own; what they attached stands apart from it."""

    text: str
    images: tuple[Image, ...] = ()
    files: tuple[AttachedFile, ...] = ()

    @property
    def words(self) -> str:
        """Everything of it that is text."""
        return "\n\n".join(part for part in (self.text, *(file.told for file in self.files)) if part)


@dataclass(frozen=True, slots=True)
class ToolCallRequest:
    """A call the model wants. `error` says why its arguments could not be read; they are empty then."""

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCallRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResultMessage:
    call_id: str
    name: str
    text: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


Message = UserMessage | AssistantMessage | ToolResultMessage
