"""Ask one model, with the retries that need no other API key or model.

Sits between the provider's stream and the loop: retries failures, extracts thinking tags from the text, and assigns message IDs
and attempt numbers. Nothing of a failed attempt remains in the answer.
"""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol

from agents.llm.base import (
    CallDelta,
    FailureKind,
    Finished,
    ModelProvider,
    ModelRequest,
    ProviderError,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from agents.llm.events import AskEvent, AttemptReset, MessageStarted, Replied
from agents.llm.thinking_tags import TagFilter
from clawsite.infra.text import make_storable

EARLY_RETRIES = 2  # for a provider that fails before sending anything
INTERRUPTED_RETRIES = 1  # for an interrupted stream; a second interruption is hardly a coincidence
FIRST_DELAY_S = 0.5  # then 2 s, each ±25%, so that many runs don't retry at the same time
MAX_RETRY_AFTER_S = 10.0  # for longer delays, another key or model is faster


class AttemptObserver(Protocol):
    """Observes attempts: `begin` once per attempt, then `answered` or `failed` unless it was canceled."""

    def begin(self, request: ModelRequest, attempt: int) -> ModelRequest: ...
    def succeeded(self, usage: Usage) -> None: ...
    def failed(self, kind: FailureKind) -> None: ...


async def ask_model(
    provider: ModelProvider,
    request: ModelRequest,
    *,
    new_id: Callable[[], str],
    sleep: Callable[[float], Awaitable[object]],
    watch: AttemptObserver | None = None,
) -> AsyncGenerator[AskEvent, None]:
    """Yield events from MessageStarted to Replied, or raise the last ProviderError with a list of the attempts."""
    message_id, attempt = new_id(), 1
    failures: list[ProviderError] = []
    yield MessageStarted(message_id, attempt)
    while True:
        spoke = False
        try:
            traced = watch.begin(request, attempt) if watch else request
            async with aclosing(_stream_attempt(provider, traced)) as events:
                async for event in events:
                    if isinstance(event, Finished):
                        if watch:
                            watch.succeeded(event.usage)
                        yield Replied(message_id, attempt, event.message, event.usage, request.model, event.finish_reason)
                        return
                    spoke = True
                    yield event
        except ProviderError as error:
            if watch:
                watch.failed(error.kind)
            failures.append(error)
            if (wait := _delay_before_retry(failures, spoke=spoke)) is None:
                raise _summarize_failures(failures) from error
            delay = wait
        attempt += 1
        yield AttemptReset(message_id, attempt, failures[-1].kind, delay)
        if delay:
            await sleep(delay)


def _delay_before_retry(failures: list[ProviderError], *, spoke: bool) -> float | None:
    """Return the seconds to wait before the next attempt, or None to give up."""
    last = failures[-1]
    match last.kind:
        case FailureKind.CUT:
            cuts = sum(failure.kind is FailureKind.CUT for failure in failures)
            return 0.0 if cuts <= INTERRUPTED_RETRIES else None
        case FailureKind.RATE_LIMIT | FailureKind.UNAVAILABLE | FailureKind.TIMEOUT:
            early = sum(failure.kind is not FailureKind.CUT for failure in failures)
            if spoke or early > EARLY_RETRIES or (last.retry_after or 0) > MAX_RETRY_AFTER_S:
                return None
            backoff: float = FIRST_DELAY_S * 4 ** (early - 1) * random.uniform(0.75, 1.25)  # noqa: S311  # jitter, not security
            return max(backoff, last.retry_after or 0)
    return None


def _summarize_failures(failures: list[ProviderError]) -> ProviderError:
    last = failures[-1]
    if len(failures) == 1:
        return last
    tried = ", ".join(failure.kind for failure in failures)
    message = f"{last.message} (gave up after {len(failures)} attempts: {tried})"
    return ProviderError(last.kind, message, status=last.status, retry_after=last.retry_after)


async def _stream_attempt(provider: ModelProvider, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
    """Stream from the provider, turning thinking that was written as text into thinking deltas."""
    tags = TagFilter()
    texts: list[str] = []
    thoughts: list[str] = []

    def to_deltas(visible: str, thinking: str) -> list[TextDelta | ThinkingDelta]:
        deltas: list[TextDelta | ThinkingDelta] = []
        if thinking:
            thoughts.append(thinking)
            deltas.append(ThinkingDelta(thinking))
        if visible:
            texts.append(visible)
            deltas.append(TextDelta(visible))
        return deltas

    async with aclosing(provider.stream(request)) as events:
        async for event in events:
            match event:
                case TextDelta(text):
                    for delta in to_deltas(*tags.feed(make_storable(text))):
                        yield delta
                case ThinkingDelta(text):
                    for delta in to_deltas("", make_storable(text)):
                        yield delta
                case CallDelta(text=text):
                    yield replace(event, text=make_storable(text))
                case Finished(message=message):
                    for delta in to_deltas(*tags.flush()):
                        yield delta
                    calls = tuple(replace(call, arguments=make_storable(call.arguments)) for call in message.tool_calls)
                    message = replace(message, text="".join(texts), thinking="".join(thoughts), tool_calls=calls)
                    if not message.text.strip() and not message.tool_calls:
                        raise ProviderError(
                            FailureKind.EMPTY, f"the model returned only thinking and no answer ({event.finish_reason})"
                        )
                    yield replace(event, message=message)
                    return
    raise ProviderError(FailureKind.CUT, "the stream ended before the answer was complete")
