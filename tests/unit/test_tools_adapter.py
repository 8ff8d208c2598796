"""Any schema is adapted to what each provider accepts."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools_app.schemas.argument_aliases import ALIASES, apply_aliases
from tools_app.schemas.keywords import TYPES
from tools_app.schemas.normalize import normalize_schema
from tools_app.schemas.provider_profiles import adapt_parameters
from tools_app.sources import registry

PROVIDERS = {"openai": "gpt-5", "anthropic": "claude-sonnet-5-5", "gemini": "gemini-3-pro", "ollama": "qwen"}


def prop(schema: Any) -> Any:
    return normalize_schema({"type": "object", "properties": {"x": schema}})["properties"]["x"]


OBJECT_A = {"type": "object", "properties": {"a": {"type": "string"}, "k": {"const": "one"}}, "required": ["a", "k"]}
OBJECT_B = {"type": "object", "properties": {"b": {"type": "integer"}, "k": {"const": "two"}}, "required": ["b", "k"]}


@pytest.mark.parametrize("union", ["anyOf", "oneOf"])
def test_union_of_objects_is_merged_into_one(union):
    assert normalize_schema({union: [OBJECT_A, OBJECT_B]}) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "k": {"type": "string", "enum": ["one", "two"]}, "b": {"type": "integer"}},
        "required": ["k"],
    }


def test_keywords_next_to_union_apply_to_all_members():
    base = {"type": "object", "properties": {"id": {"type": "string"}, "name": {"type": "string"}}, "required": ["id"]}
    both = normalize_schema({**base, "anyOf": [{"required": ["name"]}, {"required": ["id", "name"]}]})
    assert both == {**base, "required": ["id", "name"]}
    assert normalize_schema({**base, "oneOf": [OBJECT_A, OBJECT_B]})["properties"].keys() == {"id", "name", "a", "b", "k"}


def test_all_of_is_merged():
    joined = normalize_schema({"allOf": [OBJECT_A, {"properties": {"c": {"type": "boolean"}}, "required": ["c"]}]})
    assert joined["properties"].keys() == {"a", "k", "c"}
    assert joined["required"] == ["a", "k", "c"]


@pytest.mark.parametrize(
    ("given_schema", "plain"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "X"}, {"type": "string"}),
        ({"type": ["integer", "null"], "minimum": 1}, {"type": "integer", "minimum": 1}),
        ({"anyOf": [{"const": "a"}, {"const": "b"}, {"type": "null"}]}, {"type": "string", "enum": ["a", "b"]}),
        ({"const": 3}, {"type": "integer", "enum": [3]}),
        ({"enum": ["a", None]}, {"type": "string", "enum": ["a"]}),
        ({"enum": [1, True]}, {"enum": [1, True]}),
        ({"properties": {"y": {}}}, {"type": "object", "properties": {"y": {}}}),
        ({"items": {"type": "string"}}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "array", "items": [{"type": "string"}, {"type": "string"}]}, {"type": "array", "items": {"type": "string"}}),
        ({"minLength": 2}, {"type": "string", "minLength": 2}),
        ({"type": "string", "minimum": 2, "items": {}}, {"type": "string"}),
        ({"minimum": "2", "maximum": True, "exclusiveMinimum": True}, {}),
        ({"type": "file", "if": {}, "x-internal": 1, "$comment": "no"}, {}),
        (True, {}),
        ({"type": "number", "maximum": 2**70, "default": 2**70}, {"type": "number"}),
        (
            {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "both"},
            {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "both"},
        ),
        ({"type": "object", "additionalProperties": {"type": "null"}}, {"type": "object", "additionalProperties": True}),
        ({"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False}, {"type": "object"}),
    ],
)
def test_property_schemas_are_simplified(given_schema, plain):
    assert prop(given_schema) == plain


def test_references_are_resolved():
    schema = {
        "type": "object",
        "properties": {"to": {"$ref": "#/$defs/Place", "description": "where"}, "odd~/name": {"$ref": "#/$defs/a~1b~0c"}},
        "$defs": {
            "Place": {"type": "object", "properties": {"city": {"$ref": "#/definitions/Name"}}},
            "a/b~c": {"type": "integer"},
        },
        "definitions": {"Name": {"type": "string"}},
    }
    assert normalize_schema(schema)["properties"] == {
        "to": {"type": "object", "properties": {"city": {"type": "string"}}, "description": "where"},
        "odd~/name": {"type": "integer"},
    }


def test_circular_reference_is_cut():
    node = {"type": "object", "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}}}
    inside = {"type": "object", "properties": {"name": {"type": "string"}, "next": {}}}
    assert normalize_schema({"$ref": "#/$defs/Node", "$defs": {"Node": node}}) == inside


@pytest.mark.parametrize("ref", ["https://a.example/schema.json", "#/$defs/none", "#/$defs/a/b/c", "#", "", "/x"])
def test_unresolvable_reference_allows_any_value(ref):
    assert prop({"$ref": ref, "description": "d"})["description"] == "d"


def test_exponential_references_are_limited():
    doubled = {f"d{n}": {"properties": {"l": {"$ref": f"#/$defs/d{n + 1}"}, "r": {"$ref": f"#/$defs/d{n + 1}"}}} for n in range(60)}
    assert len(json.dumps(normalize_schema({"$ref": "#/$defs/d0", "$defs": doubled}))) < 200_000


@pytest.mark.parametrize(
    "schema", [{}, {"type": "string"}, {"enum": [1]}, [], None, "x", {"anyOf": [{"type": "string"}, {"type": "null"}]}]
)
def test_top_level_schema_is_always_object(schema):
    assert normalize_schema(schema) == {"type": "object", "properties": {}}


def test_object_member_of_top_level_union_is_used():
    assert normalize_schema({"anyOf": [{"type": "string"}, OBJECT_A]}) == normalize_schema(OBJECT_A)


@pytest.mark.parametrize(("provider", "model"), PROVIDERS.items())
def test_built_in_tools_need_no_normalization(provider, model):
    for tool in registry.load_installed().tools.values():
        adapted = adapt_parameters(tool.factory.parameters, provider, model)
        if provider != "gemini":
            assert adapted == tool.factory.parameters
        assert adapted["properties"].keys() == tool.factory.parameters["properties"].keys()
        RULES[provider](adapted)


def test_unsupported_keywords_are_removed_for_gemini():
    schema = {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 1, "enum": [1, 2], "description": "How many."},
            "either": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"a": {}}}], "description": "one"},
            "several": {"type": ["integer", "string"], "pattern": "x"},
            "name": {"enum": ["", "a"], "format": "uuid"},
            "anything": {},
        },
        "required": ["count"],
        "additionalProperties": False,
    }
    assert adapt_parameters(schema, "google", "gemini-3-pro") == {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "description": "How many. One of: 1, 2."},
            "either": {"type": "object", "properties": {"a": {"type": "string"}}, "description": "one"},
            "several": {"type": "string"},
            "name": {"type": "string", "enum": ["a"]},
            "anything": {"type": "string"},
        },
        "required": ["count"],
    }


@pytest.mark.parametrize(
    ("provider", "model", "taken"),
    [
        ("openai", "gpt-5", False),
        ("dashscope", "kimi-k3", False),
        ("google", "gemini-3-pro", False),
        ("anthropic", "claude-x", True),
    ],
)
def test_unique_items_is_only_sent_where_accepted(provider, model, taken):
    schema = {"type": "object", "properties": {"names": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}}
    assert ("uniqueItems" in adapt_parameters(schema, provider, model)["properties"]["names"]) is taken


def test_model_takes_precedence_over_provider():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    assert adapt_parameters(schema, "openrouter", "google/gemini-3-pro")["properties"] == {"n": {"type": "integer"}}
    assert adapt_parameters(schema, "vertex_ai", "claude-opus-5") == schema


# What each provider rejects, as strictly as its documentation and error messages say.


def each_schema(schema):
    yield schema
    for below in schema.get("properties", {}).values():
        yield from each_schema(below)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from each_schema(schema[name])
    for below in schema.get("anyOf", ()):
        yield from each_schema(below)


def is_plain(schema):
    """JSON Schema 2020-12 without references and conditions, and an object without unions at the top."""
    assert schema["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "enum", "not"} & schema.keys()
    for each in each_schema(schema):
        assert not {"$ref", "$defs", "definitions", "$schema", "$id", "const", "oneOf", "allOf", "not", "if", "title"} & each.keys()
        types = each.get("type", [])
        assert set([types] if isinstance(types, str) else types) <= set(TYPES)
        assert "anyOf" not in each or (len(each["anyOf"]) > 1 and "type" not in each)
        assert set(each.get("required", ())) <= each.get("properties", {}).keys()
        assert None not in each.get("enum", ())
        assert each.get("enum", [0])
        assert types != "array" or "items" in each


def openai_takes(schema):
    is_plain(schema)
    assert all(not {"examples", "uniqueItems"} & each.keys() for each in each_schema(schema))


def gemini_takes(schema):
    is_plain(schema)
    for each in each_schema(schema):
        assert each.keys() <= {"type", "description", "enum", "items", "properties", "required", "default"}
        assert each["type"] in TYPES
        assert ("items" in each) == (each["type"] == "array")
        assert each["type"] == "object" or not {"properties", "required"} & each.keys()
        assert all(each["type"] == "string" and isinstance(value, str) and value for value in each.get("enum", ()))


RULES = {"openai": openai_takes, "anthropic": is_plain, "gemini": gemini_takes, "ollama": openai_takes}

NAMES = st.sampled_from(["a", "b", "c", "type", "$ref"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=4,
)
TYPE = st.sampled_from([*TYPES, "null", "file"])
REF = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/nowhere", "other.json"])


def with_keywords(inner):
    known = {
        "type": TYPE | st.lists(TYPE, max_size=3),
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "required": st.lists(NAMES, max_size=3),
        "items": inner | st.lists(inner, max_size=2),
        "prefixItems": st.lists(inner, max_size=2),
        "additionalProperties": st.booleans() | inner,
        "patternProperties": st.dictionaries(NAMES, inner, max_size=1),
        "enum": st.lists(ANYTHING, max_size=3),
        "const": ANYTHING,
        "default": ANYTHING,
        "description": st.text(max_size=5),
        "minimum": st.integers() | st.text(max_size=2),
        "minLength": st.integers(),
        "pattern": st.text(max_size=4),
        "format": st.just("uuid"),
        "examples": st.lists(ANYTHING, max_size=1),
        "anyOf": st.lists(inner, max_size=3),
        "oneOf": st.lists(inner, max_size=3),
        "allOf": st.lists(inner, max_size=3),
        "not": inner,
        "$ref": REF,
        "$defs": st.dictionaries(NAMES, inner, max_size=2),
    }
    right = st.fixed_dictionaries({}, optional=known)
    wrong = st.dictionaries(st.sampled_from(sorted(known)), ANYTHING, max_size=3)
    return right | right | wrong | st.booleans()


SCHEMAS = st.recursive(st.just({}), with_keywords, max_leaves=8)


def names_at_top(schema, document):
    """The names of all top-level properties in any variant of the schema. References are covered by another test."""
    if not isinstance(schema, dict):
        return set()
    names = set(schema["properties"]) if isinstance(schema.get("properties"), dict) else set()
    for word in ("anyOf", "oneOf", "allOf"):
        for each in schema[word] if isinstance(schema.get(word), list) else ():
            names |= names_at_top(each, document)
    return names


@settings(max_examples=200, deadline=None)
@given(SCHEMAS, st.sampled_from(sorted(PROVIDERS)))
def test_any_schema_becomes_acceptable_to_provider(schema, provider):
    before = copy.deepcopy(schema)
    adapted = adapt_parameters(schema, provider, PROVIDERS[provider])
    assert schema == before
    RULES[provider](adapted)
    assert adapt_parameters(adapted, provider, PROVIDERS[provider]) == adapted
    assert names_at_top(json.loads(json.dumps(schema)), schema) <= adapted["properties"].keys()


# Argument aliases

EDIT = {"properties": {"path": {}, "old_text": {}, "new_text": {}, "replace_all": {}}}


@pytest.mark.parametrize(
    ("arguments", "own"),
    [
        ({"path": "a", "old_text": "b"}, {"path": "a", "old_text": "b"}),
        ({"file_path": "a", "old_string": "b", "new_string": "c"}, {"path": "a", "old_text": "b", "new_text": "c"}),
        (
            {"filePath": "a", "oldText": "b", "newText": "c", "replaceAll": True},
            {"path": "a", "old_text": "b", "new_text": "c", "replace_all": True},
        ),
        ({"path": "a", "file_path": "b"}, {"path": "a", "file_path": "b"}),
        ({"file_path": "b", "path": "a"}, {"path": "a", "file_path": "b"}),
        ({"file_path": "a", "filename": "b"}, {"path": "a", "filename": "b"}),
        ({"colour": "red"}, {"colour": "red"}),
    ],
)
def test_trained_argument_names_are_accepted(arguments, own):
    assert apply_aliases("edit", arguments, EDIT) == own


def test_arguments_of_other_tools_match_by_spelling_only():
    parameters = {"properties": {"maxChars": {}, "extract_mode": {}, "a_b": {}, "aB": {}}}
    sent = {"max_chars": 1, "extractMode": "text", "A_B": 3, "file_path": "x"}
    assert apply_aliases("acme", sent, parameters) == {"maxChars": 1, "extract_mode": "text", "A_B": 3, "file_path": "x"}


def test_every_alias_maps_to_existing_argument():
    for tool, names in ALIASES.items():
        own = registry.load_installed().tools[tool].factory.parameters["properties"]
        assert set(names.values()) <= own.keys()
        assert not names.keys() & own.keys()
