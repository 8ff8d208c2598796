"""The JSON Schema keywords that are passed on, their valid values, and the types they apply to. Pure."""

import math
from collections.abc import Callable
from typing import Any

import orjson

Schema = dict[str, Any]

MAX_NUMBER = 2**63  # larger integers are not accepted by all JSON libraries
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
    except TypeError:  # for example, an integer of more than 64 bits
        return False
    return value is not None


# Keywords without subschemas: a check of the value, and the types they apply to (empty for all).
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
    """Return the schema's single type, stated or inferred from its keywords; empty if there is none or more than one."""
    if schema.get("properties"):
        return "object"
    if stated := schema.get("type"):
        return stated if isinstance(stated, str) else ""
    if literals := schema.get("enum"):
        return next((kind for kind in TYPES[::-1] if all(_is_of_type(kind, value) for value in literals)), "")
    implied = {types[0] for name, types in TYPES_BY_KEYWORD.items() if name in schema}
    return next((kind for kind in TYPES if kind in implied), "")


def keep_relevant_keywords(schema: Schema) -> Schema:
    """Remove the keywords and literals that don't apply to the schema's type."""
    kind = schema.get("type")
    if not isinstance(kind, str):
        return schema
    relevant = {name: value for name, value in schema.items() if kind in TYPES_BY_KEYWORD.get(name, (kind,))}
    if "enum" in relevant:
        literals = [value for value in relevant.pop("enum") if _is_of_type(kind, value)]
        relevant |= {"enum": literals} if literals else {}
    return relevant


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
