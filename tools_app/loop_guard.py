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

WARN_AFTER = 3  # identical results
REFUSE_AFTER = 5
POLLING_FACTOR = 4  # a tool that polls is asked the same again by its nature
DIFFERENT = 2  # kinds of steps that make up a loop

CODE = "loop_detected"
NOTE = "[repeated: "


@dataclass(frozen=True, slots=True)
class Step:
    """One call of the run that has its result."""

    name: str
    arguments: dict[str, Any]
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Opinion:
    """`refuse`: make no such call; otherwise `note`, if there is one, is added to its result."""

    repeats: int = 0
    refuse: bool = False
    note: str = ""


def judge(name: str, arguments: dict[str, Any], steps: Sequence[Step], *, polls: bool = False) -> Opinion:
    """What to do about a call, after these steps of the same run, oldest first."""
    repeats = _repeats(_call(name, arguments), steps)
    factor = POLLING_FACTOR if polls else 1
    if repeats >= REFUSE_AFTER * factor:
        return Opinion(repeats, refuse=True)
    if repeats >= WARN_AFTER * factor:
        words = f"{NOTE}the {repeats} calls before this one were the same and gave the same result"
        return Opinion(repeats, note=f"{words}; go on in another way, or say what keeps you from it]")
    return Opinion(repeats)


def pending(name: str, arguments: dict[str, Any], steps: Sequence[Step]) -> Step:
    """A call of this turn as a step for those behind it."""
    same = (step for step in reversed(steps) if step.name == name and step.arguments == arguments and not _is_ours(step))
    last = next(same, None)
    return Step(name, arguments, last.text if last else "", last.is_error if last else False)


def told_instead(name: str, why: ToolResult, opinion: Opinion) -> ToolResult:
    """What the model hears of a call that does not run: why, with our note behind it, or our refusal in its place."""
    if opinion.refuse:
        return refusal(name, opinion)
    return replace(why, content=(*why.content, TextBlock(opinion.note))) if opinion.note else why


def refusal(name: str, opinion: Opinion) -> ToolResult:
    words = f"{CODE}: `{name}` was called {opinion.repeats} times with these arguments and gave the same result each time"
    advice = "It did not run again. Do something else, or tell the user what you have found and what is in the way."
    return text_result(f"{words}. {advice}", details={"code": CODE, "repeats": opinion.repeats}, is_error=True)


def _repeats(call: str, steps: Sequence[Step]) -> int:
    """How often the call has just given its last result, with at most one other kind of step in between."""
    seen: set[tuple[str, str, bool]] = set()
    last: tuple[str, str, bool] | None = None
    repeats = 0
    for step in reversed(steps):
        if _is_ours(step):
            continue  # our own refusal is neither a result nor progress
        kind = (_call(step.name, step.arguments), step.text.partition(f"\n{NOTE}")[0], step.is_error)
        seen.add(kind)
        if len(seen) > DIFFERENT:
            break
        if kind[0] == call:
            last = last or kind
            repeats += kind == last
    return repeats


def _is_ours(step: Step) -> bool:
    return step.is_error and step.text.startswith(CODE)


def _call(name: str, arguments: dict[str, Any]) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True)}"
