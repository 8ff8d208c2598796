"""Messages on the bus: one frozen dataclass per kind, declared in the app that publishes it.

On the wire a message is a JSON object: its fields, and its kind as `k`. During a rolling upgrade the other process may be older
or newer, so unknown kinds and unknown fields are ignored. New fields need a default; renaming a field makes a new kind.
"""

import dataclasses
from collections.abc import Container
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import orjson


class BusMessage:
    """Base class. Its subclasses are frozen dataclasses: `class RunChanged(BusMessage, kind="run")`."""

    kind: ClassVar[str]

    def __init_subclass__(cls, kind: str) -> None:
        if (other := _classes.get(kind)) and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"{other.__module__}.{other.__qualname__} already has the message kind {kind!r}")
        cls.kind = kind
        _classes[kind] = cls


class MalformedMessage(ValueError):
    """Not a message, or one without the fields of its kind."""


_classes: dict[str, type[BusMessage]] = {}


def registered_kinds() -> list[type[BusMessage]]:
    return list(_classes.values())


def encode(message: BusMessage) -> bytes:
    return orjson.dumps({"k": message.kind, **vars(message)})


def decode(line: bytes, handled: Container[type[BusMessage]]) -> BusMessage | None:
    """Build a message that another process sent; None if this process doesn't know or handle its kind. Raise MalformedMessage.

    The types of its fields are checked, but not the types inside them.
    """
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise MalformedMessage(f"not JSON: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("k"), str):
        raise MalformedMessage("no object with a kind")
    cls = _classes.get(data["k"])
    if cls is None or cls not in handled:
        return None
    message = cls.__new__(cls)
    fields = vars(message)  # filled directly, because a frozen dataclass's `__init__` takes longer than parsing an event
    for name, types, default in _fields_of(cls.kind):
        fields[name] = value = data.get(name, default)
        if not isinstance(value, types):
            raise MalformedMessage(f"{cls.kind}: invalid or missing {name}")
    return message


@cache
def _fields_of(kind: str) -> list[tuple[str, tuple[type, ...], Any]]:
    """Return name, types and default of each field; a required field has a default that is of none of its types."""
    cls = _classes[kind]
    hints = get_type_hints(cls)
    return [
        (field.name, _json_types(hints[field.name]), field.default)
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]  # every subclass is a dataclass
    ]


def _json_types(hint: Any) -> tuple[type, ...]:
    """Return the types that a field annotated like this has after it was parsed from JSON."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return tuple(each for arg in get_args(hint) for each in _json_types(arg))
    if origin is Literal:
        return tuple({type(arg) for arg in get_args(hint)})
    return (dict,) if is_typeddict(hint) else (origin or hint,)
