"""Resolve a model name from the settings to its provider, wire name and credentials.

Names are written as in litellm, such as `openai/gpt-5`. Names with a prefix in ENDPOINTS go directly to that endpoint, `demo/…`
to the built-in demo, everything else through litellm, as does any name after `litellm:`. This module does
not decide what to try after a failure.
"""

import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import NotRequired, TypedDict

from agents.llm import prices
from agents.llm.base import Credentials, FailureKind, ModelProvider, ProviderError
from agents.llm.endpoints import DEFAULT_MODELS, ENDPOINTS, LITELLM_KEYS, ProviderEndpoint
from agents.llm.raw_log import with_raw_log

log = logging.getLogger(__name__)

DEMO_MODEL = "demo/clawsite"
LITELLM_PREFIX = "litellm:"
# Dated snapshots, fine-tuning bases and models for other media: usable, but not listed.
UNLISTED_MODELS = re.compile(r"^ft:|/accounts/|-\d{4}-\d\d-\d\d$|-\d{8}$|-\d{4}$|audio|search-preview|computer-use|robotics")


class ProviderKind(StrEnum):
    DEMO = "demo"
    DIRECT = "direct"
    LITELLM = "litellm"


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    kind: ProviderKind
    name: str  # on the wire
    provider: str
    model: str
    credentials: Credentials = field(default_factory=Credentials)

    @property
    def display_name(self) -> str:
        return f"{self.provider}/{self.model}"


class ModelRow(TypedDict):
    """One model in a list to choose from."""

    id: str
    name: str
    provider: str
    reasoning: bool
    available: bool
    contextWindow: NotRequired[int]
    unavailableReason: NotRequired[str]


def resolve_model(
    name: str,
    environ: Mapping[str, str] = os.environ,
    overrides: Mapping[str, Credentials] | None = None,
    *,
    will_be_asked: bool = True,
) -> ResolvedModel:
    """Resolve a model. `overrides` are credentials by provider that take precedence over the environment's.

    If an API key is missing, ProviderError(auth) names the variable to set. Without `will_be_asked`, no
    key is needed: the model's tools and rules can be determined without one.
    """
    via_litellm = name.startswith(LITELLM_PREFIX)
    provider, model = _split_name(name.removeprefix(LITELLM_PREFIX).strip())
    if provider == "demo":
        return ResolvedModel(ProviderKind.DEMO, model, provider, model)
    given = (overrides or {}).get(provider)
    endpoint = ENDPOINTS.get(provider)
    if endpoint is None or via_litellm:
        credentials = given or _credentials_for_litellm(provider, endpoint, environ, needed=will_be_asked)
        return ResolvedModel(ProviderKind.LITELLM, f"{provider}/{model}" if provider else model, provider, model, credentials)
    credentials = given or Credentials()
    credentials = Credentials(
        credentials.api_key or _first_set(endpoint.keys, environ), credentials.base_url or endpoint.find_base_url(environ)
    )
    # With a custom base URL, it is unknown whether a key is needed; the server will say so.
    at_home = credentials.base_url == endpoint.base_url
    if will_be_asked and endpoint.keys and not endpoint.is_local and at_home and not credentials.api_key:
        raise _missing_key_error(provider, endpoint.keys)
    wire = model if "/" in model else endpoint.short_name_prefix + model
    return ResolvedModel(ProviderKind.DIRECT, wire, provider, model, credentials)


def get_default_model(environ: Mapping[str, str] = os.environ) -> str:
    """Return the server's default model: the one that is set, else one whose API key is found, else the demo."""
    if chosen := environ.get("CLAWSITE_MODEL", "").strip():
        return chosen
    for provider, model in DEFAULT_MODELS.items():
        endpoint = ENDPOINTS.get(provider)
        if endpoint is not None and endpoint.find_base_url(environ) != endpoint.base_url:
            continue  # a custom server has its own models
        variables = endpoint.keys if endpoint else LITELLM_KEYS[provider]
        if found := next((variable for variable in variables if environ.get(variable)), ""):
            _log_default_model(model, found)
            return model
    return DEMO_MODEL


def list_available_models(environ: Mapping[str, str] = os.environ, extra: Iterable[str] = ()) -> list[ModelRow]:
    """List models in use, the demo, current models of providers with an API key, and models that another key would add."""
    today = datetime.now(UTC).date().isoformat()
    names = dict.fromkeys([get_default_model(environ), *extra, DEMO_MODEL])
    for provider in [*ENDPOINTS, *LITELLM_KEYS]:
        variables = ENDPOINTS[provider].keys if provider in ENDPOINTS else LITELLM_KEYS[provider]
        if not _first_set(variables, environ):
            continue
        for listed in prices.list_provider_models(provider):
            facts = prices.find_model_info(listed)
            if facts and not UNLISTED_MODELS.search(listed) and not (facts.retired_on and facts.retired_on <= today):
                names.setdefault(listed if listed.startswith(f"{provider}/") else f"{provider}/{listed}")
    names.update(dict.fromkeys(DEFAULT_MODELS.values()))
    return [_row(name, environ) for name in names if name]


OPEN_PROVIDERS: dict[ProviderKind, ModelProvider] = {}


def open_provider(resolved: ResolvedModel, *, raw_log: str = "") -> ModelProvider:
    """Return the process-wide provider of this kind, which shares its connections. `raw_log` is a path, empty for none."""
    if resolved.kind not in OPEN_PROVIDERS:
        OPEN_PROVIDERS[resolved.kind] = load_provider(resolved.kind)()
    return with_raw_log(OPEN_PROVIDERS[resolved.kind], raw_log)


async def close_providers() -> None:
    while OPEN_PROVIDERS:
        _, provider = OPEN_PROVIDERS.popitem()
        await provider.aclose()


def load_provider(kind: ProviderKind) -> Callable[[], ModelProvider]:
    """Import the provider of this kind and return its class."""
    # Imported here: web processes read this catalog but ask no model, and importing aiohttp alone takes 0.2 s.
    match kind:
        case ProviderKind.DEMO:
            from agents.llm.providers.demo.provider import DemoProvider

            return DemoProvider
        case ProviderKind.DIRECT:
            from agents.llm.providers.openai_compat import OpenAICompatProvider

            return OpenAICompatProvider
        case ProviderKind.LITELLM:
            from agents.llm.providers.litellm_provider import LiteLLMProvider

            return LiteLLMProvider


def _split_name(name: str) -> tuple[str, str]:
    """Return (provider, model); for a bare name, the provider comes from the price file."""
    provider, slash, model = name.partition("/")
    if slash:
        return provider, model
    facts = prices.find_model_info(name)
    return (facts.provider if facts else ""), name


def _credentials_for_litellm(
    provider: str, endpoint: ProviderEndpoint | None, environ: Mapping[str, str], *, needed: bool
) -> Credentials:
    """Return only what is set: litellm itself knows the default base URLs and the variables of other providers."""
    if endpoint is not None:
        return Credentials(_first_set(endpoint.keys, environ), _first_set(endpoint.base_variables, environ))
    variables = LITELLM_KEYS.get(provider, ())
    key = _first_set(variables, environ)
    if needed and variables and not key:
        raise _missing_key_error(provider, variables)
    return Credentials(key)


def _first_set(variables: Iterable[str], environ: Mapping[str, str]) -> str:
    return next((value for variable in variables if (value := environ.get(variable, "").strip())), "")


def _missing_key_error(provider: str, variables: tuple[str, ...]) -> ProviderError:
    return ProviderError(FailureKind.AUTH, f"there is no API key for {provider}: set {variables[0]}, or choose another model")


@cache
def _log_default_model(model: str, variable: str) -> None:
    log.info("CLAWSITE_MODEL is not set; %s is set, so the default model is %s", variable, model)


def _row(name: str, environ: Mapping[str, str]) -> ModelRow:
    provider, model = _split_name(name.removeprefix(LITELLM_PREFIX))
    facts = prices.find_model_info(f"{provider}/{model}")
    reasoning = provider == "demo" or bool(facts and facts.reasoning)
    row = ModelRow(id=name, name=model, provider=provider, reasoning=reasoning, available=True)
    if facts and facts.context_window:
        row["contextWindow"] = facts.context_window
    try:
        resolve_model(name, environ)
    except ProviderError:
        row["available"] = False
        row["unavailableReason"] = "missing-auth"
    return row
