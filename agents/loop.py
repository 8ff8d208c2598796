"""The agent loop: ask the model, run the tool calls it requests, ask again.

Pure: the model is `ask`, the tools are `use`, and everything that happens is yielded as an event. The loop stores nothing:
`record` stores each answer before it is yielded, and `use` each step of a tool call. The loop continues from the stored history,
so any worker can continue a run whose worker died.
"""

import base64
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TypeVar

from agents.llm.base import Usage
from agents.llm.events import AskEvent, Replied
from agents.llm.messages import AssistantMessage, Image, Message, ToolCallRequest, ToolResultMessage, UserMessage
from tools_app.core.definition import ImageBlock, ToolEnded, ToolEvent, ToolResult
from tools_app.loop_guard import CompletedCall


@dataclass(frozen=True, slots=True)
class Parked:
    """Nothing is in flight and calls wait for approval or for a result that comes later; the loop is started again then.

    The reason is "approval" or the kind of the deferral.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The client has to make the remaining calls of the last answer; it sends the results with its next message."""

    calls: tuple[ToolCallRequest, ...]


@dataclass(frozen=True, slots=True)
class TurnsUsedUp:
    limit: int


UseEvent = ToolEvent | Parked
LoopEvent = AskEvent | UseEvent | HandedOver | TurnsUsedUp
Ask = Callable[[Sequence[Message]], AsyncGenerator[AskEvent, None]]
Decisions = TypeVar("Decisions")
# Stores an answer to these messages and decides its tool calls.
Record = Callable[[Replied, Sequence[Message]], Awaitable[Decisions]]
# Runs tool calls that follow these messages. The decisions are None if the calls were left by an earlier worker.
Use = Callable[[Sequence[ToolCallRequest], Sequence[Message], Decisions | None], AsyncGenerator[UseEvent, None]]
# Returns messages that arrived since the last model call. It has stored them, so they are also in the history of a loop that
# starts again.
Steer = Callable[[], Awaitable[Sequence[UserMessage]]]
IsClientTool = Callable[[ToolCallRequest], bool]

# OpenAI rejects longer IDs when they are sent back; some providers put kilobytes into them.
MAX_CALL_ID_LENGTH = 40
SHORT_CALL_ID_LENGTH = 16  # leaves room to append the run's number
MISSING_RESULT_TEXT = "No result was recorded: the run ended before this call did. Whether it had an effect is unknown."


async def no_messages() -> Sequence[UserMessage]:
    return ()


async def converse(
    history: Sequence[Message],
    *,
    ask: Ask,
    record: Record[Decisions],
    use: Use[Decisions],
    steer: Steer = no_messages,
    max_turns: int = 50,
    is_callers: IsClientTool = lambda call: False,
    id_mark: str = "",
) -> AsyncGenerator[LoopEvent, None]:
    """Continue from `history` until the model answers without a tool call, a call parks, or the turn limit is reached.

    Calls to client tools are not run here: once all other calls have results, they end the loop with `HandedOver`.
    `steer` is called only if the model is asked next: a loop that parks leaves the messages for the one that continues.
    """
    messages = normalize_history(history)
    decisions: Decisions | None = None
    while True:
        if calls := find_unanswered_calls(messages):
            results: list[ToolResultMessage] = []
            ours = [call for call in calls if not is_callers(call)]
            async with aclosing(use(ours, messages, decisions)) as events:
                async for event in events:
                    yield event
                    match event:
                        case Parked():
                            return
                        case ToolEnded(call, result):
                            results.append(ToolResultMessage(call.id, call.name, result.text, result.is_error, _images(result)))
            messages = normalize_history([*messages, *results])
            if missing := find_unanswered_calls(messages):
                if not all(is_callers(call) for call in missing):
                    raise RuntimeError(f"tool calls ended without a result: {[call.id for call in missing]}")
                yield HandedOver(tuple(missing))
                return
        elif messages and isinstance(messages[-1], AssistantMessage):
            return
        if count_turns(messages) >= max_turns:
            yield TurnsUsedUp(max_turns)
            return
        if arrived := await steer():
            messages = normalize_history([*messages, *arrived])
        answered = False
        async with aclosing(ask(messages)) as answer:
            async for ask_event in answer:
                if isinstance(ask_event, Replied):
                    ask_event = replace(ask_event, message=make_call_ids_unique(ask_event.message, messages, id_mark))
                    decisions = await record(ask_event, messages)
                    messages, answered = [*messages, ask_event.message], True
                yield ask_event
        if not answered:
            raise RuntimeError("the model's stream ended without an answer")


async def run_single_call(
    history: Sequence[Message],
    call: ToolCallRequest,
    *,
    new_id: Callable[[], str],
    record: Record[Decisions],
    use: Use[Decisions],
    id_mark: str = "",
) -> AsyncGenerator[LoopEvent, None]:
    """Run one tool call requested by a person, without a model: record it as an answer with that call, then run it.

    The history ends with the request or, if the run was recovered from a dead worker, with the call.
    """
    messages = normalize_history(history)
    decisions: Decisions | None = None
    if messages and isinstance(messages[-1], UserMessage):
        message = make_call_ids_unique(AssistantMessage(text="", tool_calls=(call,)), messages, id_mark)
        reply = Replied(new_id(), 1, message, Usage(), model="", finish_reason="invoked")
        decisions = await record(reply, messages)
        yield reply
        messages = [*messages, message]
    if calls := find_unanswered_calls(messages):
        async with aclosing(use(calls, messages, decisions)) as events:
            async for event in events:
                yield event


def find_unanswered_calls(messages: Sequence[Message]) -> list[ToolCallRequest]:
    """Return the calls of the last answer that have no result yet, in the model's order."""
    answered: set[str] = set()
    for message in reversed(messages):
        match message:
            case ToolResultMessage(call_id=call_id):
                answered.add(call_id)
            case AssistantMessage(tool_calls=calls):
                return [call for call in calls if call.id not in answered]
            case UserMessage():
                return []  # a newer user message: open calls belong to a run that ended
    return []


def fill_missing_results(before: Sequence[Message], own: Sequence[Message]) -> list[Message] | None:
    """Build the history of a run that starts with client tool results; calls without a result get MISSING_RESULT_TEXT.

    Return None if the results answer no open call because another message came in between.
    """
    if any(isinstance(message, AssistantMessage) for message in own):
        return [*before, *own]  # the model has already seen the results
    history = normalize_history([*before, *own])
    missing = [ToolResultMessage(call.id, call.name, MISSING_RESULT_TEXT, is_error=True) for call in find_unanswered_calls(history)]
    history = normalize_history([*history, *missing])
    return history if history and isinstance(history[-1], ToolResultMessage) else None


def count_turns(messages: Sequence[Message]) -> int:
    """Count answers since the last user message. Uses the history, so a recovered run doesn't get a fresh limit."""
    turns = 0
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            break
        turns += isinstance(message, AssistantMessage)
    return turns


def list_steps(messages: Sequence[Message]) -> list[CompletedCall]:
    """Return the completed calls since the last user message, oldest first."""
    steps: list[CompletedCall] = []
    results: dict[str, ToolResultMessage] = {}
    for message in reversed(messages):
        match message:
            case ToolResultMessage():
                results[message.call_id] = message
            case AssistantMessage(tool_calls=calls):
                answered = [(call, results[call.id]) for call in reversed(calls) if call.id in results]
                steps += [CompletedCall(call.name, call.arguments, result.text, result.is_error) for call, result in answered]
            case UserMessage():
                break
    return steps[::-1]


def _images(result: ToolResult) -> tuple[Image, ...]:
    blocks = (block for block in result.content if isinstance(block, ImageBlock))
    return tuple(Image(block.name, block.mime_type, base64.b64decode(block.data)) for block in blocks)


def make_call_ids_unique(message: AssistantMessage, history: Iterable[Message], mark: str = "") -> AssistantMessage:
    """Give the answer's calls IDs that are unique in the session; providers repeat IDs or send none.

    If the history is incomplete, `mark`, which identifies the run, is appended to IDs too short to be unique by chance.
    """
    if not message.tool_calls:
        return message
    taken = {call.id for earlier in history if isinstance(earlier, AssistantMessage) for call in earlier.tool_calls}
    calls = []
    for call in message.tool_calls:
        wanted = call.id[:MAX_CALL_ID_LENGTH] or f"call_{len(taken) + 1}"
        wanted += mark if len(wanted) < SHORT_CALL_ID_LENGTH else ""
        unique, number = wanted, 1
        while unique in taken:
            number += 1
            suffix = f"_{number}"
            unique = wanted[: MAX_CALL_ID_LENGTH - len(suffix)] + suffix
        taken.add(unique)
        calls.append(call if unique == call.id else replace(call, id=unique))
    return replace(message, tool_calls=tuple(calls))


def normalize_history(history: Iterable[Message]) -> list[Message]:
    """Return the history in the form every provider accepts: each answer is followed by its results, in the model's order.

    Results are stored as they arrive, runs end in mid-turn, and the history window cuts off the beginning. So results are
    sorted, results without a call are dropped, and calls that will never run get a result that says so.
    """
    normalized: list[Message] = []
    calls: tuple[ToolCallRequest, ...] = ()  # of the last answer
    results: dict[str, ToolResultMessage] = {}
    later_messages: list[Message] = []  # user messages, possibly stored between a call and its result; moved after the results

    def close(*, finished: bool) -> None:
        for call in calls:
            if call.id in results:
                normalized.append(results[call.id])
            elif finished:
                normalized.append(ToolResultMessage(call.id, call.name, MISSING_RESULT_TEXT, is_error=True))
        normalized.extend(later_messages)

    for message in history:
        match message:
            case ToolResultMessage():
                results.setdefault(message.call_id, message)
            case UserMessage():
                later_messages.append(message)
            case AssistantMessage():
                close(finished=True)
                normalized.append(message)
                calls, results, later_messages = message.tool_calls, {}, []
    close(finished=bool(later_messages))
    return normalized
