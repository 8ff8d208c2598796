"""The words of JSON Schema that are passed on, what they can say, and about which types. Data and small questions; pure."""

import math
from collections.abc import Callable
from typing import Any

import orjson

Schema = dict[str, Any]

MAX_NUMBER = 2**63  # what JSON libraries take as a number
TYPES = ("object", "array", "string", "number", "integer", "boolean")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and abs(value) < MAX_NUMBER


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_sendable(value: Any) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:  # an integer of more than 64 bits
        return False
    return value is not None


# Keywords that stand for themselves: the values they can have, and the types they say something about (none: all).
SIMPLE_KEYWORDS: dict[str, tuple[Callable[[Any], bool], tuple[str, ...]]] = {
    "description": (_is_text, ()),
    "default": (is_sendable, ()),
    "examples": (lambda value: isinstance(value, list) and is_sendable(value), ()),
    "minimum": (_is_number, ("number", "integer")),
    "maximum": (_is_number, ("number", "integer")),
    "exclusiveMinimum": (_is_number, ("number", "integer")),
    "exclusiveMaximum": (_is_number, ("number", "integer")),
    "multipleOf": (lambda value: _is_number(value) and value > 0, ("number", "integer")),
    "minLength": (_is_count, ("string",)),
    "maxLength": (_is_count, ("string",)),
    "pattern": (_is_text, ("string",)),
    "format": (_is_text, ("string",)),
    "minItems": (_is_count, ("array",)),
    "maxItems": (_is_count, ("array",)),
    "uniqueItems": (lambda value: isinstance(value, bool), ("array",)),
    "minProperties": (_is_count, ("object",)),
    "maxProperties": (_is_count, ("object",)),
}
TYPES_BY_KEYWORD = {name: types for name, (_, types) in SIMPLE_KEYWORDS.items() if types} | {
    "items": ("array",),
    "properties": ("object",),
    "required": ("object",),
    "additionalProperties": ("object",),
}


def infer_type(schema: Schema) -> str:
    """The one type a schema has, said or told by its keywords; empty if it has none or says several."""
    if schema.get("properties"):
        return "object"
    if said := schema.get("type"):
        return said if isinstance(said, str) else ""
    if literals := schema.get("enum"):
        return next((kind for kind in TYPES[::-1] if all(_is_of_type(kind, value) for value in literals)), "")
    told = {types[0] for name, types in TYPES_BY_KEYWORD.items() if name in schema}
    return next((kind for kind in TYPES if kind in told), "")


def keep_relevant_keywords(schema: Schema) -> Schema:
    """Without the keywords and literals that say nothing about the schema's type."""
    kind = schema.get("type")
    if not isinstance(kind, str):
        return schema
    left = {name: value for name, value in schema.items() if kind in TYPES_BY_KEYWORD.get(name, (kind,))}
    if "enum" in left:
        literals = [value for value in left.pop("enum") if _is_of_type(kind, value)]
        left |= {"enum": literals} if literals else {}
    return left


def _is_of_type(kind: str, value: Any) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return _is_number(value) and value == int(value)
        case "number":
            return _is_number(value)
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)
