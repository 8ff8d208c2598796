"""The same call with the same result, again and again: the model is told, then the call is not made any more. Pure.

It is judged from the calls and results of the run so far, not from a memory of its own, so a run that another worker has taken
over is judged alike. Calls that were refused or blocked count like those that ran, and so do the earlier ones of the same turn:
their results are not known yet, and taken to be what the same call gave last. Two calls in turn (A, B, A, B) are a loop too.
Anything else in between counts as progress: edit, test, edit, test is how work is done, as long as the edits differ.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tools_app.core.definition import TextBlock, ToolResult, text_result

WARN_AFTER_REPEATS = 3  # identical results
DENY_AFTER_REPEATS = 5
POLLING_FACTOR = 4  # a tool that polls is asked the same again by its nature
MAX_LOOP_KINDS = 2  # kinds of steps that make up a loop

CODE = "loop_detected"
NOTE_PREFIX = "[repeated: "


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """One call of the run that has its result."""

    name: str
    arguments: dict[str, Any]
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class LoopVerdict:
    """`refuse`: make no such call; otherwise `note`, if there is one, is added to its result."""

    repeats: int = 0
    refuse: bool = False
    note: str = ""


def check_repetition(name: str, arguments: dict[str, Any], steps: Sequence[CompletedCall], *, polls: bool = False) -> LoopVerdict:
    """What to do about a call, after these steps of the same run, oldest first."""
    repeats = _count_repeats(_call_key(name, arguments), steps)
    factor = POLLING_FACTOR if polls else 1
    if repeats >= DENY_AFTER_REPEATS * factor:
        return LoopVerdict(repeats, refuse=True)
    if repeats >= WARN_AFTER_REPEATS * factor:
        words = f"{NOTE_PREFIX}the {repeats} calls before this one were the same and gave the same result"
        return LoopVerdict(repeats, note=f"{words}; go on in another way, or say what keeps you from it]")
    return LoopVerdict(repeats)


def to_pending_call(name: str, arguments: dict[str, Any], steps: Sequence[CompletedCall]) -> CompletedCall:
    """A call of this turn as a step for those behind it."""
    same = (step for step in reversed(steps) if step.name == name and step.arguments == arguments and not _is_loop_denial(step))
    last = next(same, None)
    return CompletedCall(name, arguments, last.text if last else "", last.is_error if last else False)


def build_denied_result(name: str, why: ToolResult, opinion: LoopVerdict) -> ToolResult:
    """What the model hears of a call that does not run: why, with our note behind it, or our refusal in its place."""
    if opinion.refuse:
        return build_loop_denial(name, opinion)
    return replace(why, content=(*why.content, TextBlock(opinion.note))) if opinion.note else why


def build_loop_denial(name: str, opinion: LoopVerdict) -> ToolResult:
    words = f"{CODE}: `{name}` was called {opinion.repeats} times with these arguments and gave the same result each time"
    advice = "It did not run again. Do something else, or tell the user what you have found and what is in the way."
    return text_result(f"{words}. {advice}", details={"code": CODE, "repeats": opinion.repeats}, is_error=True)


def _count_repeats(call: str, steps: Sequence[CompletedCall]) -> int:
    """How often the call has just given its last result, with at most one other kind of step in between."""
    seen: set[tuple[str, str, bool]] = set()
    last: tuple[str, str, bool] | None = None
    repeats = 0
    for step in reversed(steps):
        if _is_loop_denial(step):
            continue  # our own refusal is neither a result nor progress
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
