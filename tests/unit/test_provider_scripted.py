"""The scripted model raises an error when a test and its script disagree."""

import pytest

from agents.llm.base import Finished, ModelRequest, ProviderError, StreamEvent, TextDelta, ThinkingDelta
from agents.llm.messages import UserMessage
from agents.llm.providers.scripted import ScriptedModel, calls, fails, says, thinks

REQUEST = ModelRequest(model="m", messages=(UserMessage("hi"),))


async def ask(model: ScriptedModel) -> list[StreamEvent]:
    return [event async for event in model.stream(REQUEST)]


async def test_script_is_streamed_step_by_step() -> None:
    model = ScriptedModel().script(thinks("hm") + says("a", "b"), calls("read", path="x"))
    first, second = await ask(model), await ask(model)
    assert first[:3] == [ThinkingDelta("hm"), TextDelta("a"), TextDelta("b")]
    assert isinstance(second[-1], Finished)
    assert second[-1].message.tool_calls[0].arguments == {"path": "x"}
    assert model.requests == [REQUEST, REQUEST]
    model.assert_used_up()


async def test_request_beyond_script_raises() -> None:
    model = ScriptedModel().script(says("once"))
    await ask(model)
    with pytest.raises(AssertionError, match="asked 2 times; its script has 1"):
        await ask(model)


async def test_unused_script_steps_raise() -> None:
    model = ScriptedModel().script(says("once"), says("twice"))
    await ask(model)
    with pytest.raises(AssertionError, match="asked 1 times; its script has 2"):
        model.assert_used_up()


async def test_script_can_fail_mid_stream() -> None:
    model = ScriptedModel().script(says("half") + fails("cut", "gone"))
    events = []
    with pytest.raises(ProviderError, match="gone"):
        async for event in model.stream(REQUEST):
            events.append(event)
    assert events == [TextDelta("half")]
