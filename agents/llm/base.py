"""The interface of model providers: a request in, a stream of events out, failures by kind.

A provider makes one attempt and keeps no state between calls. `agents.llm.retry` retries; `agents.llm.catalog` chooses
provider and API key.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from agents.llm.messages import AssistantMessage, Message


class FailureKind(StrEnum):
    """Why a model did not answer; comments say what can help."""

    AUTH = "auth"  # another key
    RATE_LIMIT = "rate_limit"  # wait, or another key
    BILLING = "billing"  # another account
    TIMEOUT = "timeout"  # retry
    CONTEXT_OVERFLOW = "context_overflow"  # a shorter conversation
    FORMAT = "format"  # the request itself was rejected: a retry would be too
    UNAVAILABLE = "unavailable"  # retry, or another model
    CUT = "cut"  # the stream was interrupted: retry
    EMPTY = "empty"  # a complete answer with nothing in it


class ProviderError(Exception):
    """The model did not answer. The message is the provider's, shortened and without secrets."""

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
    """Timeouts in seconds. A thinking model may send nothing for long before its first byte, but rarely after it."""

    connect: float = 10.0
    first_byte: float = 120.0
    between_chunks: float = 60.0


@dataclass(frozen=True, slots=True)
class ModelRequest:
    model: str  # as the provider calls it
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)  # temperature etc., named as in chat completions
    thinking: str = ""  # minimal, low, medium, high, …; empty or "off" for the model's default
    credentials: Credentials = field(default_factory=Credentials)
    timeouts: Timeouts = field(default_factory=Timeouts)
    run_id: str = ""  # for the raw log only; never sent
    traceparent: str = ""  # header with the span of this call, if tracing is enabled


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts. `input_tokens` is the whole prompt, including tokens read from or written to a cache."""

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
    """A part of a tool call that is still being streamed: JSON text of its arguments, for display only."""

    index: int  # which call of this answer
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a successful stream; `message` repeats the deltas and adds the tool calls."""

    message: AssistantMessage
    usage: Usage
    finish_reason: str


StreamEvent = TextDelta | ThinkingDelta | CallDelta | Finished


class ModelProvider(Protocol):
    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Make one attempt. Ends with `Finished` or raises `ProviderError`; closing the generator closes the connection."""
        ...

    async def aclose(self) -> None:
        """Close connections. The provider can be used again afterwards."""
        ...
