"""Anybody's JSON Schema made plain: an object of named properties without references, conditions and null. Pure.

Tools of MCP servers and plugins bring whatever their libraries write, and providers refuse a whole request for one keyword.
So nothing is passed on that is not known here: unions of objects become one object, literal unions an enum, references are
put in their place, and a type that can be told is told. A schema never gets narrower by it, only wider or better said:
whether arguments fit is the tool's own check.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import orjson

from tools_app.schemas.keywords import SIMPLE_KEYWORDS, TYPES, Schema, infer_type, is_sendable, keep_relevant_keywords

MAX_NODES = 2000  # references that name each other twice grow without end
MAX_DEPTH = 16


def normalize_schema(schema: Any) -> Schema:
    """Any schema as a plain object; what describes no object becomes one without properties."""
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
    """Reads one document. References outside it, and into themselves, lead to a schema that allows anything."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._left = MAX_NODES

    def read(self, schema: Any, depth: int = 0, inside: tuple[str, ...] = ()) -> Schema:
        self._left -= 1
        if not isinstance(schema, dict) or depth > MAX_DEPTH or self._left < 0:
            return {}

        def below(value: Any) -> Schema:
            return self.read(value, depth + 1, inside)

        def members(name: str) -> list[Schema]:
            found = schema.get(name)
            return [below(each) for each in found] if isinstance(found, list) else []

        parts = [self._own(schema, below, members("prefixItems"))]
        if isinstance(ref := schema.get("$ref"), str) and ref not in inside:
            parts.append(self.read(self._resolve_reference(ref), depth + 1, (*inside, ref)))
        parts += members("allOf")
        parts += [_build_union(members(name)) for name in ("anyOf", "oneOf")]
        return reduce(_merge, parts)

    def _own(self, schema: Schema, below: Callable[[Any], Schema], in_order: list[Schema]) -> Schema:
        own = {name: schema[name] for name, (fits, _) in SIMPLE_KEYWORDS.items() if name in schema and fits(schema[name])}
        types = schema["type"] if isinstance(schema.get("type"), list) else [schema.get("type")]
        if known := [each for each in TYPES if each in types]:
            own["type"] = known[0] if len(known) == 1 else known
        values = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
        if literals := _distinct(value for value in values if is_sendable(value)):
            own["enum"] = literals
        if isinstance(named := schema.get("properties"), dict):
            own["properties"] = {str(name): below(each) for name, each in named.items()}
        if isinstance(required := schema.get("required"), list):
            own["required"] = list(dict.fromkeys(name for name in required if isinstance(name, str)))
        items = schema.get("items")
        tuples = [below(each) for each in items] if isinstance(items, list) else [below(items)] if isinstance(items, dict) else []
        if tuples or in_order:
            own["items"] = _build_union([*in_order, *tuples])
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            own["additionalProperties"] = below(others) or True
        elif isinstance(others, bool) and not schema.get("patternProperties"):  # those are left out, and must stay allowed
            own["additionalProperties"] = others
        return own

    def _resolve_reference(self, ref: str) -> Any:
        """What a local reference (`#/$defs/name`) points to, or None."""
        found = self._document
        path = ref.removeprefix("#").strip("/")
        for step in path.split("/") if ref.startswith("#") and path else []:
            step = step.replace("~1", "/").replace("~0", "~")
            found = found.get(step) if isinstance(found, dict) else None
        return found if ref.startswith("#") else None


def _merge(first: Schema, second: Schema) -> Schema:
    """What both say; where they differ, the first has the word. No property is lost."""
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
    """A union beside something of one type: only its member of that type is meant, or the one with properties."""
    if "anyOf" not in schema or not (kind := infer_type(by)):
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    meant: Schema = next((each for each in schema["anyOf"] if each.get("properties") or infer_type(each) == kind), {})
    return _merge(rest, meant)


def _build_union(variants: Sequence[Schema]) -> Schema:
    """One schema for all of these: those of one type as one, `anyOf` only where types differ. Null and anything are left out."""
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
    kept = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    for name in ("description", "default"):
        kept |= next(({name: each[name]} for each in variants if name in each), {})
    if all("enum" in each for each in variants):
        kept["enum"] = _distinct(value for each in variants for value in each["enum"])
    if first["type"] == "array" and all("items" in each for each in variants):
        kept["items"] = _build_union([each["items"] for each in variants])
    if first["type"] == "object":
        names = dict.fromkeys(name for each in variants for name in each.get("properties", {}))
        kept["properties"] = {
            name: _build_union([each["properties"][name] for each in variants if name in each.get("properties", {})])
            for name in names
        }
        kept["required"] = [
            name for name in first.get("required", ()) if all(name in other.get("required", ()) for other in others)
        ]
    return kept


def _finish(schema: Schema) -> Schema:
    """Types told where they can be, and nothing said that means nothing."""
    done = dict(schema)
    if kind := infer_type(done):
        done = keep_relevant_keywords(done | {"type": kind})
    if "properties" in done:
        done["properties"] = {name: _finish(each) for name, each in done["properties"].items()}
    required = [name for name in done.pop("required", ()) if name in done.get("properties", {})]
    if required:
        done["required"] = required
    if "items" in done or done.get("type") == "array":  # OpenAI refuses arrays without it
        done["items"] = _finish(done.get("items", {}))
    if isinstance(done.get("additionalProperties"), dict):
        done["additionalProperties"] = _finish(done["additionalProperties"]) or True
    if "anyOf" in done:
        done["anyOf"] = [_finish(each) for each in done["anyOf"]]
    return done


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Without repetitions; 1 and true are different here, though not to Python."""
    seen = {orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS): value for value in values}
    return list(seen.values())
