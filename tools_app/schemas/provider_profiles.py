"""What each provider takes of a JSON Schema, as data, and a tool's parameters fitted to it. Pure."""

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
    """How far a provider follows JSON Schema below the top level, which is a plain object for all of them."""

    strip: frozenset[str] = frozenset()
    unions: bool = True  # `anyOf`, and lists of types
    requires_type: bool = False  # every schema must say its type
    text_enums: bool = False  # literals must be texts, and not empty


# Limits help a model to get a call right, so they are taken away only where they are refused.
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
DEFAULT = OPENAI  # endpoints of all kinds: what OpenAI takes, most of them do; Kimi refuses a request with `uniqueItems` in it

# By a word in the model's name, wherever it is reached (`openrouter/google/gemini-…`), then by provider.
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
    named = model.lower()
    return next((profile for word, profile in BY_MODEL.items() if word in named), BY_PROVIDER.get(provider.lower(), DEFAULT))


def adapt_parameters(parameters: Schema, provider: str, model: str) -> Schema:
    """The parameters as this model's provider takes them. The answer is shared: it is not to be changed."""
    try:
        text = orjson.dumps(parameters)
    except TypeError:  # huge integers, half of a surrogate pair: rare, and no reason to fail
        text = json.dumps(parameters, ensure_ascii=False, default=str).encode(errors="replace")
    return _adapt_cached(text, find_profile(provider, model))


@lru_cache(maxsize=2048)  # some 60 tools of a few servers, for each kind of provider
def _adapt_cached(parameters: bytes, profile: SchemaProfile) -> Schema:
    # No JSON has infinity, and no provider takes it.
    return _fit_schema(normalize_schema(json.loads(parameters, parse_constant=lambda _: None)), profile)


def _fit_schema(schema: Schema, profile: SchemaProfile) -> Schema:
    fitted = _pick_one_type(schema) if not profile.unions else dict(schema)
    if profile.requires_type and "type" not in fitted:
        fitted["type"] = "string"  # can say anything
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
    """The member of a union that can say most: an object before a list before a text."""
    if members := schema.get("anyOf"):
        chosen = min(members, key=lambda each: TYPES.index(each["type"]))
        return {**chosen, **{name: value for name, value in schema.items() if name != "anyOf"}}
    if isinstance(types := schema.get("type"), list):
        return keep_relevant_keywords({**schema, "type": min(types, key=TYPES.index)})
    return dict(schema)


def _move_enum_to_description(schema: Schema) -> Schema:
    """Other literals than texts are told in the description instead."""
    rest = {name: value for name, value in schema.items() if name != "enum"}
    literals: list[Any] = schema["enum"]
    if schema["type"] == "string" and all(isinstance(value, str) for value in literals):
        kept = [value for value in literals if value]
        return {**rest, "enum": kept} if kept else rest
    told = f"One of: {', '.join(orjson.dumps(value).decode() for value in literals)}."
    return {**rest, "description": f"{schema['description']} {told}" if schema.get("description") else told}
