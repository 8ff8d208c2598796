"""One question to one model, with the retries that need no other key and no other model.

Between the provider's stream and the loop: tries again what broke, takes thinking tags out of the text, and names messages
and attempts. Nothing of a failed attempt is left in the answer.
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

EARLY_RETRIES = 2  # for a provider that is busy or slow before it said anything
INTERRUPTED_RETRIES = 1  # for a stream that broke; a second break is no accident
FIRST_DELAY_S = 0.5  # then 2 s, each give or take a quarter, so that many runs do not come back at once
MAX_RETRY_AFTER_S = 10.0  # who asks for more than that is not waited for: another key or model is quicker


class AttemptObserver(Protocol):
    """Somebody who looks on: for each attempt one beginning, and one end unless it was given up."""

    def begin(self, request: ModelRequest, attempt: int) -> ModelRequest: ...
    def answered(self, usage: Usage) -> None: ...
    def failed(self, kind: FailureKind) -> None: ...


async def ask_model(
    provider: ModelProvider,
    request: ModelRequest,
    *,
    new_id: Callable[[], str],
    sleep: Callable[[float], Awaitable[object]],
    watch: AttemptObserver | None = None,
) -> AsyncGenerator[AskEvent, None]:
    """Begins with MessageStarted and ends with Replied, or raises the last ProviderError with what was tried."""
    message_id, attempt = new_id(), 1
    failures: list[ProviderError] = []
    yield MessageStarted(message_id, attempt)
    while True:
        spoke = False
        try:
            asked = watch.begin(request, attempt) if watch else request
            async with aclosing(_stream_attempt(provider, asked)) as events:
                async for event in events:
                    if isinstance(event, Finished):
                        if watch:
                            watch.answered(event.usage)
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
    """Seconds to wait before the next attempt; None to give up."""
    last = failures[-1]
    match last.kind:
        case FailureKind.CUT:
            cuts = sum(failure.kind is FailureKind.CUT for failure in failures)
            return 0.0 if cuts <= INTERRUPTED_RETRIES else None
        case FailureKind.RATE_LIMIT | FailureKind.UNAVAILABLE | FailureKind.TIMEOUT:
            early = sum(failure.kind is not FailureKind.CUT for failure in failures)
            if spoke or early > EARLY_RETRIES or (last.retry_after or 0) > MAX_RETRY_AFTER_S:
                return None
            backoff: float = FIRST_DELAY_S * 4 ** (early - 1) * random.uniform(0.75, 1.25)  # noqa: S311  # spreads load, keeps no secret
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
    """The provider's stream with the thinking that was written as text turned into thinking."""
    tags = TagFilter()
    texts: list[str] = []
    thoughts: list[str] = []

    def told(visible: str, thinking: str) -> list[TextDelta | ThinkingDelta]:
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
                    for delta in told(*tags.feed(make_storable(text))):
                        yield delta
                case ThinkingDelta(text):
                    for delta in told("", make_storable(text)):
                        yield delta
                case CallDelta(text=text):
                    yield replace(event, text=make_storable(text))
                case Finished(message=message):
                    for delta in told(*tags.flush()):
                        yield delta
                    calls = tuple(replace(call, arguments=make_storable(call.arguments)) for call in message.tool_calls)
                    message = replace(message, text="".join(texts), thinking="".join(thoughts), tool_calls=calls)
                    if not message.text.strip() and not message.tool_calls:
                        raise ProviderError(
                            FailureKind.EMPTY, f"the model only thought, and did not answer ({event.finish_reason})"
                        )
                    yield replace(event, message=message)
                    return
    raise ProviderError(FailureKind.CUT, "the stream ended before the answer was complete")
