"""Check every received frame against the published protocol schema.

Objects are treated as closed: a property that is not published must not be sent.
"""

import functools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import jsonschema_rs

from clawsite.gateway.server.schema import protocol_schema

Frame = dict[str, Any]


class SchemaChecker:
    """Checks the frames of one client. Remembers the method of each request ID, because a response doesn't contain it."""

    def __init__(self) -> None:
        self._methods: dict[str, set[str]] = defaultdict(set)

    def note_request(self, text: str | bytes) -> None:
        try:
            frame = json.loads(text)
        except ValueError:
            return
        if isinstance(frame, dict) and isinstance(id := frame.get("id"), str) and isinstance(name := frame.get("method"), str):
            self._methods[_without_nul(id)].add(_without_nul(name))

    def find_faults(self, frame: Frame) -> list[str]:
        """Return the faults of a frame. If its ID was used for several methods, any of them may match."""
        found = list(_wrong(("frames", frame["type"]), frame))
        if frame["type"] == "event":
            found += _wrong(("events", frame["event"], "payload"), frame["payload"])
        elif frame["ok"]:
            each = [list(_wrong(("methods", name, "result"), frame["payload"])) for name in sorted(self._methods[frame["id"]])]
            found += min(each, key=len, default=[f"{frame['id']!r} was not requested"])
        return found


def _without_nul(text: str) -> str:
    """The gateway strips NUL from all input."""
    return text.replace("\x00", "")


def _wrong(place: tuple[str, ...], value: Any) -> Iterator[str]:
    validator = _validator(place)
    if validator is None:
        yield f"{'/'.join(place)} is not published"
        return
    for fault in _describe(validator.iter_errors(value)):
        yield f"{'/'.join(place)} at {fault}"


def _describe(errors: Iterable[Any]) -> Iterator[str]:
    """Yield path and message of each error, including those of alternatives."""
    for error in errors:
        yield f"/{'/'.join(map(str, error.instance_path))}: {error.message[-300:]}"
        for alternative in getattr(error.kind, "context", ()):
            yield from _describe(alternative)


@functools.cache
def _validator(place: tuple[str, ...]) -> jsonschema_rs.Draft202012Validator | None:
    part: Any = protocol_schema()
    for name in place:
        part = part.get(name)
        if part is None:
            return None
    return jsonschema_rs.Draft202012Validator(_closed(part))


def _closed(schema: Any) -> Any:
    """Return the schema with additional properties forbidden in all objects."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(part) for name, part in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        closed.setdefault("additionalProperties", False)
    return closed
