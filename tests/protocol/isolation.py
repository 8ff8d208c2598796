"""Check what a user can find out about another user's objects: each call is made with the object's ID and with an unknown ID.

The two responses must be equal except for the ID, and must not contain the other user's secret. A third call with an object of the
caller must get a different response; this proves that the call uses the ID at all.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clawsite.gateway.server.registry import Method
from clawsite.gateway.server.session_address import ByKey
from tests.harness.owned_objects import OwnedObjects
from tests.protocol.isolation_params import (
    EXAMPLES,
    EXAMPLES_OF_METHOD,
    MAIN,
    NAME,
    PLAIN,
    REFS,
    REFS_BY_METHOD,
    SAME_RESPONSE,
    SHORT_TIMEOUTS,
    Own,
    Ref,
)

# Values that differ between two responses without revealing anything: IDs, timestamps, durations, form tokens.
VOLATILE = (
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
class IsolationCase:
    """One parameter of one method or URL, and one kind of object that it can refer to."""

    where: str
    parameter: str
    kind: str
    params: dict[str, Any]  # with placeholders NAME, NEW and Own

    def __str__(self) -> str:
        return f"{self.where} {self.parameter}=<{self.kind}>"

    def filled(self, name: Any, own: OwnedObjects, new: str) -> Any:
        return fill_params(self.params, name, own, new)


NEW = object()


def fill_params(value: Any, name: Any, own: OwnedObjects | None = None, new: str = "") -> Any:
    match value:
        case Own(kind):
            return own.named(kind) if own else None
        case list():
            return [fill_params(part, name, own, new) for part in value]
        case dict():
            return {key: fill_params(part, name, own, new) for key, part in value.items()}
    return name if value is NAME else new if value is NEW else value


def parameters(method: Method) -> dict[str, Any]:
    """Return the method's fields by wire name."""
    return {field.alias or name: field for name, field in method.params.model_fields.items()}


def find_reference(method: str, parameter: str) -> Ref | None:
    """Return what a parameter refers to, or None if it is plain data. Raises KeyError if isolation_params.py lacks it."""
    if (method, parameter) in REFS_BY_METHOD:
        return REFS_BY_METHOD[method, parameter]
    if parameter in REFS:
        return REFS[parameter]
    if parameter in PLAIN:
        return None
    raise KeyError(parameter)


def _needed(method: Method) -> dict[str, Any]:
    """Return the required parameters."""
    fields = parameters(method)
    examples = {**EXAMPLES, **EXAMPLES_OF_METHOD.get(method.name, {})}
    base = {name: examples[name] for name, field in fields.items() if name in examples and field.is_required()}
    return {**base, **SHORT_TIMEOUTS.get(method.name, {}), **({"idempotencyKey": NEW} if "idempotencyKey" in fields else {})}


def isolation_cases(method: Method) -> Iterator[IsolationCase]:
    fields, base = parameters(method), _needed(method)
    for parameter in fields:
        if taken := find_reference(method.name, parameter):
            named = {"key": MAIN} if issubclass(method.params, ByKey) and parameter not in ("key", "sessionId") else {}
            for kind in taken.kinds:
                yield IsolationCase(method.name, parameter, kind, {**base, **named, **taken.beside, parameter: taken.shape})


def plain_calls(method: Method) -> Iterator[IsolationCase]:
    """Yield calls without references: with the required parameters only, and with all flags enabled."""
    needed = {**_needed(method), **({"key": MAIN} if issubclass(method.params, ByKey) else {})}
    switches = {name: True for name, field in parameters(method).items() if "bool" in str(field.annotation)}
    for params in (needed, {**needed, **switches}):
        yield IsolationCase(method.name, "nothing", "words", params)


def normalize(answer: str, *names: Any) -> str:
    """Replace the requested ID and volatile values in a response."""
    for name in sorted({str(name) for name in names}, key=len, reverse=True):
        answer = re.sub(rf"(?<![0-9A-Za-z]){re.escape(name)}(?![0-9A-Za-z])", "<name>", answer)
    for pattern, word in VOLATILE:
        answer = pattern.sub(word, answer)
    return answer


def serialize_frame(frame: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in frame.items() if key != "id"}, sort_keys=True, ensure_ascii=False)


def find_leaks(
    cell: IsolationCase, theirs: OwnedObjects, answer: str, to_nothing: str, nothing: Any, *, name: Any = None
) -> Iterator[str]:
    """Yield what is wrong with the response about another user's object."""
    name = theirs.named(cell.kind) if name is None else name
    if "internal error" in answer:
        yield f"{cell} fails: {answer[:300]}"
    elif theirs.secret in answer.replace(str(name), ""):
        yield f"{cell} reveals the secret: {answer[:300]}"
    elif normalize(answer, name, nothing) != normalize(to_nothing, name, nothing):
        where = _first_difference(normalize(answer, name, nothing), normalize(to_nothing, name, nothing))
        yield f"{cell} returns\n    …{answer[:40]}…{where[0]}\n  and for an unknown ID\n    …{to_nothing[:40]}…{where[1]}"


def _first_difference(one: str, other: str) -> tuple[str, str]:
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[max(0, at - 60) : at + 150], other[max(0, at - 60) : at + 150]


def unchecked_parameters(answers: dict[IsolationCase, bool]) -> list[str]:
    """Return parameters for which no object of the caller was found, unless the table allows it."""
    seen: dict[tuple[str, str], bool] = {}
    for cell, differs in answers.items():
        seen[cell.where, cell.parameter] = seen.get((cell.where, cell.parameter), False) or differs
    return [
        f"{where} {parameter}"
        for (where, parameter), differs in seen.items()
        if not differs and (where, parameter) not in SAME_RESPONSE
    ]
