"""Detect a model that repeats the same call with the same result: warn it first, then deny the call. Pure.

The decision is derived from the run's calls and results, not from separate state, so it stays the same after another worker
recovers the run. Denied and blocked calls count like those that ran, and so do earlier calls of the same turn, whose pending
result is assumed to equal the previous one. Two alternating calls (A, B, A, B) are a loop too. Anything else in between
counts as progress: edit, test, edit, test is normal work as long as the edits differ.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tools_app.core.definition import TextBlock, ToolResult, text_result

WARN_AFTER_REPEATS = 3  # identical results
DENY_AFTER_REPEATS = 5
POLLING_FACTOR = 4  # repeating the same call is normal for a polling tool
MAX_LOOP_KINDS = 2  # distinct steps that still count as one loop

CODE = "loop_detected"
NOTE_PREFIX = "[repeated: "


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """A call of the run that already has its result."""

    name: str
    arguments: dict[str, Any]
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class LoopVerdict:
    """`deny`: the call must not run. Otherwise `note`, if any, is appended to its result."""

    repeats: int = 0
    deny: bool = False
    note: str = ""


def check_repetition(name: str, arguments: dict[str, Any], steps: Sequence[CompletedCall], *, polls: bool = False) -> LoopVerdict:
    """Decide whether to warn about or deny a call, given the earlier steps of the run, oldest first."""
    repeats = _count_repeats(_call_key(name, arguments), steps)
    factor = POLLING_FACTOR if polls else 1
    if repeats >= DENY_AFTER_REPEATS * factor:
        return LoopVerdict(repeats, deny=True)
    if repeats >= WARN_AFTER_REPEATS * factor:
        warning = f"{NOTE_PREFIX}the previous {repeats} calls were identical and returned the same result"
        return LoopVerdict(repeats, note=f"{warning}; try something else, or say what is blocking you]")
    return LoopVerdict(repeats)


def to_pending_call(name: str, arguments: dict[str, Any], steps: Sequence[CompletedCall]) -> CompletedCall:
    """Return a call of this turn as a step, to be taken into account for the calls after it."""
    same = (step for step in reversed(steps) if step.name == name and step.arguments == arguments and not _is_loop_denial(step))
    last = next(same, None)
    return CompletedCall(name, arguments, last.text if last else "", last.is_error if last else False)


def build_denied_result(name: str, why: ToolResult, verdict: LoopVerdict) -> ToolResult:
    """Return the result of a call that doesn't run: the denial with our note appended, or the loop denial instead."""
    if verdict.deny:
        return build_loop_denial(name, verdict)
    return replace(why, content=(*why.content, TextBlock(verdict.note))) if verdict.note else why


def build_loop_denial(name: str, verdict: LoopVerdict) -> ToolResult:
    summary = f"{CODE}: `{name}` was called {verdict.repeats} times with these arguments and returned the same result each time"
    advice = "It did not run again. Do something else, or tell the user what you found and what is blocking you."
    return text_result(f"{summary}. {advice}", details={"code": CODE, "repeats": verdict.repeats}, is_error=True)


def _count_repeats(call: str, steps: Sequence[CompletedCall]) -> int:
    """Count how many times in a row the call returned its latest result, allowing one other kind of step in between."""
    seen: set[tuple[str, str, bool]] = set()
    last: tuple[str, str, bool] | None = None
    repeats = 0
    for step in reversed(steps):
        if _is_loop_denial(step):
            continue  # our own denial is neither a result nor progress
        kind = (_call_key(step.name, step.arguments), step.text.partition(f"\n{NOTE_PREFIX}")[0], step.is_error)
        seen.add(kind)
        if len(seen) > MAX_LOOP_KINDS:
            break
        if kind[0] == call:
            last = last or kind
            repeats += kind == last
    return repeats


def _is_loop_denial(step: CompletedCall) -> bool:
    return step.is_error and step.text.startswith(CODE)


def _call_key(name: str, arguments: dict[str, Any]) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True)}"
