"""What somebody can find out about things of somebody else: every call with their name, and the same call with a name of nothing.

The two answers must be the same but for the name, and must not hold a word of the other person. That a call looks at the name
at all is shown by a third one, with the name of something of the caller's own, which is answered otherwise.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clawsite.gateway.server.registry import Method
from clawsite.gateway.server.session_address import ByKey
from tests.harness.owned_objects import Belongings
from tests.protocol.isolation_params import (
    ALIKE,
    EXAMPLES,
    EXAMPLES_OF_METHOD,
    MAIN,
    NAME,
    NAMES,
    NOT_FOR_LONG,
    OF_METHOD,
    PLAIN,
    Own,
    Ref,
)

# What differs between two answers without telling anything: ids, moments, durations, form tokens.
FLEETING = (
    (re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<id>"),
    (re.compile(r"\b(?:[0-9a-f]{8}|[0-9a-f]{12})\b"), "<id>"),
    (re.compile(r'"id": [0-9]+'), '"id": <number>'),
    (re.compile(r"\b[A-Za-z0-9]{64}\b"), "<token>"),
    (re.compile(r"\bkey-[0-9]+\b"), "<key>"),
    (re.compile(r"\b1[0-9]{12}\b"), "<moment>"),
    (re.compile(r'(Ms|Seconds|uptime)": ?[0-9.]+'), r'\1": <time>'),
    (re.compile(r'nonce(="|-)[^"\']+'), "nonce"),
)


@dataclass(frozen=True, eq=False)
class Cell:
    """One parameter of one method or address, and one kind of thing it may name."""

    where: str
    parameter: str
    kind: str
    params: dict[str, Any]  # with NAME, NEW and Own to be filled

    def __str__(self) -> str:
        return f"{self.where} {self.parameter}=<{self.kind}>"

    def filled(self, name: Any, own: Belongings, new: str) -> Any:
        return filled(self.params, name, own, new)


NEW = object()


def filled(value: Any, name: Any, own: Belongings | None = None, new: str = "") -> Any:
    match value:
        case Own(kind):
            return own.named(kind) if own else None
        case list():
            return [filled(part, name, own, new) for part in value]
        case dict():
            return {key: filled(part, name, own, new) for key, part in value.items()}
    return name if value is NAME else new if value is NEW else value


def parameters(method: Method) -> dict[str, Any]:
    """Wire name -> field."""
    return {field.alias or name: field for name, field in method.params.model_fields.items()}


def taken_by(method: str, parameter: str) -> Ref | None:
    """What a parameter names; None when it names nothing of anybody's. KeyError: nobody has said."""
    if (method, parameter) in OF_METHOD:
        return OF_METHOD[method, parameter]
    if parameter in NAMES:
        return NAMES[parameter]
    if parameter in PLAIN:
        return None
    raise KeyError(parameter)


def _needed(method: Method) -> dict[str, Any]:
    """What must be said to be understood at all."""
    fields = parameters(method)
    examples = {**EXAMPLES, **EXAMPLES_OF_METHOD.get(method.name, {})}
    base = {name: examples[name] for name, field in fields.items() if name in examples and field.is_required()}
    return {**base, **NOT_FOR_LONG.get(method.name, {}), **({"idempotencyKey": NEW} if "idempotencyKey" in fields else {})}


def cells(method: Method) -> Iterator[Cell]:
    fields, base = parameters(method), _needed(method)
    for parameter in fields:
        if taken := taken_by(method.name, parameter):
            named = {"key": MAIN} if issubclass(method.params, ByKey) and parameter not in ("key", "sessionId") else {}
            for kind in taken.kinds:
                yield Cell(method.name, parameter, kind, {**base, **named, **taken.beside, parameter: taken.shape})


def plain_calls(method: Method) -> Iterator[Cell]:
    """Calls that name nothing: with what is needed, and with everything switched on that can be."""
    needed = {**_needed(method), **({"key": MAIN} if issubclass(method.params, ByKey) else {})}
    switches = {name: True for name, field in parameters(method).items() if "bool" in str(field.annotation)}
    for params in (needed, {**needed, **switches}):
        yield Cell(method.name, "nothing", "words", params)


def levelled(answer: str, *names: Any) -> str:
    """An answer without what it may say differently: the name it was asked for, and what is different every time."""
    for name in sorted({str(name) for name in names}, key=len, reverse=True):
        answer = re.sub(rf"(?<![0-9A-Za-z]){re.escape(name)}(?![0-9A-Za-z])", "<name>", answer)
    for pattern, word in FLEETING:
        answer = pattern.sub(word, answer)
    return answer


def told_of(frame: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in frame.items() if key != "id"}, sort_keys=True, ensure_ascii=False)


def leaks(cell: Cell, theirs: Belongings, answer: str, to_nothing: str, nothing: Any, *, name: Any = None) -> Iterator[str]:
    """What is wrong with the answer about their thing."""
    name = theirs.named(cell.kind) if name is None else name
    if "internal error" in answer:
        yield f"{cell} fails: {answer[:300]}"
    elif theirs.word in answer.replace(str(name), ""):
        yield f"{cell} tells the secret: {answer[:300]}"
    elif levelled(answer, name, nothing) != levelled(to_nothing, name, nothing):
        where = _first_difference(levelled(answer, name, nothing), levelled(to_nothing, name, nothing))
        yield f"{cell} is answered\n    …{answer[:40]}…{where[0]}\n  and for nothing\n    …{to_nothing[:40]}…{where[1]}"


def _first_difference(one: str, other: str) -> tuple[str, str]:
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[max(0, at - 60) : at + 150], other[max(0, at - 60) : at + 150]


def blind(answers: dict[Cell, bool]) -> list[str]:
    """Parameters for which no kind of name found anything of the caller's own, which the table does not explain."""
    seen: dict[tuple[str, str], bool] = {}
    for cell, differs in answers.items():
        seen[cell.where, cell.parameter] = seen.get((cell.where, cell.parameter), False) or differs
    return [
        f"{where} {parameter}" for (where, parameter), differs in seen.items() if not differs and (where, parameter) not in ALIKE
    ]
