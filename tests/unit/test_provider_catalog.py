"""From a model's name to where it is asked, with which key."""

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
def test_known_prefixes_are_asked_directly(name: str, wire: str, base_url: str) -> None:
    resolved = resolve_model(name, KEYS)
    assert resolved.kind is ProviderKind.DIRECT
    assert (resolved.name, resolved.credentials.base_url) == (wire, base_url)


def test_every_other_provider_goes_through_litellm() -> None:
    resolved = resolve_model("anthropic/claude-sonnet-5-5", KEYS)
    assert resolved.kind is ProviderKind.LITELLM
    assert (resolved.name, resolved.display_name) == ("anthropic/claude-sonnet-5-5", "anthropic/claude-sonnet-5-5")
    assert resolved.credentials.api_key == "k-anthropic"
    assert resolve_model("bedrock/amazon.nova-pro-v1:0", {}).kind is ProviderKind.LITELLM


def test_any_model_goes_through_litellm_on_request() -> None:
    resolved = resolve_model("litellm:openai/gpt-5", KEYS | {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    assert resolved.kind is ProviderKind.LITELLM
    assert (resolved.name, resolved.display_name) == ("openai/gpt-5", "openai/gpt-5")
    assert resolved.credentials == Credentials("k-openai", "http://127.0.0.1:9/v1")


def test_the_demo_needs_nothing() -> None:
    resolved = resolve_model("demo/clawsite", {})
    assert (resolved.kind, resolved.display_name) == (ProviderKind.DEMO, "demo/clawsite")


@pytest.mark.parametrize(
    ("name", "variable"),
    [("openai/gpt-5", "OPENAI_API_KEY"), ("anthropic/claude-sonnet-5-5", "ANTHROPIC_API_KEY"), ("groq/x", "GROQ_API_KEY")],
)
def test_a_missing_key_is_named(name: str, variable: str) -> None:
    with pytest.raises(ProviderError, match=variable) as caught:
        resolve_model(name, {})
    assert caught.value.kind is FailureKind.AUTH


def test_an_endpoint_of_ones_own_needs_no_key() -> None:
    resolved = resolve_model("openai/my-model", {"OPENAI_BASE_URL": "http://127.0.0.1:9000/v1/"})
    assert resolved.credentials == Credentials("", "http://127.0.0.1:9000/v1")


def test_a_local_server_named_by_host_and_port_is_asked_under_v1() -> None:
    assert (
        resolve_model("ollama/x", {"OLLAMA_API_BASE": "http://10.0.0.7:11434"}).credentials.base_url == "http://10.0.0.7:11434/v1"
    )
    assert resolve_model("vllm/x", {"VLLM_API_BASE": "http://h:1/api"}).credentials.base_url == "http://h:1/api"


def test_given_credentials_win_over_the_environment() -> None:
    resolved = resolve_model("openai/gpt-5", KEYS, {"openai": Credentials("k-other")})
    assert resolved.credentials == Credentials("k-other", "https://api.openai.com/v1")


def test_a_key_is_never_part_of_a_representation() -> None:
    assert "k-openai" not in repr(resolve_model("openai/gpt-5", KEYS))


def test_the_default_is_what_is_set() -> None:
    assert get_default_model({"CLAWSITE_MODEL": " groq/x ", **KEYS}) == "groq/x"


def test_the_default_without_any_key_is_the_demo() -> None:
    assert get_default_model({}) == "demo/clawsite"


def test_a_key_that_is_found_chooses_its_providers_model_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    catalog._log_default_model.cache_clear()
    with caplog.at_level(logging.INFO):
        assert get_default_model({"OPENAI_API_KEY": "k"}) == "openai/gpt-5"
        assert get_default_model({"OPENAI_API_KEY": "k"}) == "openai/gpt-5"
    assert [record.getMessage() for record in caplog.records] == [
        "CLAWSITE_MODEL is not set; OPENAI_API_KEY is set, so the default model is openai/gpt-5"
    ]


def test_a_server_of_ones_own_is_not_asked_for_a_model_it_may_not_have() -> None:
    assert get_default_model({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}) == "demo/clawsite"


def test_the_list_has_what_can_be_used_and_says_what_is_missing() -> None:
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


async def test_there_is_one_provider_of_a_kind_until_they_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "OPEN_PROVIDERS", {})
    demo = resolve_model("demo/clawsite", {})
    first = catalog.open_provider(demo)
    assert isinstance(first, DemoProvider)
    assert catalog.open_provider(demo) is first
    await catalog.close_providers()
    assert catalog.open_provider(demo) is not first


def test_a_test_can_put_its_own_model_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel()
    monkeypatch.setitem(catalog.OPEN_PROVIDERS, ProviderKind.DEMO, model)
    assert catalog.open_provider(resolve_model("demo/clawsite", {})) is model
