"""The loop with tools of the caller: ours run, theirs end it, and their results start the next run."""

from collections.abc import AsyncGenerator

from agents.llm.base import Usage
from agents.llm.events import MessageStarted, Replied
from agents.llm.messages import AssistantMessage, ToolCallRequest, ToolResultMessage, UserMessage
from agents.loop import MISSING_RESULT_TEXT, HandedOver, converse, fill_missing_results
from tools_app.core.definition import CallRef, ToolEnded, text_result

OURS, THEIRS = ToolCallRequest("o", "read"), ToolCallRequest("t", "weather")


async def said_by(answers, history):
    """Return the events of a conversation with a model that gives these answers; `used` collects the executed calls."""
    used: list[str] = []
    left = list(answers)

    async def ask(messages) -> AsyncGenerator:
        yield MessageStarted("m", 1)
        yield Replied("m", 1, left.pop(0), Usage(), "x", "stop")

    async def record(reply, messages) -> None:
        return None

    async def use(calls, messages, decisions) -> AsyncGenerator:
        for call in calls:
            used.append(call.id)
            yield ToolEnded(CallRef(call.id, call.name, {}), text_result("done"))

    def theirs(call) -> bool:
        return call.name == "weather"

    events = [event async for event in converse(history, ask=ask, record=record, use=use, is_callers=theirs)]
    return events, used


async def test_own_tools_are_executed_and_caller_tools_handed_over():
    events, used = await said_by([AssistantMessage(tool_calls=(THEIRS, OURS))], [UserMessage("hi")])
    assert used == ["o"]
    assert events[-1] == HandedOver((THEIRS,))


async def test_resumed_conversation_hands_over_its_pending_calls():
    history = [UserMessage("hi"), AssistantMessage(tool_calls=(THEIRS,))]
    events, used = await said_by([], history)
    assert (events, used) == ([HandedOver((THEIRS,))], [])


async def test_caller_results_continue_the_conversation():
    before = [UserMessage("hi"), AssistantMessage(tool_calls=(THEIRS,))]
    history = fill_missing_results(before, [ToolResultMessage("t", "weather", "rain")])
    events, used = await said_by([AssistantMessage("take an umbrella")], history)
    assert (events[-1].message.text, used) == ("take an umbrella", [])


def test_missing_caller_results_are_filled_and_late_ones_refused():
    before = [UserMessage("hi"), AssistantMessage(tool_calls=(THEIRS, ToolCallRequest("u", "weather")))]
    history = fill_missing_results(before, [ToolResultMessage("t", "weather", "rain")])
    assert [message.text for message in history[-2:]] == ["rain", MISSING_RESULT_TEXT]
    gone_on = [*before, UserMessage("never mind"), AssistantMessage("fine")]
    assert fill_missing_results(gone_on, [ToolResultMessage("t", "weather", "rain")]) is None
