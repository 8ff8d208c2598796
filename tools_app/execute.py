"""Run authorized calls in the model's order and yield started, updated and ended events. Used by the loop and for single calls.

Adjacent read-only calls run concurrently; any other call runs alone. Events are journaled before they are yielded: the
journal commits, so a call found `started` after a crash is known to have begun.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Protocol, TypeVar

from django.conf import settings

from clawsite.infra.observability.redact import host_secrets
from clawsite.infra.reasons import Reason
from sessions_app.runs import waiting
from tools_app.authorize import AuthorizedCall
from tools_app.core import cleaning
from tools_app.core.definition import (
    NO_TIMEOUT,
    BadArguments,
    CallContext,
    CallRef,
    Deferred,
    DeferredCall,
    TextBlock,
    Tool,
    ToolDeferred,
    ToolEnded,
    ToolEvent,
    ToolFailed,
    ToolResult,
    ToolStarted,
    ToolUpdated,
    text_result,
)
from tools_app.core.supervision import SupervisedCall, Supervision, deny_unplanned_call
from tools_app.schemas.argument_aliases import apply_aliases

MAX_CONCURRENT_CALLS = 8  # file access runs on threads, and a process has only a few

NO_NOTES: Mapping[str, str] = {}

ToolEventQueue = asyncio.Queue[ToolEvent | asyncio.Task[None]]


class CallNotStarted(Exception):
    """Something changed between the permit and the start of the call. The message replaces the result."""


class CallJournal(Protocol):
    """Records calls before their events are published. An exception here stops all calls still running."""

    def may_act(self) -> bool: ...
    async def started(self, call: CallRef) -> None: ...
    async def updated(self, call: CallRef, partial: ToolResult) -> None: ...
    async def deferred(self, call: CallRef, deferred: Deferred) -> None: ...
    async def ended(self, call: CallRef, result: ToolResult) -> None: ...


async def run_tool_calls(
    calls: Sequence[AuthorizedCall], *, journal: CallJournal, abort: asyncio.Event, notes: Mapping[str, str] = NO_NOTES
) -> AsyncGenerator[ToolEvent, None]:
    """Run the calls to completion. Closing the iterator or canceling its reader stops calls in flight.

    Later calls may depend on a deferred one, so after a batch with such a call the rest is not started.
    `notes` maps call IDs to text for the model that is appended to the call's result.
    """
    for batch in _split_batches(calls):
        events: ToolEventQueue = asyncio.Queue()
        tasks = [asyncio.create_task(_run_call(each, journal, abort, events, notes.get(each.ref.id, ""))) for each in batch]
        for task in tasks:
            task.add_done_callback(events.put_nowait)
        pending = len(tasks)
        deferred = False
        try:
            while pending:
                event = await events.get()
                if isinstance(event, asyncio.Task):
                    event.result()  # re-raises an exception from journal.started
                    pending -= 1
                    continue
                await _record_event(event, journal)
                deferred = deferred or isinstance(event, ToolDeferred)
                yield event
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if deferred:
            return


def _split_batches(calls: Sequence[AuthorizedCall]) -> Iterator[Sequence[AuthorizedCall]]:
    for read_only, group in groupby(calls, key=lambda each: each.tool.read_only):
        run = list(group)
        size = MAX_CONCURRENT_CALLS if read_only else 1
        for begin in range(0, len(run), size):
            yield run[begin : begin + size]


async def _run_call(
    authorized: AuthorizedCall, journal: CallJournal, abort: asyncio.Event, events: ToolEventQueue, note: str
) -> None:
    ref = authorized.ref
    running = True

    def update(partial: ToolResult) -> None:
        if running:  # otherwise a late update would follow the result
            events.put_nowait(ToolUpdated(ref, clean_tool_result(partial)))

    try:
        await journal.started(ref)
    except CallNotStarted as reason:
        events.put_nowait(ToolEnded(ref, text_result(str(reason), details={"code": "exec_denied"}, is_error=True)))
        return
    events.put_nowait(ToolStarted(ref))
    result = await perform_call(authorized, CallContext(ref.id, update, abort, authorized.plan, journal.may_act))
    running = False
    if isinstance(result, Deferred):
        events.put_nowait(ToolDeferred(ref, result))
    else:
        events.put_nowait(ToolEnded(ref, add_note(result, note)))


def add_note(result: ToolResult, note: str) -> ToolResult:
    return replace(result, content=(*result.content, TextBlock(note))) if note else result


async def _record_event(event: ToolEvent, journal: CallJournal) -> None:
    """Journal everything after the start in one place, so that an update never follows the end."""
    match event:
        case ToolUpdated(call, partial):
            await journal.updated(call, partial)
        case ToolDeferred(call, deferred):
            await journal.deferred(call, deferred)
        case ToolEnded(call, result):
            await journal.ended(call, result)


logger = logging.getLogger(__name__)


async def perform_call(authorized: AuthorizedCall, call: CallContext) -> ToolResult | Deferred:
    """Run one call to its result, or until it is deferred."""
    if not isinstance(authorized, AuthorizedCall):
        raise TypeError("only an authorized call can run")
    tool = authorized.tool
    try:
        args = tool.check(apply_aliases(tool.name, authorized.ref.arguments, tool.parameters))
    except BadArguments as error:
        return clean_tool_result(
            text_result(_describe_argument_errors(tool, error), details={"code": "invalid_arguments"}, is_error=True)
        )

    async def perform() -> ToolResult | Deferred:
        result = await _run_with_timeout(tool, args, call)
        if not isinstance(result, Deferred):
            return clean_tool_result(result)
        if tool.resume is None:
            raise TypeError(f"tool {tool.name} returned Deferred but declares no `resume`")
        waiting.check_wait(result.kind, result.ref)
        return result

    return await _failure_as_result(authorized.ref, perform())


async def resume_call(tool: Tool | None, deferred: DeferredCall) -> ToolResult | None:
    """Return the result of a deferred call, or None if it is still waiting."""
    name = deferred.call.name
    if tool is None or tool.resume is None:
        text = f"`{name}` is no longer available, so its result can't be read. What it did is not undone."
        return text_result(text, details={"code": "tool_failed"}, is_error=True)
    resume = tool.resume

    async def read_result() -> ToolResult | None:
        result = await resume(deferred)
        return None if result is None else clean_tool_result(result)

    result = await _failure_as_result(deferred.call, read_result())
    if result is None and deferred.overdue:
        text = f"tool_timeout: `{name}` had no result before its deadline."
        return text_result(text, details={"code": "tool_timeout"}, is_error=True)
    return result


Outcome = TypeVar("Outcome")


async def _failure_as_result(ref: CallRef, outcome: Awaitable[Outcome]) -> Outcome | ToolResult:
    """Return the outcome of a tool's function; an exception becomes an error result."""
    try:
        return await outcome
    except ToolFailed as failure:
        details = {"code": failure.code} if failure.code else None
        return clean_tool_result(text_result(str(failure), details=details, is_error=True))
    except Exception as error:
        logger.exception("tool %s failed in call %s", ref.name, ref.id)
        # The class name helps people debug; the message may contain paths or secrets.
        return text_result(f"the tool failed unexpectedly ({type(error).__name__})", details={"code": "tool_failed"}, is_error=True)


async def plan_call(tool: Tool, ref: CallRef) -> SupervisedCall:
    """Plan a call of a supervised tool. A call that can't be planned is denied."""
    if tool.supervisor is None:
        raise TypeError(f"{tool.name} is not supervised")
    try:
        planned = await tool.supervisor.plan(tool.check(apply_aliases(tool.name, ref.arguments, tool.parameters)), ref)
        return SupervisedCall(tool.supervisor, planned)
    except BadArguments as error:
        denied = deny_unplanned_call(_describe_argument_errors(tool, error), "invalid_arguments")
    except ToolFailed as failure:
        denied = deny_unplanned_call(str(failure), "tool_failed")
    except Exception as error:
        logger.exception("tool %s could not plan call %s", tool.name, ref.id)
        denied = Supervision("deny", Reason("exec.plan_failed", error=type(error).__name__))
    return SupervisedCall(tool.supervisor, decided=denied)


def clean_tool_result(result: ToolResult) -> ToolResult:
    """Apply the server's limits to the result and remove its secrets."""
    secrets = host_secrets([settings.SECRET_KEY, settings.GATEWAY_TOKEN])
    return cleaning.clean_result(result, cleaning.ResultLimits(int(settings.TOOL_RESULT_KB * 1024), secrets))


async def _run_with_timeout(tool: Tool, args: Any, call: CallContext) -> ToolResult | Deferred:
    """Return the tool's result, or a timeout message. Idempotent tools get a second attempt."""
    seconds = tool.timeout_s or settings.TOOL_TIMEOUT_SECONDS
    if seconds == NO_TIMEOUT:
        return await tool.perform(args, call)
    for _ in range(2 if tool.idempotent else 1):
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await tool.perform(args, call)
        except TimeoutError:
            if not limit.expired():
                raise
    if tool.idempotent:
        message = f"was stopped after {seconds:g} s, and again after a retry"
    elif tool.read_only:
        message = f"was stopped after {seconds:g} s. It is read-only, so nothing changed"
    else:
        message = f"was stopped after {seconds:g} s. It may have done part of its work: check before you try again"
    return text_result(f"tool_timeout: `{tool.name}` {message}.", details={"code": "tool_timeout"}, is_error=True)


def _describe_argument_errors(tool: Tool, error: BadArguments) -> str:
    names = ", ".join(f"`{name}`" for name in tool.parameters.get("properties", {})) or "none"
    return f"invalid arguments for `{tool.name}`: {error}. It did not run. Its arguments are: {names}."
