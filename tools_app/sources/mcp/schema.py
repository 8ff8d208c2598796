"""Reduce a server's input schema to what is small and safe enough to show a model and to validate arguments with. Pure.

The server itself still checks what is left out. `pattern` is removed because a third-party regular expression can take
forever to match, and arguments are checked in the worker's event loop. References are inlined; nested ones double at every
level, hence the limits.
"""

import json
from typing import Any

from tools_app.core.hidden_characters import has_hidden_characters
from tools_app.sources.mcp.names import clean_label

MAX_BYTES = 32 * 1024
MAX_SUBSCHEMAS = 2_000  # after inlining references
MAX_DEPTH = 16
MAX_DESCRIPTION = 1_000

KEPT_KEYWORDS = frozenset({
    "type", "enum", "const", "default", "required", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
})  # fmt: skip
SCHEMA_KEYWORDS = ("items", "additionalProperties", "not")
SCHEMA_LIST_KEYWORDS = ("anyOf", "oneOf", "allOf", "prefixItems")


class UnusableSchema(ValueError):
    """Too large, too deep, or not the schema of an object. The message tells the operator which."""


def clean_schema(schema: Any) -> dict[str, Any]:
    """Return the cleaned schema of a tool's arguments: always an object with properties."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise UnusableSchema("its input schema does not describe an object")
    cleaned = _SchemaCleaner(schema).part(schema, depth=0, inside=())
    if not isinstance(cleaned, dict):
        raise UnusableSchema("its input schema does not describe an object")
    cleaned.pop("description", None)
    cleaned["type"] = "object"
    cleaned.setdefault("properties", {})
    if len(json.dumps(cleaned)) > MAX_BYTES:
        raise UnusableSchema(f"its input schema is larger than {MAX_BYTES // 1024} KB")
    from jsonschema import Draft202012Validator, SchemaError  # 0.3 s to import, and web processes never list tools

    try:
        Draft202012Validator.check_schema(cleaned)
    except SchemaError as error:
        raise UnusableSchema(f"its input schema is not valid JSON Schema: {clean_label(error.message, 100)}") from None
    return cleaned


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
            raise UnusableSchema("its input schema is not valid JSON Schema")
        if "$ref" in schema:
            return self._resolve_reference(schema, depth, inside)
        cleaned = {key: schema[key] for key in schema if key in KEPT_KEYWORDS}
        if isinstance(description := schema.get("description"), str) and (description := clean_label(description, MAX_DESCRIPTION)):
            cleaned["description"] = description
        if isinstance(properties := schema.get("properties"), dict):
            cleaned["properties"] = {
                _check_key(key): self.part(each, depth=depth + 1, inside=inside) for key, each in properties.items()
            }
        for key in SCHEMA_KEYWORDS:
            if isinstance(each := schema.get(key), dict | bool):
                cleaned[key] = self.part(each, depth=depth + 1, inside=inside)
        for key in SCHEMA_LIST_KEYWORDS:
            if isinstance(each := schema.get(key), list) and each:
                cleaned[key] = [self.part(one, depth=depth + 1, inside=inside) for one in each]
        return cleaned

    def _resolve_reference(self, schema: dict[str, Any], depth: int, inside: tuple[str, ...]) -> dict[str, Any] | bool:
        """Inline the referenced schema. A recursive reference becomes "anything" at the second level."""
        pointer = schema["$ref"]
        if not isinstance(pointer, str) or not pointer.startswith("#/"):
            raise UnusableSchema("its input schema refers to another document or to its own root")
        if pointer in inside:
            return {}
        target: Any = self._root
        for step in pointer.removeprefix("#/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, dict) or name not in target:
                raise UnusableSchema(f"its input schema refers to {clean_label(pointer, 60)}, which doesn't exist")
            target = target[name]
        if not isinstance(target, dict):
            return self.part(target, depth=depth + 1, inside=(*inside, pointer))
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        return self.part(target | siblings, depth=depth + 1, inside=(*inside, pointer))


def _check_key(key: str) -> str:
    """Reject argument names with invisible characters: names are sent back unchanged, so they can't be cleaned."""
    if has_hidden_characters(key):
        raise UnusableSchema("an argument name has invisible characters")
    return key
