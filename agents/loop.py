"""The conversation itself: ask the model, carry out the tool calls it wants, ask again.

It thinks and does nothing else. The model is `ask`, the tools are `use`, what happens leaves as events. It stores nothing:
given the history stored so far it goes on where that ends, so a run may die and be continued anywhere.
"""

import base64
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from agents.llm.base import Usage
from agents.llm.events import AskEvent, Replied
from agents.llm.messages import AssistantMessage, Image, Message, ToolCallRequest, ToolResultMessage, UserMessage
from tools_app.core.definition import ImageBlock, ToolEnded, ToolResult, ToolStarted, ToolUpdated
from tools_app.loop_guard import CompletedCall


@dataclass(frozen=True, slots=True)
class Parked:
    """Nothing is in flight and a call waits for people or children: the conversation goes on in another run of the loop."""

    reason: str


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What is left of the last answer is for whoever asked to carry out: the results come with their next message."""

    calls: tuple[ToolCallRequest, ...]


@dataclass(frozen=True, slots=True)
class TurnsUsedUp:
    limit: int


UseEvent = ToolStarted | ToolUpdated | ToolEnded | Parked
LoopEvent = AskEvent | UseEvent | HandedOver | TurnsUsedUp
Ask = Callable[[Sequence[Message]], AsyncGenerator[AskEvent, None]]
Use = Callable[[Sequence[ToolCallRequest]], AsyncGenerator[UseEvent, None]]
IsClientTool = Callable[[ToolCallRequest], bool]

# OpenAI refuses longer ids when they come back; others have been seen to hide kilobytes in them.
MAX_CALL_ID_LENGTH = 40
SHORT_CALL_ID_LENGTH = 16  # a run's number fits behind it
MISSING_RESULT_TEXT = "No result was recorded: the run ended before this call did. Whether it had an effect is unknown."


async def converse(
    history: Sequence[Message],
    *,
    ask: Ask,
    use: Use,
    max_turns: int = 50,
    is_callers: IsClientTool = lambda call: False,
    id_mark: str = "",
) -> AsyncGenerator[LoopEvent, None]:
    """Go on from `history` until the model answers without a tool call, a call parks, or the turns are used up.

    Calls of tools that the caller has are not used here: they end the conversation for now, when all others have their results.
    """
    messages = normalize_history(history)
    while True:
        if calls := find_unanswered_calls(messages):
            results: list[ToolResultMessage] = []
            ours = [call for call in calls if not is_callers(call)]
            async with aclosing(use(ours)) as events:
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
        reply = None
        async with aclosing(ask(messages)) as answer:
            async for said in answer:
                if isinstance(said, Replied):
                    said = reply = replace(said, message=make_call_ids_unique(said.message, messages, id_mark))
                yield said
        if reply is None:
            raise RuntimeError("the model's stream ended without an answer")
        messages = [*messages, reply.message]


async def run_single_call(
    history: Sequence[Message], call: ToolCallRequest, *, new_id: Callable[[], str], use: Use, id_mark: str = ""
) -> AsyncGenerator[LoopEvent, None]:
    """One call that a person wants, and no model: written down as an answer that asks for it, then carried out.

    The history ends with the wish, or, when the run goes on after a death, with the call.
    """
    messages = normalize_history(history)
    if messages and isinstance(messages[-1], UserMessage):
        asked = make_call_ids_unique(AssistantMessage(text="", tool_calls=(call,)), messages, id_mark)
        yield Replied(new_id(), 1, asked, Usage(), model="", finish_reason="invoked")
        messages = [*messages, asked]
    if calls := find_unanswered_calls(messages):
        async with aclosing(use(calls)) as events:
            async for event in events:
                yield event


def find_unanswered_calls(messages: Sequence[Message]) -> list[ToolCallRequest]:
    """The calls of the last answer that have no result yet, in the model's order."""
    answered: set[str] = set()
    for message in reversed(messages):
        match message:
            case ToolResultMessage(call_id=call_id):
                answered.add(call_id)
            case AssistantMessage(tool_calls=calls):
                return [call for call in calls if call.id not in answered]
            case UserMessage():
                return []  # somebody has spoken since: whatever is open belongs to a run that ended
    return []


def fill_missing_results(before: Sequence[Message], own: Sequence[Message]) -> list[Message] | None:
    """The history of a run that begins with results of its caller's tools. A call for which none came is told to have none.

    None if they answer nothing: somebody has spoken in between.
    """
    if any(isinstance(message, AssistantMessage) for message in own):
        return [*before, *own]  # the model has had them already
    history = normalize_history([*before, *own])
    missing = [ToolResultMessage(call.id, call.name, MISSING_RESULT_TEXT, is_error=True) for call in find_unanswered_calls(history)]
    history = normalize_history([*history, *missing])
    return history if history and isinstance(history[-1], ToolResultMessage) else None


def count_turns(messages: Sequence[Message]) -> int:
    """Answers since the user last spoke. Counted from the history, so that a continued run gets no fresh allowance."""
    turns = 0
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            break
        turns += isinstance(message, AssistantMessage)
    return turns


def list_steps(messages: Sequence[Message]) -> list[CompletedCall]:
    """The calls since the user last spoke that have a result, oldest first."""
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
    shown = (block for block in result.content if isinstance(block, ImageBlock))
    return tuple(Image(block.name, block.mime_type, base64.b64decode(block.data)) for block in shown)


def make_call_ids_unique(message: AssistantMessage, history: Iterable[Message], mark: str = "") -> AssistantMessage:
    """The answer with call ids that nothing in the conversation has yet; providers repeat them or send none.

    Where the history is not all of the conversation, a `mark` of the run makes ids unique that are too short to be so by chance.
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
    """The history as every provider accepts it: behind an answer the results of its calls, in the model's order.

    Results are stored as they arrive, runs end in the middle of a turn, a window cuts off the beginning. So results are put
    in order, those without their call are left out, and a call nobody will carry out any more gets a result that says so.
    """
    tidy: list[Message] = []
    calls: tuple[ToolCallRequest, ...] = ()  # of the last answer
    results: dict[str, ToolResultMessage] = {}
    said_since: list[Message] = []  # may have been stored between a call and its result, and comes behind them

    def close(*, finished: bool) -> None:
        for call in calls:
            if call.id in results:
                tidy.append(results[call.id])
            elif finished:
                tidy.append(ToolResultMessage(call.id, call.name, MISSING_RESULT_TEXT, is_error=True))
        tidy.extend(said_since)

    for message in history:
        match message:
            case ToolResultMessage():
                results.setdefault(message.call_id, message)
            case UserMessage():
                said_since.append(message)
            case AssistantMessage():
                close(finished=True)
                tidy.append(message)
                calls, results, said_since = message.tool_calls, {}, []
    close(finished=bool(said_since))
    return tidy
