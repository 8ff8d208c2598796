"""One model call with its retries: what is retried, what is streamed, and what remains of a failed attempt."""

from collections.abc import Sequence

import pytest

from agents.llm.base import FailureKind, ModelRequest, ProviderError, TextDelta, ThinkingDelta
from agents.llm.events import AskEvent, AttemptReset, MessageStarted, Replied
from agents.llm.messages import UserMessage
from agents.llm.providers.scripted import ScriptedAnswer, ScriptedModel, calls, fails, says, thinks
from agents.llm.retry import ask_model

REQUEST = ModelRequest(model="fake-1", messages=(UserMessage("hello"),))


class Asking:
    """`ask_model` with a script, and a clock that doesn't wait."""

    def __init__(self, *steps: ScriptedAnswer) -> None:
        self.model = ScriptedModel().script(*steps)
        self.slept: list[float] = []
        self.events: list[AskEvent] = []

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def run(self) -> list[AskEvent]:
        async for event in ask_model(self.model, REQUEST, new_id=lambda: "m1", sleep=self._sleep):
            self.events.append(event)
        self.model.assert_used_up()
        return self.events

    async def failure(self) -> ProviderError:
        with pytest.raises(ProviderError) as caught:
            await self.run()
        self.model.assert_used_up()
        return caught.value


def shown_text(events: Sequence[AskEvent]) -> str:
    """Return what a client shows: a reset discards what came before."""
    text = ""
    for event in events:
        match event:
            case AttemptReset():
                text = ""
            case TextDelta(delta):
                text += delta
    return text


def reply_of(events: Sequence[AskEvent]) -> Replied:
    assert isinstance(events[-1], Replied)
    return events[-1]


async def test_reply_starts_with_message_id_and_ends_complete() -> None:
    events = await Asking(thinks("hm") + says("Hel", "lo")).run()
    assert events[:4] == [MessageStarted("m1", 1), ThinkingDelta("hm"), TextDelta("Hel"), TextDelta("lo")]
    reply = reply_of(events)
    assert (reply.message_id, reply.attempt, reply.model, reply.finish_reason) == ("m1", 1, "fake-1", "stop")
    assert (reply.message.text, reply.message.thinking) == ("Hello", "hm")


async def test_cut_stream_is_retried_without_repeating_text() -> None:
    asking = Asking(says("Half an ans") + fails("cut"), says("The whole answer"))
    events = await asking.run()
    assert AttemptReset("m1", 2, FailureKind.CUT, 0.0) in events
    assert shown_text(events) == "The whole answer" == reply_of(events).message.text
    assert reply_of(events).attempt == 2
    assert asking.slept == []


async def test_stream_cut_twice_is_abandoned() -> None:
    failure = await Asking(says("a") + fails("cut"), says("b") + fails("cut", "broke")).failure()
    assert failure.kind is FailureKind.CUT
    assert failure.message == "broke (gave up after 2 attempts: cut, cut)"


@pytest.mark.parametrize("kind", ["rate_limit", "unavailable", "timeout"])
async def test_busy_provider_gets_three_attempts_with_backoff(kind: str) -> None:
    asking = Asking(fails(kind), fails(kind), says("at last"))
    events = await asking.run()
    resets = [event for event in events if isinstance(event, AttemptReset)]
    assert [reset.attempt for reset in resets] == [2, 3]
    assert [reset.delay_s for reset in resets] == asking.slept
    first, second = asking.slept
    assert 0.3 < first < 0.7 < 1.4 < second < 2.6
    assert reply_of(events).attempt == 3


async def test_error_after_third_failure_lists_the_attempts() -> None:
    failure = await Asking(fails("timeout"), fails("unavailable"), fails("rate_limit", "slow down", status=429)).failure()
    assert failure.kind is FailureKind.RATE_LIMIT
    assert failure.status == 429
    assert failure.message == "slow down (gave up after 3 attempts: timeout, unavailable, rate_limit)"


@pytest.mark.parametrize("kind", ["rate_limit", "unavailable", "timeout"])
async def test_provider_failing_mid_reply_is_not_retried(kind: str) -> None:
    failure = await Asking(says("Well") + fails(kind, "no more")).failure()
    assert failure.message == "no more"


@pytest.mark.parametrize("kind", ["auth", "billing", "context_overflow", "format", "empty"])
async def test_permanent_failure_is_not_retried(kind: str) -> None:
    assert (await Asking(fails(kind)).failure()).kind == kind


async def test_retry_after_is_honoured_up_to_ten_seconds() -> None:
    asking = Asking(fails("rate_limit", retry_after=9.5), says("ok"))
    await asking.run()
    assert asking.slept == [9.5]


async def test_longer_retry_after_fails_immediately() -> None:
    failure = await Asking(fails("rate_limit", retry_after=11)).failure()
    assert failure.retry_after == 11


async def test_cut_streams_and_busy_providers_have_separate_retries() -> None:
    events = await Asking(fails("unavailable"), says("x") + fails("cut"), fails("unavailable"), says("ok")).run()
    assert reply_of(events).attempt == 4


async def test_thinking_tags_are_parsed_across_chunk_boundaries() -> None:
    events = await Asking(says("<thi", "nk>let me see</th", "ink>\n\nForty", "-two")).run()
    assert shown_text(events) == "Forty-two" == reply_of(events).message.text
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == "let me see"
    assert reply_of(events).message.thinking == "let me see"


async def test_text_buffered_as_possible_tag_is_not_lost() -> None:
    events = await Asking(says("a <thi")).run()
    assert shown_text(events) == "a <thi" == reply_of(events).message.text


async def test_failed_attempt_leaves_no_open_thinking_tag() -> None:
    events = await Asking(says("<think>half") + fails("cut"), says("clear")).run()
    assert reply_of(events).message.text == "clear"
    assert reply_of(events).message.thinking == ""


async def test_reply_with_only_thinking_is_empty() -> None:
    assert (await Asking(says("<think>never said")).failure()).kind is FailureKind.EMPTY


async def test_reply_with_only_tool_calls_is_valid() -> None:
    events = await Asking(calls("read", path="x")).run()
    assert reply_of(events).message.tool_calls[0].name == "read"
    assert reply_of(events).finish_reason == "tool_calls"


async def test_nul_characters_are_removed_from_replies() -> None:
    events = await Asking(thinks("h\0m") + says("a\0b") + calls("write", path="x", content="c\0d")).run()
    reply = reply_of(events)
    assert (reply.message.text, reply.message.thinking) == ("ab", "hm")
    assert reply.message.tool_calls[0].arguments == {"path": "x", "content": "cd"}
    assert shown_text(events) == "ab"
