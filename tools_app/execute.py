"""Authorised calls, run in the model's order, told as started, updated, ended. For the loop and for single calls alike.

Read-only calls that stand next to each other run together; any other call runs alone. Nothing is told before the
journal has it: the caller commits there, so that a call found `started` after a crash is known to have begun.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Protocol

from django.conf import settings

from clawsite.infra.observability.redact import host_secrets
from tools_app.authorize import AuthorizedCall
from tools_app.core import cleaning
from tools_app.core.definition import (
    NO_TIMEOUT,
    BadArguments,
    CallContext,
    CallRef,
    TextBlock,
    Tool,
    ToolEnded,
    ToolEvent,
    ToolFailed,
    ToolResult,
    ToolStarted,
    ToolUpdated,
    text_result,
)
from tools_app.core.supervision import Supervision
from tools_app.schemas.argument_aliases import apply_aliases

MAX_CONCURRENT_CALLS = 8  # file work runs on threads, of which a process has few

NO_NOTES: Mapping[str, str] = {}

ToolEventQueue = asyncio.Queue[ToolEvent | asyncio.Task[None]]


class CallNotStarted(Exception):
    """Between its permit and its start something changed. The words are told in place of a result."""


class CallJournal(Protocol):
    """Where a call is written down before it is told. An exception here stops everything that still runs."""

    def may_act(self) -> bool: ...
    async def started(self, call: CallRef) -> None: ...
    async def updated(self, call: CallRef, partial: ToolResult) -> None: ...
    async def ended(self, call: CallRef, result: ToolResult) -> None: ...


async def run_tool_calls(
    calls: Sequence[AuthorizedCall], *, journal: CallJournal, abort: asyncio.Event, notes: Mapping[str, str] = NO_NOTES
) -> AsyncGenerator[ToolEvent, None]:
    """Run the calls to their ends. Closing the iterator or cancelling its reader stops what is in flight.

    `notes`, by call id, are words of ours for the model that are put behind a call's result.
    """
    for together in _split_batches(calls):
        told: ToolEventQueue = asyncio.Queue()
        tasks = [asyncio.create_task(_run_call(each, journal, abort, told, notes.get(each.ref.id, ""))) for each in together]
        for task in tasks:
            task.add_done_callback(told.put_nowait)
        left = len(tasks)
        try:
            while left:
                event = await told.get()
                if isinstance(event, asyncio.Task):
                    event.result()  # raises what the journal raised in `started`
                    left -= 1
                    continue
                await _record_event(event, journal)
                yield event
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _split_batches(calls: Sequence[AuthorizedCall]) -> Iterator[Sequence[AuthorizedCall]]:
    for read_only, group in groupby(calls, key=lambda each: each.tool.read_only):
        run = list(group)
        size = MAX_CONCURRENT_CALLS if read_only else 1
        for begin in range(0, len(run), size):
            yield run[begin : begin + size]


async def _run_call(
    authorized: AuthorizedCall, journal: CallJournal, abort: asyncio.Event, told: ToolEventQueue, note: str
) -> None:
    ref = authorized.ref
    running = True

    def update(partial: ToolResult) -> None:
        if running:  # what a tool says after its end would come after its result
            told.put_nowait(ToolUpdated(ref, clean_tool_result(partial)))

    try:
        await journal.started(ref)
    except CallNotStarted as refused:
        told.put_nowait(ToolEnded(ref, text_result(str(refused), details={"code": "exec_denied"}, is_error=True)))
        return
    told.put_nowait(ToolStarted(ref))
    result = await perform_call(authorized, CallContext(ref.id, update, abort, authorized.plan, journal.may_act))
    running = False
    if note:
        result = replace(result, content=(*result.content, TextBlock(note)))
    told.put_nowait(ToolEnded(ref, result))


async def _record_event(event: ToolEvent, journal: CallJournal) -> None:
    """Updates and ends are journalled in the one place that tells them, so that an update never follows its end."""
    match event:
        case ToolUpdated(call, partial):
            await journal.updated(call, partial)
        case ToolEnded(call, result):
            await journal.ended(call, result)


logger = logging.getLogger(__name__)


async def perform_call(authorized: AuthorizedCall, call: CallContext) -> ToolResult:
    """Run one call to its result."""
    if not isinstance(authorized, AuthorizedCall):
        raise TypeError("only an authorised call can run")
    tool = authorized.tool
    try:
        args = tool.check(apply_aliases(tool.name, authorized.ref.arguments, tool.parameters))
    except BadArguments as error:
        return clean_tool_result(
            text_result(_describe_argument_errors(tool, error), details={"code": "invalid_arguments"}, is_error=True)
        )
    try:
        return clean_tool_result(await _run_with_timeout(tool, args, call))
    except ToolFailed as failure:
        return clean_tool_result(text_result(str(failure), is_error=True))
    except Exception as error:
        logger.exception("tool %s failed in call %s", tool.name, authorized.ref.id)
        # The class helps a person who reads along; the message may hold paths or secrets.
        return text_result(f"the tool failed unexpectedly ({type(error).__name__})", details={"code": "tool_failed"}, is_error=True)


async def plan_call(tool: Tool, ref: CallRef) -> Any:
    """What a supervised call would do; a Supervision that denies it, in words, where no plan can be made."""
    if tool.plan is None:
        raise TypeError(f"{tool.name} is not supervised")
    try:
        return await tool.plan(tool.check(apply_aliases(tool.name, ref.arguments, tool.parameters)), ref)
    except BadArguments as error:
        return Supervision("deny", _describe_argument_errors(tool, error), code="invalid_arguments")
    except ToolFailed as failure:
        return Supervision("deny", str(failure), code="tool_failed")
    except Exception as error:
        logger.exception("tool %s could not plan call %s", tool.name, ref.id)
        words = f"exec_denied: what it would do could not be found out ({type(error).__name__}). It did not run."
        return Supervision("deny", words)


def clean_tool_result(result: ToolResult) -> ToolResult:
    """The result within the limits of this installation, and without its secrets."""
    secrets = host_secrets([settings.SECRET_KEY, settings.GATEWAY_TOKEN])
    return cleaning.clean_result(result, cleaning.ResultLimits(int(settings.TOOL_RESULT_KB * 1024), secrets))


async def _run_with_timeout(tool: Tool, args: Any, call: CallContext) -> ToolResult:
    """The tool's result, or words about its time-out. What is declared idempotent gets a second try."""
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
        words = f"was stopped after {seconds:g} s, and once more when it was tried again"
    elif tool.read_only:
        words = f"was stopped after {seconds:g} s; it only reads, so nothing was changed"
    else:
        words = f"was stopped after {seconds:g} s. It may have done part of its work: look before you try again"
    return text_result(f"tool_timeout: `{tool.name}` {words}.", details={"code": "tool_timeout"}, is_error=True)


def _describe_argument_errors(tool: Tool, error: BadArguments) -> str:
    names = ", ".join(f"`{name}`" for name in tool.parameters.get("properties", {})) or "none"
    return f"invalid arguments for `{tool.name}`: {error}. It did not run. Its arguments are: {names}."
