"""Which parts of JSON Schema each provider supports, as data, and how a tool's parameters are adapted to that. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from tools_app.schemas.keywords import TYPES, Schema, keep_relevant_keywords
from tools_app.schemas.normalize import normalize_schema


@dataclass(frozen=True, slots=True)
class SchemaProfile:
    """What a provider supports below the top level, which is a plain object for all providers."""

    strip: frozenset[str] = frozenset()
    unions: bool = True  # `anyOf`, and lists of types
    requires_type: bool = False  # every schema needs a type
    text_enums: bool = False  # literals must be non-empty strings


# Limits help a model make valid calls, so they are only removed for providers that reject them.
GEMINI = SchemaProfile(
    strip=frozenset({
        "additionalProperties", "examples", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "pattern", "format", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
    }),
    unions=False,
    requires_type=True,
    text_enums=True,
)  # fmt: skip
OPENAI = SchemaProfile(strip=frozenset({"examples", "uniqueItems"}))
ANTHROPIC = SchemaProfile()
DEFAULT = OPENAI  # most endpoints accept what OpenAI accepts; Kimi rejects requests with `uniqueItems`

# Profiles are found by a substring of the model's name, for any provider (`openrouter/google/gemini-…`), then by provider.
BY_MODEL = {"gemini": GEMINI, "claude": ANTHROPIC}
BY_PROVIDER: Mapping[str, SchemaProfile] = {
    "openai": OPENAI,
    "openai-codex": OPENAI,
    "azure": OPENAI,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "google": GEMINI,
    "vertex_ai": GEMINI,
}


def find_profile(provider: str, model: str) -> SchemaProfile:
    name = model.lower()
    return next((profile for part, profile in BY_MODEL.items() if part in name), BY_PROVIDER.get(provider.lower(), DEFAULT))


def adapt_parameters(parameters: Schema, provider: str, model: str) -> Schema:
    """Return the parameters in the form that the model's provider accepts. The result is cached: don't modify it."""
    try:
        text = orjson.dumps(parameters)
    except TypeError:  # huge integers or lone surrogates: rare, and not worth failing for
        text = json.dumps(parameters, ensure_ascii=False, default=str).encode(errors="replace")
    return _adapt_cached(text, find_profile(provider, model))


@lru_cache(maxsize=2048)  # about 60 tools of a few servers, for each kind of provider
def _adapt_cached(parameters: bytes, profile: SchemaProfile) -> Schema:
    # Infinity is not valid JSON, and no provider accepts it.
    return _fit_schema(normalize_schema(json.loads(parameters, parse_constant=lambda _: None)), profile)


def _fit_schema(schema: Schema, profile: SchemaProfile) -> Schema:
    fitted = _pick_one_type(schema) if not profile.unions else dict(schema)
    if profile.requires_type and "type" not in fitted:
        fitted["type"] = "string"  # can represent any value
    if profile.text_enums and "enum" in fitted:
        fitted = _move_enum_to_description(fitted)
    fitted = {name: value for name, value in fitted.items() if name not in profile.strip}
    if "properties" in fitted:
        fitted["properties"] = {name: _fit_schema(each, profile) for name, each in fitted["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(fitted.get(name), dict):
            fitted[name] = _fit_schema(fitted[name], profile) or (True if name == "additionalProperties" else {})
    if "anyOf" in fitted:
        fitted["anyOf"] = [_fit_schema(each, profile) for each in fitted["anyOf"]]
    return fitted


def _pick_one_type(schema: Schema) -> Schema:
    """Return the most expressive member of a union: an object before an array before a string."""
    if members := schema.get("anyOf"):
        chosen = min(members, key=lambda each: TYPES.index(each["type"]))
        return {**chosen, **{name: value for name, value in schema.items() if name != "anyOf"}}
    if isinstance(types := schema.get("type"), list):
        return keep_relevant_keywords({**schema, "type": min(types, key=TYPES.index)})
    return dict(schema)


def _move_enum_to_description(schema: Schema) -> Schema:
    """Keep an enum of strings, without empty ones; list the values of any other enum in the description instead."""
    rest = {name: value for name, value in schema.items() if name != "enum"}
    literals: list[Any] = schema["enum"]
    if schema["type"] == "string" and all(isinstance(value, str) for value in literals):
        non_empty = [value for value in literals if value]
        return {**rest, "enum": non_empty} if non_empty else rest
    note = f"One of: {', '.join(orjson.dumps(value).decode() for value in literals)}."
    return {**rest, "description": f"{schema['description']} {note}" if schema.get("description") else note}
