"""Authorised calls, run in the model's order, told as started, updated, ended. For the loop and for single calls alike.

Read-only calls that stand next to each other run together; any other call runs alone. Nothing is told before the
journal has it: the caller commits there, so that a call found `started` after a crash is known to have begun.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Protocol

from tools_app.authorize import AuthorizedCall
from tools_app.definition import Call, CallRef, TextBlock, ToolEnded, ToolEvent, ToolResult, ToolStarted, ToolUpdated, text_result
from tools_app.wrappers import perform, tidy

MAX_TOGETHER = 8  # file work runs on threads, of which a process has few

NO_NOTES: Mapping[str, str] = {}

Told = asyncio.Queue[ToolEvent | asyncio.Task[None]]


class NotStarted(Exception):
    """Between its permit and its start something changed. The words are told in place of a result."""


class Journal(Protocol):
    """Where a call is written down before it is told. An exception here stops everything that still runs."""

    def may_act(self) -> bool: ...
    async def started(self, call: CallRef) -> None: ...
    async def updated(self, call: CallRef, partial: ToolResult) -> None: ...
    async def ended(self, call: CallRef, result: ToolResult) -> None: ...


async def use_tools(
    calls: Sequence[AuthorizedCall], *, journal: Journal, abort: asyncio.Event, notes: Mapping[str, str] = NO_NOTES
) -> AsyncGenerator[ToolEvent, None]:
    """Run the calls to their ends. Closing the iterator or cancelling its reader stops what is in flight.

    `notes`, by call id, are words of ours for the model that are put behind a call's result.
    """
    for together in _batches(calls):
        told: Told = asyncio.Queue()
        tasks = [asyncio.create_task(_run(each, journal, abort, told, notes.get(each.ref.id, ""))) for each in together]
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
                await _write_down(event, journal)
                yield event
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _batches(calls: Sequence[AuthorizedCall]) -> Iterator[Sequence[AuthorizedCall]]:
    for read_only, group in groupby(calls, key=lambda each: each.tool.read_only):
        run = list(group)
        size = MAX_TOGETHER if read_only else 1
        for begin in range(0, len(run), size):
            yield run[begin : begin + size]


async def _run(authorized: AuthorizedCall, journal: Journal, abort: asyncio.Event, told: Told, note: str) -> None:
    ref = authorized.ref
    running = True

    def update(partial: ToolResult) -> None:
        if running:  # what a tool says after its end would come after its result
            told.put_nowait(ToolUpdated(ref, tidy(partial)))

    try:
        await journal.started(ref)
    except NotStarted as refused:
        told.put_nowait(ToolEnded(ref, text_result(str(refused), details={"code": "exec_denied"}, is_error=True)))
        return
    told.put_nowait(ToolStarted(ref))
    result = await perform(authorized, Call(ref.id, update, abort, authorized.plan, journal.may_act))
    running = False
    if note:
        result = replace(result, content=(*result.content, TextBlock(note)))
    told.put_nowait(ToolEnded(ref, result))


async def _write_down(event: ToolEvent, journal: Journal) -> None:
    """Updates and ends are journalled in the one place that tells them, so that an update never follows its end."""
    match event:
        case ToolUpdated(call, partial):
            await journal.updated(call, partial)
        case ToolEnded(call, result):
            await journal.ended(call, result)
