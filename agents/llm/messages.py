"""The messages of a conversation as the loop and the providers see them. No wire format, no storage."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Image:
    name: str
    mime_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """An attached file as text: `description` names it and its path, or contains all of its content."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """`text` is what the user wrote; attachments are separate."""

    text: str
    images: tuple[Image, ...] = ()
    files: tuple[AttachedFile, ...] = ()

    @property
    def full_text(self) -> str:
        """The text with the descriptions of attached files."""
        return "\n\n".join(part for part in (self.text, *(file.description for file in self.files)) if part)


@dataclass(frozen=True, slots=True)
class ToolCallRequest:
    """A tool call requested by the model. If its arguments could not be read, they are empty and `error` says why."""

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
