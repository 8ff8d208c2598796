"""Everything a client of the tests is sent, held against the schema that is published.

Objects are closed here that are open in the document: what nobody has published is not sent either.
"""

import functools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import jsonschema_rs

from clawsite.gateway.server.schema import protocol_schema

Frame = dict[str, Any]


class Published:
    """What one client is told. It remembers what was asked under which id, because an answer does not say so."""

    def __init__(self) -> None:
        self._asked: dict[str, set[str]] = defaultdict(set)

    def asked(self, text: str | bytes) -> None:
        try:
            frame = json.loads(text)
        except ValueError:
            return
        if isinstance(frame, dict) and isinstance(id := frame.get("id"), str) and isinstance(name := frame.get("method"), str):
            self._asked[_heard(id)].add(_heard(name))

    def faults(self, frame: Frame) -> list[str]:
        """What is wrong with a frame. Under an id that was used for several methods, it may be the answer to each of them."""
        found = list(_wrong(("frames", frame["type"]), frame))
        if frame["type"] == "event":
            found += _wrong(("events", frame["event"], "payload"), frame["payload"])
        elif frame["ok"]:
            each = [list(_wrong(("methods", name, "result"), frame["payload"])) for name in sorted(self._asked[frame["id"]])]
            found += min(each, key=len, default=[f"{frame['id']!r} was not asked"])
        return found


def _heard(text: str) -> str:
    """NUL is taken out of everything that is said."""
    return text.replace("\x00", "")


def _wrong(place: tuple[str, ...], value: Any) -> Iterator[str]:
    validator = _validator(place)
    if validator is None:
        yield f"{'/'.join(place)} is not published"
        return
    for fault in _in_words(validator.iter_errors(value)):
        yield f"{'/'.join(place)} at {fault}"


def _in_words(errors: Iterable[Any]) -> Iterator[str]:
    """Where and what; of alternatives, what is wrong with each."""
    for error in errors:
        yield f"/{'/'.join(map(str, error.instance_path))}: {error.message[-300:]}"
        for alternative in getattr(error.kind, "context", ()):
            yield from _in_words(alternative)


@functools.cache
def _validator(place: tuple[str, ...]) -> jsonschema_rs.Draft202012Validator | None:
    part: Any = protocol_schema()
    for name in place:
        part = part.get(name)
        if part is None:
            return None
    return jsonschema_rs.Draft202012Validator(_closed(part))


def _closed(schema: Any) -> Any:
    """The same, but an object has no other properties than those that are named."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(part) for name, part in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        closed.setdefault("additionalProperties", False)
    return closed
