"""What every model provider looks like: a request in, a stream of events out, failures by kind.

A provider makes one attempt and keeps no conversation. Trying again is `agents.llm.retry`; who may be asked with which
key is `agents.llm.catalog`.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from agents.llm.messages import AssistantMessage, Message


class FailureKind(StrEnum):
    """Why a model did not answer, by what can be done about it."""

    AUTH = "auth"  # another key
    RATE_LIMIT = "rate_limit"  # later, or another key
    BILLING = "billing"  # another account
    TIMEOUT = "timeout"  # again
    CONTEXT_OVERFLOW = "context_overflow"  # a shorter conversation
    FORMAT = "format"  # the request itself is refused: again would be refused again
    UNAVAILABLE = "unavailable"  # again, or another model
    CUT = "cut"  # the stream broke off: again
    EMPTY = "empty"  # a complete answer with nothing in it


class ProviderError(Exception):
    """The model did not answer. The message holds the provider's own words, shortened and without secrets."""

    def __init__(self, kind: FailureKind, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.retry_after = retry_after  # seconds


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as offered to the model; `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Credentials:
    api_key: str = field(default="", repr=False)  # never in a log or a traceback
    base_url: str = ""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. A model that thinks may be silent for long before its first byte, hardly ever after it."""

    connect: float = 10.0
    first_byte: float = 120.0
    between_chunks: float = 60.0


@dataclass(frozen=True, slots=True)
class ModelRequest:
    model: str  # as the provider calls it
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)  # temperature and the like, by their names in chat completions
    thinking: str = ""  # minimal, low, medium, high, …; empty or "off": the model's own default
    credentials: Credentials = field(default_factory=Credentials)
    timeouts: Timeouts = field(default_factory=Timeouts)
    run_id: str = ""  # for the raw log only; never sent
    traceparent: str = ""  # sent as a header: the span of this call, where spans are sent anywhere


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. `input_tokens` is the whole prompt: what was read from or written to a cache is part of it."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of a tool call that is still being written: JSON text of its arguments, to be shown and not to be acted on."""

    index: int  # which call of this answer
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a stream that worked; `message` repeats the deltas and adds the tool calls."""

    message: AssistantMessage
    usage: Usage
    finish_reason: str


StreamEvent = TextDelta | ThinkingDelta | CallDelta | Finished


class ModelProvider(Protocol):
    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Ask once. Ends with `Finished` or raises `ProviderError`; closing the generator closes the connection."""
        ...

    async def aclose(self) -> None:
        """Give back connections. The provider may be used again afterwards."""
        ...
