"""Calls run in the model's order, are journaled before their events are published, and always end in a result."""

import asyncio
import logging

import pytest

from tools_app.authorize import authorize_tool_call
from tools_app.core.definition import (
    BlankAllowedStr,
    CallContext,
    CallRef,
    Deferred,
    ToolArgs,
    ToolEnded,
    ToolEnv,
    ToolFailed,
    ToolStarted,
    text_result,
    tool,
)
from tools_app.execute import MAX_CONCURRENT_CALLS, perform_call, run_tool_calls
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.sources.registry import ToolRegistry
from tools_app.toolset import build_toolset

RULES = PolicyRules(1, (RuleRow("global", profile="full"),))
ENV = ToolEnv(None, "main", 1, "s", "agent:main:main")


class NumberArgs(ToolArgs):
    number: int = 0


class TitleArgs(ToolArgs):
    title: str
    body: BlankAllowedStr


class Journal:
    def __init__(self, fail_on=""):
        self.written = []
        self.fail_on = fail_on

    async def _write(self, what, call):
        await asyncio.sleep(0)
        if self.fail_on == what:
            raise ConnectionError("the lease is lost")
        self.written.append(f"{what} {call.id}")

    def may_act(self):
        return True

    async def started(self, call):
        await self._write("started", call)

    async def updated(self, call, partial):
        await self._write("updated", call)

    async def ended(self, call, result):
        await self._write("ended", call)


def permits(body, *arguments, args=NumberArgs, timeout_s=60.0, **declared):
    """Return permits for calls c1, c2, … of one tool with this function."""

    @tool("acme", args=args, timeout_s=timeout_s, **declared)
    def make(env):
        """Do as the test says."""
        return body

    offered = build_toolset(ENV, PolicyQuery("main"), RULES, ToolRegistry.build([(make, "test")]))
    refs = [CallRef(f"c{number}", "acme", each) for number, each in enumerate(arguments, start=1)]
    return [authorize_tool_call(ref, toolset=offered, rules=RULES).permit for ref in refs]


async def run(calls, journal=None):
    return [event async for event in run_tool_calls(calls, journal=journal or Journal(), abort=asyncio.Event())]


async def result_of(body, arguments=None, **options):
    events = await run(permits(body, arguments or {}, **options))
    assert [type(event) for event in events] == [ToolStarted, ToolEnded]
    return events[-1].result


def told(events):
    return [f"{type(event).__name__.removeprefix('Tool').lower()} {event.call.id}" for event in events]


async def test_mutating_calls_run_sequentially():
    running = 0

    async def body(args, call):
        nonlocal running
        running += 1
        await asyncio.sleep(0)
        assert running == 1
        running -= 1
        return text_result(str(args.number))

    journal = Journal()
    events = await run(permits(body, {"number": 1}, {"number": 2}), journal)
    assert told(events) == journal.written == ["started c1", "ended c1", "started c2", "ended c2"]
    assert [event.result.text for event in events if isinstance(event, ToolEnded)] == ["1", "2"]


async def test_adjacent_read_only_calls_run_concurrently():
    both = asyncio.Barrier(2)

    async def body(args, call):
        await both.wait()  # neither would get past this point alone
        return text_result("ok")

    assert len(await run(permits(body, {}, {}, read_only=True))) == 4


async def test_mutating_call_between_read_only_calls_runs_alone():
    order = []

    def body(name):
        async def perform(args, call):
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")
            return text_result("ok")

        return perform

    readers, writer = permits(body("read"), {}, read_only=True), permits(body("write"), {})
    await run([*readers, *writer, *readers])
    assert order == ["read begins", "read ends", "write begins", "write ends", "read begins", "read ends"]


async def test_number_of_concurrent_calls_is_limited():
    running = most = 0

    async def body(args, call):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return text_result("ok")

    events = await run(permits(body, *[{}] * (MAX_CONCURRENT_CALLS * 2 + 1), read_only=True))
    assert len(events) == 2 * (MAX_CONCURRENT_CALLS * 2 + 1)
    assert most <= MAX_CONCURRENT_CALLS


async def test_tool_starts_only_after_start_is_journaled():
    begun = asyncio.Event()

    async def body(args, call):
        begun.set()
        return text_result("ok")

    with pytest.raises(ConnectionError, match="lease"):
        await run(permits(body, {}), Journal(fail_on="started"))
    assert not begun.is_set()


async def test_updates_are_emitted_between_start_and_end():
    async def body(args, call):
        call.update(text_result("half\0way"))
        return text_result("done")

    events = await run(permits(body, {}))
    assert told(events) == ["started c1", "updated c1", "ended c1"]
    assert events[1].partial.text == "halfway"


async def test_events_are_journaled_before_they_are_emitted():
    async def body(args, call):
        call.update(text_result("half"))
        return text_result("done")

    journal = Journal()
    events = []
    async for event in run_tool_calls(permits(body, {}, {}, read_only=True), journal=journal, abort=asyncio.Event()):
        events.append(event)
        assert set(told(events)) <= set(journal.written)
    assert len(events) == 6


async def test_updates_after_tool_end_are_dropped():
    first_ended = asyncio.Event()
    calls = []

    async def body(args, call):
        calls.append(call)
        if args.number:  # the second one, still running when the first has ended
            await first_ended.wait()
            calls[0].update(text_result("too late"))
        return text_result("ok")

    events = []
    async for event in run_tool_calls(permits(body, {}, {"number": 1}, read_only=True), journal=Journal(), abort=asyncio.Event()):
        events.append(event)
        if isinstance(event, ToolEnded):
            first_ended.set()
    assert sorted(told(events)) == ["ended c1", "ended c2", "started c1", "started c2"]


async def test_tool_can_read_call_id_and_abort_flag():
    abort = asyncio.Event()

    async def body(args, call):
        abort.set()
        return text_result(f"{call.call_id} {call.abort.is_set()}")

    events = [event async for event in run_tool_calls(permits(body, {}), journal=Journal(), abort=abort)]
    assert events[-1].result.text == "c1 True"


async def test_expected_failure_is_reported_with_tool_message():
    async def body(args, call):
        raise ToolFailed("there is no such file")

    assert await result_of(body) == text_result("there is no such file", is_error=True)


async def test_unexpected_failure_is_reported_without_details(caplog):
    async def body(args, call):
        raise ValueError("the password is hunter2")

    with caplog.at_level(logging.ERROR):
        result = await result_of(body)
    assert (result.is_error, result.text) == (True, "the tool failed unexpectedly (ValueError)")
    assert caplog.records[0].exc_info[0] is ValueError


async def test_result_of_wrong_type_is_failure():
    async def body(args, call):
        return "just words"

    assert (await result_of(body)).text.startswith("the tool failed unexpectedly")


async def test_timed_out_tool_is_stopped_and_next_runs():
    async def body(args, call):
        if args.number:
            return text_result("ok")
        return await asyncio.Event().wait()

    events = await run(permits(body, {}, {"number": 1}, timeout_s=0.01))
    first, second = (event.result for event in events if isinstance(event, ToolEnded))
    assert first.is_error
    assert first.text.startswith("tool_timeout: `acme` was stopped after 0.01 s")
    assert second.text == "ok"


async def test_tool_without_timeout_uses_default_setting(settings):
    async def body(args, call):
        return await asyncio.Event().wait()

    settings.TOOL_TIMEOUT_SECONDS = 0.01
    assert "was stopped after 0.01 s" in (await result_of(body, timeout_s=None)).text


@pytest.mark.parametrize("succeeds", [True, False])
async def test_idempotent_tool_is_retried_once_after_timeout(succeeds):
    tries = 0

    async def body(args, call):
        nonlocal tries
        tries += 1
        if tries == 2 and succeeds:
            return text_result("at last")
        return await asyncio.Event().wait()

    result = await result_of(body, timeout_s=0.01, idempotent=True)
    assert tries == 2
    if succeeds:
        assert result == text_result("at last")
    else:
        assert (result.details["code"], result.text.endswith("again after a retry.")) == ("tool_timeout", True)


@pytest.mark.parametrize(("read_only", "words"), [(True, "nothing changed"), (False, "It may have done part of its work")])
async def test_non_idempotent_tool_is_not_retried_after_timeout(read_only, words):
    tries = 0

    async def body(args, call):
        nonlocal tries
        tries += 1
        return await asyncio.Event().wait()

    result = await result_of(body, timeout_s=0.01, read_only=read_only)
    assert (tries, result.is_error) == (1, True)
    assert words in result.text


async def test_timeout_error_raised_by_tool_is_unexpected_failure():
    async def body(args, call):
        raise TimeoutError("some socket")

    assert (await result_of(body)).text == "the tool failed unexpectedly (TimeoutError)"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"number": "many"}, "`number`: Input should be a valid integer"), ({"nmber": 1}, "`nmber`: Extra inputs")],
)
async def test_invalid_arguments_are_reported_without_running_tool(arguments, words):
    async def body(args, call):
        pytest.fail("it ran")

    result = await result_of(body, arguments)
    assert result.is_error
    assert words in result.text
    assert "Its arguments are: `number`." in result.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "Missing required parameter: title, body."),
        ({"title": "  ", "body": ""}, "Missing required parameter: title."),
        ({"title": "a", "colour": "red"}, "Missing required parameter: body; `colour`: Extra inputs"),
    ],
)
async def test_missing_or_blank_arguments_are_named(arguments, words):
    async def body(args, call):
        pytest.fail("it ran")

    result = await result_of(body, arguments, args=TitleArgs)
    assert (result.is_error, result.details) == (True, {"code": "invalid_arguments"})
    assert words in result.text
    assert "`title`, `body`" in result.text


async def test_required_text_can_allow_blank_value():
    async def body(args, call):
        return text_result(f"{args.title}: {args.body!r}")

    assert (await result_of(body, {"title": "a", "body": ""}, args=TitleArgs)).text == "a: ''"


async def test_argument_names_are_case_insensitive():
    async def body(args, call):
        return text_result(f"{args.title} {args.body}")

    assert (await result_of(body, {"Title": "a", "BODY": "b"}, args=TitleArgs)).text == "a b"


async def test_host_secrets_are_redacted_from_results(monkeypatch, settings):
    """Any result, progress text or error message of a tool."""
    monkeypatch.setenv("ACME_API_KEY", "plain-words-as-a-key")
    monkeypatch.setenv("DATABASE_URL", "postgresql://claw:database-word@db/claw")
    secrets = ["plain-words-as-a-key", "database-word", settings.SECRET_KEY, settings.GATEWAY_TOKEN]

    async def body(args, call):
        everything = " | ".join(secrets)
        call.update(text_result(everything))
        if args.number:
            raise ToolFailed(everything)
        return text_result(everything, details={"all": [everything]})

    events = await run(permits(body, {}, {"number": 1}))
    for event in events[1:3] + events[4:]:
        result = event.result if isinstance(event, ToolEnded) else event.partial
        assert result.text == " | ".join(["[redacted]"] * 4)
        assert not [secret for secret in secrets if secret in str(result.to_json())]


async def test_cancelling_stops_tool_and_propagates():
    waiting, stopped = asyncio.Event(), asyncio.Event()

    async def body(args, call):
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    task = asyncio.create_task(run(permits(body, {})))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped.is_set()


async def test_closing_iterator_stops_running_calls():
    stopped = asyncio.Event()

    async def body(args, call):
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    events = run_tool_calls(permits(body, {}), journal=Journal(), abort=asyncio.Event())
    assert isinstance(await anext(events), ToolStarted)
    await asyncio.sleep(0)
    await events.aclose()
    assert stopped.is_set()


async def test_journal_failure_stops_other_running_calls():
    stopped = asyncio.Event()

    async def body(args, call):
        if args.number:
            return text_result("ok")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    with pytest.raises(ConnectionError):
        await run(permits(body, {}, {"number": 1}, read_only=True), Journal(fail_on="ended"))
    assert stopped.is_set()


class WaitArgs(ToolArgs):
    kind: str
    ref: str


async def resume_never(env, deferred):
    return None


@pytest.mark.parametrize(
    ("kind", "ref", "outcome"),
    [
        ("child", "7", ""),
        ("child", "a run", "tool_failed"),
        ("child", "9" * 30, "tool_failed"),
        ("approval", "x" * 201, "tool_failed"),
        ("approval", "no UUID", "tool_failed"),
        ("weather", "7", "tool_failed"),
        ("budget", "nobody registered this kind", "tool_failed"),
    ],
)
async def test_deferral_that_no_run_can_wait_for_is_a_failure(kind, ref, outcome):
    async def body(args, call):
        return Deferred(args.kind, args.ref)

    (permit,) = permits(body, {"kind": kind, "ref": ref}, args=WaitArgs, resume=resume_never)
    result = await perform_call(permit, CallContext("c1", lambda partial: None, asyncio.Event()))
    assert result == Deferred(kind, ref) if not outcome else result.details == {"code": outcome}
