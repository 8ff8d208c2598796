"""The loop: what is requested when, which calls run, and where it continues after an interruption."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.llm.base import FailureKind, ProviderError, TextDelta, Usage
from agents.llm.events import AskEvent, MessageStarted, Replied
from agents.llm.messages import AssistantMessage, Message, ToolCallRequest, ToolResultMessage, UserMessage
from agents.loop import (
    MAX_CALL_ID_LENGTH,
    MISSING_RESULT_TEXT,
    LoopEvent,
    Parked,
    TurnsUsedUp,
    UseEvent,
    converse,
    find_unanswered_calls,
    make_call_ids_unique,
    normalize_history,
)
from tools_app.core.definition import CallRef, ToolEnded, ToolStarted, text_result

HELLO = UserMessage("hello")


def call(call_id: str, name: str = "read") -> ToolCallRequest:
    return ToolCallRequest(call_id, name, {"path": call_id})


def wants(*call_ids: str) -> AssistantMessage:
    return AssistantMessage("", tool_calls=tuple(call(call_id) for call_id in call_ids))


def result(call_id: str, text: str | None = None) -> ToolResultMessage:
    return ToolResultMessage(call_id, "read", f"result of {call_id}" if text is None else text)


class World:
    """A model with its answers in order, and tools that finish in any given order."""

    def __init__(self, *answers: AssistantMessage, park_on: str = "", last_first: bool = False, arriving: str = "") -> None:
        self.answers = list(answers)
        self.asked_with: list[list[Message]] = []
        self.used: list[list[str]] = []
        self.closed: list[str] = []
        self.arrived: list[UserMessage] = []
        self._arriving = arriving  # a message that arrives while the tools run
        self._park_on = park_on
        self._last_first = last_first

    async def ask(self, messages: Sequence[Message]) -> AsyncGenerator[AskEvent, None]:
        try:
            self.asked_with.append(list(messages))
            answer = self.answers.pop(0)
            number = f"m{len(self.asked_with)}"
            yield MessageStarted(number, 1)
            if answer.text:
                yield TextDelta(answer.text)
            yield Replied(number, 1, answer, Usage(), "demo/test", "stop")
        finally:
            self.closed.append("ask")

    async def record(self, reply: Replied, messages: Sequence[Message]) -> str:
        assert list(messages) == self.asked_with[-1]
        return f"decisions of {reply.message_id}"

    async def use(
        self, calls: Sequence[ToolCallRequest], messages: Sequence[Message], decisions: str | None
    ) -> AsyncGenerator[UseEvent, None]:
        try:
            assert list(calls) == find_unanswered_calls(messages)
            assert decisions == (f"decisions of m{len(self.asked_with)}" if self.asked_with else None)
            self.used.append([each.id for each in calls])
            if self._arriving:
                self.arrived.append(UserMessage(self._arriving))
            for each in reversed(calls) if self._last_first else calls:
                ref = CallRef(each.id, each.name, each.arguments)
                if each.id == self._park_on:
                    yield Parked("approval")
                    continue
                yield ToolStarted(ref)
                yield ToolEnded(ref, text_result(f"result of {each.id}"))
        finally:
            self.closed.append("use")

    async def steer(self) -> Sequence[UserMessage]:
        taken, self.arrived = self.arrived, []
        return taken

    async def converse(self, *history: Message, max_turns: int = 50) -> list[LoopEvent]:
        loop = converse(history, ask=self.ask, record=self.record, use=self.use, steer=self.steer, max_turns=max_turns)
        return [event async for event in loop]


def journal_of(events: Sequence[LoopEvent]) -> list[Message]:
    """Return what the runner would have stored: answers and results, in order."""
    stored: list[Message] = []
    for event in events:
        match event:
            case Replied(message=message):
                stored.append(message)
            case ToolEnded(ref, outcome):
                stored.append(ToolResultMessage(ref.id, ref.name, outcome.text, outcome.is_error))
    return stored


async def test_reply_without_tool_calls_ends_the_loop() -> None:
    world = World(AssistantMessage("hi"))
    events = await world.converse(HELLO)
    assert [type(event) for event in events] == [MessageStarted, TextDelta, Replied]
    assert world.asked_with == [[HELLO]]
    assert world.used == []


async def test_tool_results_are_sent_before_the_next_request() -> None:
    world = World(wants("a", "b"), AssistantMessage("done"))
    await world.converse(HELLO)
    assert world.used == [["a", "b"]]
    assert world.asked_with[1] == [HELLO, wants("a", "b"), result("a"), result("b")]


async def test_tool_results_keep_the_order_of_the_calls() -> None:
    world = World(wants("a", "b", "c"), AssistantMessage("done"), last_first=True)
    await world.converse(HELLO)
    assert world.asked_with[1][2:] == [result("a"), result("b"), result("c")]


async def test_resumed_run_executes_only_the_missing_calls() -> None:
    world = World(AssistantMessage("done"))
    await world.converse(HELLO, wants("a", "b", "c"), result("b"))
    assert world.used == [["a", "c"]]
    assert world.asked_with[0][2:] == [result("a"), result("b"), result("c")]


async def test_parked_tool_call_ends_the_loop() -> None:
    world = World(wants("a", "b"), park_on="b")
    events = await world.converse(HELLO)
    assert events[-1] == Parked("approval")
    assert len(world.asked_with) == 1
    assert world.closed == ["ask", "use"]


async def test_steered_message_is_included_in_the_next_request() -> None:
    world = World(wants("a"), AssistantMessage("done"), arriving="and b")
    await world.converse(HELLO)
    assert world.asked_with == [[HELLO], [HELLO, wants("a"), result("a"), UserMessage("and b")]]


async def test_steered_message_that_arrived_before_the_first_request_is_included_in_it() -> None:
    world = World(AssistantMessage("done"))
    world.arrived = [UserMessage("in a hurry")]
    await world.converse(HELLO)
    assert world.asked_with == [[HELLO, UserMessage("in a hurry")]]


async def test_parked_loop_leaves_steered_messages_for_its_continuation() -> None:
    parked = World(wants("a"), park_on="a", arriving="and b")
    assert (await parked.converse(HELLO))[-1] == Parked("approval")
    assert parked.arrived == [UserMessage("and b")]
    resumed = World(AssistantMessage("done"))
    resumed.arrived = parked.arrived
    await resumed.converse(HELLO, wants("a"))
    assert resumed.asked_with == [[HELLO, wants("a"), result("a"), UserMessage("and b")]]


async def test_loop_out_of_turns_leaves_steered_messages() -> None:
    world = World(wants("a"), arriving="and b")
    events = await world.converse(HELLO, max_turns=1)
    assert (events[-1], world.arrived) == (TurnsUsedUp(1), [UserMessage("and b")])


async def test_steered_message_gets_its_own_turns() -> None:
    world = World(wants("a"), wants("b"), AssistantMessage("done"), arriving="and b")
    events = await world.converse(HELLO, max_turns=2)
    assert isinstance(events[-1], Replied)


async def test_history_ending_with_a_reply_sends_no_request() -> None:
    world = World()
    assert await world.converse(HELLO, AssistantMessage("hi")) == []


async def test_number_of_turns_is_limited() -> None:
    world = World(wants("a"), wants("b"), wants("c"))
    events = await world.converse(HELLO, max_turns=2)
    assert events[-1] == TurnsUsedUp(2)
    assert len(world.asked_with) == 2


async def test_resumed_run_keeps_its_turn_count() -> None:
    world = World()
    events = await world.converse(HELLO, wants("a"), result("a"), wants("b"), max_turns=2)
    assert world.used == [["b"]]
    assert events[-1] == TurnsUsedUp(2)


async def test_next_user_message_gets_its_own_turns() -> None:
    world = World(AssistantMessage("done"))
    events = await world.converse(HELLO, wants("a"), result("a"), UserMessage("and now?"), max_turns=1)
    assert isinstance(events[-1], Replied)


async def test_pending_calls_of_an_ended_run_are_not_executed() -> None:
    world = World(AssistantMessage("fine"))
    await world.converse(HELLO, wants("a", "b"), result("a"), UserMessage("never mind"))
    assert world.used == []
    assert world.asked_with[0][2:] == [
        result("a"),
        ToolResultMessage("b", "read", MISSING_RESULT_TEXT, True),
        UserMessage("never mind"),
    ]


def test_new_user_message_leaves_no_unanswered_calls() -> None:
    assert find_unanswered_calls([HELLO, wants("a")]) == [call("a")]
    assert find_unanswered_calls([HELLO, wants("a"), UserMessage("never mind")]) == []


async def test_unparsable_arguments_reach_the_tool_executor() -> None:
    broken = ToolCallRequest("a", "read", {}, error="not valid JSON")
    seen: list[ToolCallRequest] = []
    world = World(AssistantMessage("", tool_calls=(broken,)), AssistantMessage("sorry"))

    async def use(calls: Sequence[ToolCallRequest], *_: object) -> AsyncGenerator[UseEvent, None]:
        seen.extend(calls)
        for each in calls:
            yield ToolEnded(CallRef(each.id, each.name, {}), text_result(each.error, is_error=True))

    events = [event async for event in converse([HELLO], ask=world.ask, record=world.record, use=use)]
    assert seen == [broken]
    assert world.asked_with[1][-1] == ToolResultMessage("a", "read", "not valid JSON", True)
    assert isinstance(events[-1], Replied)


async def test_empty_and_duplicate_call_ids_are_made_unique_first() -> None:
    world = World(wants("x", "x", ""), wants("x"), AssistantMessage("done"))
    events = await world.converse(HELLO)
    ids = [each.id for event in events if isinstance(event, Replied) for each in event.message.tool_calls]
    assert len(set(ids)) == 4
    assert all(ids)
    assert world.used == [ids[:3], ids[3:]]
    results = [each.call_id for each in world.asked_with[-1] if isinstance(each, ToolResultMessage)]
    assert results == ids


async def test_tool_without_a_result_raises_an_error() -> None:
    async def use(calls: Sequence[ToolCallRequest], *_: object) -> AsyncGenerator[UseEvent, None]:
        yield ToolStarted(CallRef(calls[0].id, "read", {}))

    with pytest.raises(RuntimeError, match="without a result"):
        _ = [event async for event in converse([HELLO, wants("a")], ask=World().ask, record=World().record, use=use)]


async def test_model_failure_is_raised_unchanged() -> None:
    async def ask(messages: Sequence[Message]) -> AsyncGenerator[AskEvent, None]:
        yield MessageStarted("m1", 1)
        raise ProviderError(FailureKind.AUTH, "no key")

    with pytest.raises(ProviderError):
        _ = [event async for event in converse([HELLO], ask=ask, record=World().record, use=World().use)]


async def test_cancelling_the_loop_closes_the_model_stream() -> None:
    closed = asyncio.Event()
    listening = asyncio.Event()

    async def ask(messages: Sequence[Message]) -> AsyncGenerator[AskEvent, None]:
        try:
            yield MessageStarted("m1", 1)
            listening.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def read() -> None:
        async for _ in converse([HELLO], ask=ask, record=World().record, use=World().use):
            pass

    task = asyncio.create_task(read())
    await listening.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed.is_set()


# ---------------------------------------------------------------- properties

turns = st.lists(st.lists(st.sampled_from(["a", "b", "c", "", "d" * 60]), min_size=1, max_size=4), max_size=4)


@settings(deadline=None)
@given(turns=turns, last_first=st.booleans(), data=st.data())
def test_run_can_be_resumed_after_any_stored_step(turns: list[list[str]], last_first: bool, data: st.DataObject) -> None:
    answers = [wants(*ids) for ids in turns] + [AssistantMessage("done")]

    async def scenario() -> None:
        whole = World(*answers, last_first=last_first)
        journal = journal_of(await whole.converse(HELLO))
        cut = data.draw(st.integers(0, len(journal)))
        stored = journal[:cut]
        resumed = World(*answers[sum(isinstance(each, AssistantMessage) for each in stored) :], last_first=last_first)
        rest = journal_of(await resumed.converse(HELLO, *stored))

        done = {each.call_id for each in stored if isinstance(each, ToolResultMessage)}
        repeated = [each for each in rest if isinstance(each, ToolResultMessage) and each.call_id in done]
        assert repeated == []
        assert stored + rest == journal
        if whole.asked_with and resumed.asked_with:
            assert resumed.asked_with[-1] == whole.asked_with[-1]

    asyncio.run(scenario())


messages = st.one_of(
    st.just(HELLO),
    st.lists(st.sampled_from("abcd"), max_size=3, unique=True).map(lambda ids: wants(*ids) if ids else AssistantMessage("hm")),
    st.sampled_from("abcd").map(result),
)


@settings(deadline=None)
@given(history=st.lists(messages, max_size=12))
def test_any_history_is_normalized_for_providers(history: list[Message]) -> None:
    begun = normalize_history(history)
    tidy = normalize_history([*begun, *(result(each.id) for each in find_unanswered_calls(begun))])
    expected: list[str] = []
    for message in tidy:
        if isinstance(message, ToolResultMessage):
            assert message.call_id == expected.pop(0)
            continue
        assert expected == []
        expected = [each.id for each in message.tool_calls] if isinstance(message, AssistantMessage) else []
    assert expected == []
    spoken = [message for message in history if not isinstance(message, ToolResultMessage)]
    assert [message for message in tidy if not isinstance(message, ToolResultMessage)] == spoken
    assert normalize_history(tidy) == tidy


@settings(deadline=None)
@given(earlier=st.lists(st.text(max_size=45), max_size=6), now=st.lists(st.text(max_size=45), max_size=6))
def test_call_ids_become_unique_and_short(earlier: list[str], now: list[str]) -> None:
    before = make_call_ids_unique(wants(*earlier), [])
    after = make_call_ids_unique(wants(*now), [before])
    ids = [each.id for each in (*before.tool_calls, *after.tool_calls)]
    assert len(set(ids)) == len(ids)
    assert all(0 < len(each) <= MAX_CALL_ID_LENGTH for each in ids)


def test_short_call_ids_get_run_suffix_without_history() -> None:
    marked = make_call_ids_unique(wants("call_1", "", "toolu_01A09q90qw90lq917835lq9"), [], "_44")
    assert [each.id for each in marked.tool_calls] == ["call_1_44", "call_2_44", "toolu_01A09q90qw90lq917835lq9"]


@settings(deadline=None)
@given(ids=st.lists(st.text(min_size=1, max_size=MAX_CALL_ID_LENGTH), unique=True))
def test_valid_call_ids_are_unchanged(ids: list[str]) -> None:
    assert make_call_ids_unique(wants(*ids), []) == wants(*ids)
