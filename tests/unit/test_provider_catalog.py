"""From a model's name to its endpoint and API key."""

import logging

import pytest

from agents.llm import catalog
from agents.llm.base import Credentials, FailureKind, ProviderError
from agents.llm.catalog import ProviderKind, get_default_model, list_available_models, resolve_model
from agents.llm.providers.demo.provider import DemoProvider
from agents.llm.providers.scripted import ScriptedModel

KEYS = {"OPENAI_API_KEY": "k-openai", "OPENROUTER_API_KEY": "k-router", "ANTHROPIC_API_KEY": "k-anthropic"}


@pytest.mark.parametrize(
    ("name", "wire", "base_url"),
    [
        ("openai/gpt-5", "gpt-5", "https://api.openai.com/v1"),
        ("openrouter/openai/gpt-4o", "openai/gpt-4o", "https://openrouter.ai/api/v1"),
        ("ollama/llama3.1", "llama3.1", "http://127.0.0.1:11434/v1"),
        ("lm_studio/qwen", "qwen", "http://127.0.0.1:1234/v1"),
        ("gpt-5", "gpt-5", "https://api.openai.com/v1"),
    ],
)
def test_known_prefixes_use_direct_provider(name: str, wire: str, base_url: str) -> None:
    resolved = resolve_model(name, KEYS)
    assert resolved.kind is ProviderKind.DIRECT
    assert (resolved.name, resolved.credentials.base_url) == (wire, base_url)


def test_other_providers_use_litellm() -> None:
    resolved = resolve_model("anthropic/claude-sonnet-5-5", KEYS)
    assert resolved.kind is ProviderKind.LITELLM
    assert (resolved.name, resolved.display_name) == ("anthropic/claude-sonnet-5-5", "anthropic/claude-sonnet-5-5")
    assert resolved.credentials.api_key == "k-anthropic"
    assert resolve_model("bedrock/amazon.nova-pro-v1:0", {}).kind is ProviderKind.LITELLM


def test_any_model_can_use_litellm_explicitly() -> None:
    resolved = resolve_model("litellm:openai/gpt-5", KEYS | {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    assert resolved.kind is ProviderKind.LITELLM
    assert (resolved.name, resolved.display_name) == ("openai/gpt-5", "openai/gpt-5")
    assert resolved.credentials == Credentials("k-openai", "http://127.0.0.1:9/v1")


def test_demo_model_needs_no_credentials() -> None:
    resolved = resolve_model("demo/clawsite", {})
    assert (resolved.kind, resolved.display_name) == (ProviderKind.DEMO, "demo/clawsite")


@pytest.mark.parametrize(
    ("name", "variable"),
    [("openai/gpt-5", "OPENAI_API_KEY"), ("anthropic/claude-sonnet-5-5", "ANTHROPIC_API_KEY"), ("groq/x", "GROQ_API_KEY")],
)
def test_missing_key_is_named_in_error(name: str, variable: str) -> None:
    with pytest.raises(ProviderError, match=variable) as caught:
        resolve_model(name, {})
    assert caught.value.kind is FailureKind.AUTH


def test_custom_endpoint_needs_no_key() -> None:
    resolved = resolve_model("openai/my-model", {"OPENAI_BASE_URL": "http://127.0.0.1:9000/v1/"})
    assert resolved.credentials == Credentials("", "http://127.0.0.1:9000/v1")


def test_local_server_base_url_gets_v1_path() -> None:
    assert (
        resolve_model("ollama/x", {"OLLAMA_API_BASE": "http://10.0.0.7:11434"}).credentials.base_url == "http://10.0.0.7:11434/v1"
    )
    assert resolve_model("vllm/x", {"VLLM_API_BASE": "http://h:1/api"}).credentials.base_url == "http://h:1/api"


def test_explicit_credentials_override_environment() -> None:
    resolved = resolve_model("openai/gpt-5", KEYS, {"openai": Credentials("k-other")})
    assert resolved.credentials == Credentials("k-other", "https://api.openai.com/v1")


def test_key_is_not_in_repr() -> None:
    assert "k-openai" not in repr(resolve_model("openai/gpt-5", KEYS))


def test_default_model_is_read_from_setting() -> None:
    assert get_default_model({"CLAWSITE_MODEL": " groq/x ", **KEYS}) == "groq/x"


def test_default_model_without_keys_is_demo() -> None:
    assert get_default_model({}) == "demo/clawsite"


def test_available_key_selects_default_model_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    catalog._log_default_model.cache_clear()
    with caplog.at_level(logging.INFO):
        assert get_default_model({"OPENAI_API_KEY": "k"}) == "openai/gpt-5"
        assert get_default_model({"OPENAI_API_KEY": "k"}) == "openai/gpt-5"
    assert [record.getMessage() for record in caplog.records] == [
        "CLAWSITE_MODEL is not set; OPENAI_API_KEY is set, so the default model is openai/gpt-5"
    ]


def test_custom_base_url_does_not_select_vendor_model() -> None:
    assert get_default_model({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}) == "demo/clawsite"


def test_model_list_shows_usable_models_and_missing_keys() -> None:
    rows = {
        row["id"]: row for row in list_available_models({"OPENAI_API_KEY": "k"}, ["groq/openai/gpt-oss-120b", "ollama/llama3.1"])
    }
    assert rows["demo/clawsite"]["available"]
    assert rows["openai/gpt-5"]["available"]
    assert rows["openai/gpt-5"]["contextWindow"] == 272_000
    assert rows["openai/gpt-5"]["reasoning"]
    assert rows["ollama/llama3.1"]["available"]
    assert rows["groq/openai/gpt-oss-120b"]["unavailableReason"] == "missing-auth"
    assert not rows["anthropic/claude-sonnet-5-5"]["available"]
    assert not any("audio" in name or "ft:" in name or name.endswith("-2024-08-06") for name in rows)
    assert len(rows) == len({row["id"] for row in rows.values()})


async def test_provider_is_reused_until_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "OPEN_PROVIDERS", {})
    demo = resolve_model("demo/clawsite", {})
    first = catalog.open_provider(demo)
    assert isinstance(first, DemoProvider)
    assert catalog.open_provider(demo) is first
    await catalog.close_providers()
    assert catalog.open_provider(demo) is not first


def test_provider_can_be_replaced_in_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel()
    monkeypatch.setitem(catalog.OPEN_PROVIDERS, ProviderKind.DEMO, model)
    assert catalog.open_provider(resolve_model("demo/clawsite", {})) is model
