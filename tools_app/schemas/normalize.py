"""Normalize any JSON Schema to an object with named properties, without references, conditions and null. Pure.

MCP servers and plugins send whatever their libraries generate, and a provider may reject a whole request because of one keyword.
So only known keywords are passed on: unions of objects become one object, unions of literals an enum, references are resolved,
and types are inferred where possible. The result never accepts less than the original; the tool itself validates the
arguments.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import orjson

from tools_app.schemas.keywords import SIMPLE_KEYWORDS, TYPES, Schema, infer_type, is_sendable, keep_relevant_keywords

MAX_NODES = 2000  # mutual references can grow exponentially
MAX_DEPTH = 16


def normalize_schema(schema: Any) -> Schema:
    """Return the schema as a plain object. One that doesn't describe an object becomes an object without properties."""
    plain = _finish(_SchemaReader(schema).read(schema))
    if "anyOf" in plain:
        objects = [each for each in plain.pop("anyOf") if each.get("type") == "object"]
        plain = _finish(_merge(plain, objects[0])) if objects else {}
    kind = plain.get("type", ())
    if kind == "object" or (isinstance(kind, list) and "object" in kind):
        plain = keep_relevant_keywords(plain | {"type": "object"})
        plain.pop("enum", None)
        return {**plain, "properties": plain.get("properties", {})}
    return {"type": "object", "properties": {}}


class _SchemaReader:
    """Reads one document. External and circular references become a schema that allows anything."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._nodes_left = MAX_NODES

    def read(self, schema: Any, depth: int = 0, inside: tuple[str, ...] = ()) -> Schema:
        self._nodes_left -= 1
        if not isinstance(schema, dict) or depth > MAX_DEPTH or self._nodes_left < 0:
            return {}

        def below(value: Any) -> Schema:
            return self.read(value, depth + 1, inside)

        def members(name: str) -> list[Schema]:
            subschemas = schema.get(name)
            return [below(each) for each in subschemas] if isinstance(subschemas, list) else []

        parts = [self._read_keywords(schema, below, members("prefixItems"))]
        if isinstance(ref := schema.get("$ref"), str) and ref not in inside:
            parts.append(self.read(self._resolve_reference(ref), depth + 1, (*inside, ref)))
        parts += members("allOf")
        parts += [_build_union(members(name)) for name in ("anyOf", "oneOf")]
        return reduce(_merge, parts)

    def _read_keywords(self, schema: Schema, below: Callable[[Any], Schema], prefix_items: list[Schema]) -> Schema:
        result = {name: schema[name] for name, (fits, _) in SIMPLE_KEYWORDS.items() if name in schema and fits(schema[name])}
        types = schema["type"] if isinstance(schema.get("type"), list) else [schema.get("type")]
        if known := [each for each in TYPES if each in types]:
            result["type"] = known[0] if len(known) == 1 else known
        values = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
        if literals := _distinct(value for value in values if is_sendable(value)):
            result["enum"] = literals
        if isinstance(named := schema.get("properties"), dict):
            result["properties"] = {str(name): below(each) for name, each in named.items()}
        if isinstance(required := schema.get("required"), list):
            result["required"] = list(dict.fromkeys(name for name in required if isinstance(name, str)))
        items = schema.get("items")
        tuples = [below(each) for each in items] if isinstance(items, list) else [below(items)] if isinstance(items, dict) else []
        if tuples or prefix_items:
            result["items"] = _build_union([*prefix_items, *tuples])
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            result["additionalProperties"] = below(others) or True
        elif isinstance(others, bool) and not schema.get("patternProperties"):  # that keyword is dropped; its properties stay valid
            result["additionalProperties"] = others
        return result

    def _resolve_reference(self, ref: str) -> Any:
        """Return the target of a local reference (`#/$defs/name`), or None."""
        target = self._document
        path = ref.removeprefix("#").strip("/")
        for step in path.split("/") if ref.startswith("#") and path else []:
            step = step.replace("~1", "/").replace("~0", "~")
            target = target.get(step) if isinstance(target, dict) else None
        return target if ref.startswith("#") else None


def _merge(first: Schema, second: Schema) -> Schema:
    """Combine both schemas; where they differ, the first wins. No property is lost."""
    if "anyOf" in first and "anyOf" in second:
        second = {**second, **_build_union([*first["anyOf"], *second["anyOf"]])}
        first = {name: value for name, value in first.items() if name != "anyOf"}
    first, second = _narrow_union(first, second), _narrow_union(second, first)
    merged = {**second, **first}
    if "properties" in first and "properties" in second:
        common = {
            name: _merge(each, second["properties"][name])
            for name, each in first["properties"].items()
            if name in second["properties"]
        }
        merged["properties"] = {**second["properties"], **first["properties"], **common}
    if "required" in first and "required" in second:
        merged["required"] = list(dict.fromkeys([*first["required"], *second["required"]]))
    return merged


def _narrow_union(schema: Schema, by: Schema) -> Schema:
    """If `by` has a single type, reduce a union to its member of that type, or the one with properties."""
    if "anyOf" not in schema or not (kind := infer_type(by)):
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    member: Schema = next((each for each in schema["anyOf"] if each.get("properties") or infer_type(each) == kind), {})
    return _merge(rest, member)


def _build_union(variants: Sequence[Schema]) -> Schema:
    """Return one schema for all variants. Those of one type are merged; `anyOf` is only used for different types.

    Null and untyped variants are dropped.
    """
    members: list[Schema] = []
    for variant in variants:
        if "anyOf" in variant:
            members += variant["anyOf"]
        elif isinstance(types := variant.get("type"), list) and not variant.get("properties"):
            members += [keep_relevant_keywords({**variant, "type": each}) for each in types]
        else:
            members.append(variant)
    groups: dict[str, list[Schema]] = {}
    for member in members:
        if kind := infer_type(member):
            same = groups.setdefault(kind, [])
            if (typed := {**member, "type": kind}) not in same:
                same.append(typed)
    merged = [_merge_same_type(same) for same in groups.values()]
    if not merged:
        return next((member for member in members if member), {})
    return merged[0] if len(merged) == 1 else {"anyOf": merged}


def _merge_same_type(variants: list[Schema]) -> Schema:
    first, *others = variants
    if not others:
        return first
    merged = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    for name in ("description", "default"):
        merged |= next(({name: each[name]} for each in variants if name in each), {})
    if all("enum" in each for each in variants):
        merged["enum"] = _distinct(value for each in variants for value in each["enum"])
    if first["type"] == "array" and all("items" in each for each in variants):
        merged["items"] = _build_union([each["items"] for each in variants])
    if first["type"] == "object":
        names = dict.fromkeys(name for each in variants for name in each.get("properties", {}))
        merged["properties"] = {
            name: _build_union([each["properties"][name] for each in variants if name in each.get("properties", {})])
            for name in names
        }
        merged["required"] = [
            name for name in first.get("required", ()) if all(name in other.get("required", ()) for other in others)
        ]
    return merged


def _finish(schema: Schema) -> Schema:
    """Add types where they can be inferred, and remove keywords without effect."""
    done = dict(schema)
    if kind := infer_type(done):
        done = keep_relevant_keywords(done | {"type": kind})
    if "properties" in done:
        done["properties"] = {name: _finish(each) for name, each in done["properties"].items()}
    required = [name for name in done.pop("required", ()) if name in done.get("properties", {})]
    if required:
        done["required"] = required
    if "items" in done or done.get("type") == "array":  # OpenAI rejects arrays without it
        done["items"] = _finish(done.get("items", {}))
    if isinstance(done.get("additionalProperties"), dict):
        done["additionalProperties"] = _finish(done["additionalProperties"]) or True
    if "anyOf" in done:
        done["anyOf"] = [_finish(each) for each in done["anyOf"]]
    return done


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Remove duplicates. 1 and true are different here, unlike in Python."""
    seen = {orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS): value for value in values}
    return list(seen.values())
