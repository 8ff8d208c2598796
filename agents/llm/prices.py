"""Model prices and context windows, from the price file that ships with litellm.

The file is read without importing litellm (3.4 s, 173 MB): 30 ms once, on first use, keeping only what is needed. The price of
a model that is not in it is None, never a guess.
"""

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from agents.llm.base import Usage

PRICE_FILE = "model_prices_and_context_window_backup.json"
TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """Dollars per token."""

    input: float
    output: float
    cache_read: float
    cache_write: float


@dataclass(frozen=True, slots=True)
class ModelInfo:
    provider: str
    mode: str  # chat, responses, embedding, …
    context_window: int | None
    reasoning: bool
    tools: bool
    retired_on: str  # ISO date, or empty
    rates: TokenPrices | None
    long_context_prices: tuple[tuple[int, TokenPrices], ...]  # (above this number of prompt tokens, rates), largest first
    images: bool = False  # accepts images


DEMO_MODEL_INFO = ModelInfo("demo", "chat", None, False, True, "", TokenPrices(0, 0, 0, 0), (), True)


def find_model_info(model: str) -> ModelInfo | None:
    """Look up a model by its name in the settings: `openai/gpt-5`, `groq/…`, or a bare name."""
    if model.startswith("demo/"):
        return DEMO_MODEL_INFO
    table = _load_table()
    if model in table:
        return table[model]
    # The file lists the models of a few providers, OpenAI's and Anthropic's among them, without their prefix.
    provider, _, name = model.partition("/")
    found = table.get(name)
    return found if found is not None and found.provider == provider else None


def find_context_window(model: str) -> int | None:
    facts = find_model_info(model)
    return facts.context_window if facts else None


def takes_images(model: str) -> bool:
    """Whether the model accepts images. Unknown models are assumed to; the provider rejects images if not."""
    facts = find_model_info(model)
    return facts is None or facts.images


def calculate_cost_microusd(model: str, usage: Usage) -> int | None:
    """Return the cost of one answer in millionths of a dollar, or None if the price is unknown."""
    facts = find_model_info(model)
    if facts is None or facts.rates is None:
        return None
    rates = next((rates for above, rates in facts.long_context_prices if usage.input_tokens > above), facts.rates)
    fresh = max(0, usage.input_tokens - usage.cache_read - usage.cache_write)
    dollars = (
        fresh * rates.input
        + usage.cache_read * rates.cache_read
        + usage.cache_write * rates.cache_write
        + usage.output_tokens * rates.output
    )
    return round(dollars * 1_000_000)


def list_provider_models(provider: str) -> list[str]:
    """List a provider's chat models that support tools, in the file's order and spelling."""
    return [name for name, facts in _load_table().items() if facts.provider == provider and facts.mode == "chat" and facts.tools]


@cache
def _load_table() -> dict[str, ModelInfo]:
    spec = importlib.util.find_spec("litellm")  # finds the package without importing it
    if spec is None or spec.origin is None:
        return {}
    rows = orjson.loads((Path(spec.origin).parent / PRICE_FILE).read_bytes())
    return {name: _parse_row(row) for name, row in rows.items() if name != "sample_spec"}


def _parse_row(row: Mapping[str, Any]) -> ModelInfo:
    window = row.get("max_input_tokens") or row.get("max_tokens")
    tiers = sorted((int(match[1]) for key in row if (match := TIER.fullmatch(key))), reverse=True)
    rates = _parse_prices(row, "")
    return ModelInfo(
        provider=row.get("litellm_provider") or "",
        mode=row.get("mode") or "",
        context_window=window if isinstance(window, int) else None,
        reasoning=bool(row.get("supports_reasoning")),
        tools=bool(row.get("supports_function_calling")),
        retired_on=row.get("deprecation_date") or "",
        rates=rates,
        long_context_prices=tuple(
            (tier * 1000, tier_rates)
            for tier in tiers
            if rates and (tier_rates := _parse_prices(row, f"_above_{tier}k_tokens", rates))
        ),
        images=bool(row.get("supports_vision")),
    )


def _parse_prices(row: Mapping[str, Any], suffix: str, usual: TokenPrices | None = None) -> TokenPrices | None:
    """Parse the rates of one tier; without a cache price, cached tokens cost as much as fresh ones."""
    fresh, out = row.get(f"input_cost_per_token{suffix}"), row.get(f"output_cost_per_token{suffix}")
    if usual is not None:
        out = usual.output if out is None else out
    if fresh is None or out is None:
        return None
    read = row.get(f"cache_read_input_token_cost{suffix}")
    write = row.get(f"cache_creation_input_token_cost{suffix}")
    return TokenPrices(fresh, out, fresh if read is None else read, fresh if write is None else write)
