"""A server's input schema, made small and safe enough to show to a model and to check arguments by. Pure.

What is left out, the server still checks itself. `pattern` is among it: an expression from outside can take for ever, and
arguments are checked in the worker's event loop. References are put in place, because nested ones double at every level.
"""

import json
from typing import Any

from tools_app.core.hidden_characters import has_hidden_characters
from tools_app.sources.mcp.names import clean_label

MAX_BYTES = 32 * 1024
MAX_SUBSCHEMAS = 2_000  # schemas inside the schema, after references were put in place
MAX_DEPTH = 16
MAX_DESCRIPTION = 1_000

KEPT_KEYWORDS = frozenset({
    "type", "enum", "const", "default", "required", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
})  # fmt: skip
SCHEMA_KEYWORDS = ("items", "additionalProperties", "not")
SCHEMA_LIST_KEYWORDS = ("anyOf", "oneOf", "allOf", "prefixItems")


class UnusableSchema(ValueError):
    """Too large, too deep, or no schema of an object. The message says which, for the operator."""


def clean_schema(schema: Any) -> dict[str, Any]:
    """The schema of a tool's arguments: always an object with properties."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise UnusableSchema("its input schema does not describe an object")
    tidy = _SchemaCleaner(schema).part(schema, depth=0, inside=())
    if not isinstance(tidy, dict):
        raise UnusableSchema("its input schema does not describe an object")
    tidy.pop("description", None)
    tidy["type"] = "object"
    tidy.setdefault("properties", {})
    if len(json.dumps(tidy)) > MAX_BYTES:
        raise UnusableSchema(f"its input schema is larger than {MAX_BYTES // 1024} KB")
    from jsonschema import Draft202012Validator, SchemaError  # 0.3 s to import, and web processes never list tools

    try:
        Draft202012Validator.check_schema(tidy)
    except SchemaError as error:
        raise UnusableSchema(f"its input schema is no JSON Schema: {clean_label(error.message, 100)}") from None
    return tidy


class _SchemaCleaner:
    def __init__(self, whole: dict[str, Any]) -> None:
        self._root = whole
        self._parts = 0

    def part(self, schema: Any, *, depth: int, inside: tuple[str, ...]) -> dict[str, Any] | bool:
        self._parts += 1
        if self._parts > MAX_SUBSCHEMAS or depth > MAX_DEPTH:
            raise UnusableSchema("its input schema is nested too deeply or has too many parts")
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise UnusableSchema("its input schema is no JSON Schema")
        if "$ref" in schema:
            return self._resolve_reference(schema, depth, inside)
        tidy = {key: schema[key] for key in schema if key in KEPT_KEYWORDS}
        if isinstance(words := schema.get("description"), str) and (words := clean_label(words, MAX_DESCRIPTION)):
            tidy["description"] = words
        if isinstance(properties := schema.get("properties"), dict):
            tidy["properties"] = {
                _check_key(key): self.part(each, depth=depth + 1, inside=inside) for key, each in properties.items()
            }
        for key in SCHEMA_KEYWORDS:
            if isinstance(each := schema.get(key), dict | bool):
                tidy[key] = self.part(each, depth=depth + 1, inside=inside)
        for key in SCHEMA_LIST_KEYWORDS:
            if isinstance(each := schema.get(key), list) and each:
                tidy[key] = [self.part(one, depth=depth + 1, inside=inside) for one in each]
        return tidy

    def _resolve_reference(self, schema: dict[str, Any], depth: int, inside: tuple[str, ...]) -> dict[str, Any] | bool:
        """The schema referred to, in its place. One that contains itself ends at the second turn with "anything"."""
        place = schema["$ref"]
        if not isinstance(place, str) or not place.startswith("#/"):
            raise UnusableSchema("its input schema refers to another document, or to the whole of itself")
        if place in inside:
            return {}
        found: Any = self._root
        for step in place.removeprefix("#/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise UnusableSchema(f"its input schema refers to {clean_label(place, 60)}, which is not there")
            found = found[name]
        if not isinstance(found, dict):
            return self.part(found, depth=depth + 1, inside=(*inside, place))
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return self.part(found | beside, depth=depth + 1, inside=(*inside, place))


def _check_key(key: str) -> str:
    """Names of arguments are sent back as they are, so one with letters nobody can see is not shown at all."""
    if has_hidden_characters(key):
        raise UnusableSchema("the name of an argument has characters that cannot be seen")
    return key
