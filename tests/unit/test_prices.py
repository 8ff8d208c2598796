"""Model prices from the file included in litellm, without importing litellm."""

import subprocess
import sys

import pytest

from agents.llm import prices
from agents.llm.base import Usage
from agents.llm.endpoints import DEFAULT_MODELS
from agents.llm.prices import calculate_cost_microusd, find_model_info


def test_cost_is_in_micro_dollars() -> None:
    rates = prices._parse_row({"input_cost_per_token": 2e-6, "output_cost_per_token": 1e-5}).rates
    assert rates == prices.TokenPrices(2e-6, 1e-5, 2e-6, 2e-6)
    assert calculate_cost_microusd("openai/gpt-5", Usage(1_000_000, 0)) == 1_250_000
    assert calculate_cost_microusd("openai/gpt-5", Usage(0, 1_000)) == 10_000


def test_cached_tokens_have_separate_price() -> None:
    whole = calculate_cost_microusd("openai/gpt-5", Usage(1_000_000, 0))
    cached = calculate_cost_microusd("openai/gpt-5", Usage(1_000_000, 0, cache_read=1_000_000))
    assert whole is not None
    assert cached is not None
    assert cached * 10 == whole


def test_long_prompt_uses_long_context_price(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "litellm_provider": "x",
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 2e-6,
        "input_cost_per_token_above_200k_tokens": 3e-6,
        "output_cost_per_token_above_200k_tokens": 4e-6,
    }
    monkeypatch.setattr(prices, "_load_table", lambda: {"x/long": prices._parse_row(row)})
    assert calculate_cost_microusd("x/long", Usage(200_000, 10)) == 200_020
    assert calculate_cost_microusd("x/long", Usage(200_001, 10)) == 600_043


def test_unknown_model_has_no_price() -> None:
    assert calculate_cost_microusd("openai/my-own-model", Usage(10, 10)) is None
    assert calculate_cost_microusd("hosted_vllm/gpt-5", Usage(10, 10)) is None
    assert prices.find_context_window("hosted_vllm/gpt-5") is None


def test_demo_model_is_free() -> None:
    assert calculate_cost_microusd("demo/clawsite", Usage(1000, 1000)) == 0


def test_model_is_found_with_and_without_prefix() -> None:
    assert find_model_info("openai/gpt-5") == find_model_info("gpt-5")
    window = prices.find_context_window("anthropic/claude-sonnet-4-5")
    assert window is not None
    assert window >= 200_000
    assert find_model_info("groq/gpt-5") is None


def test_price_lookup_does_not_import_litellm() -> None:
    code = "import sys; from agents.llm.prices import find_model_info as f; assert f('gpt-5'); print('litellm' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


@pytest.mark.parametrize("model", [model for model in DEFAULT_MODELS.values() if not model.startswith("openrouter/")])
def test_default_models_are_current(model: str) -> None:
    facts = find_model_info(model)
    assert facts is not None
    assert facts.tools
    assert not facts.retired_on
