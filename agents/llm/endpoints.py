"""OpenAI-compatible endpoints that are used directly, and the variables with API keys. Data only."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class ProviderEndpoint:
    base_url: str
    keys: tuple[str, ...] = ()  # environment variables; error messages name the first one
    base_variables: tuple[str, ...] = ()
    is_local: bool = False  # needs no key
    short_name_prefix: str = ""

    def find_base_url(self, environ: Mapping[str, str]) -> str:
        """Return the base URL from the environment, or the default."""
        base = next((environ[name].strip() for name in self.base_variables if environ.get(name, "").strip()), "")
        if not base:
            return self.base_url
        if self.is_local and not urlsplit(base).path.strip("/"):
            base = f"{base.rstrip('/')}/v1"  # these servers are usually given as host and port only
        return base.rstrip("/")


ENDPOINTS = {
    "openai": ProviderEndpoint("https://api.openai.com/v1", ("OPENAI_API_KEY",), ("OPENAI_BASE_URL", "OPENAI_API_BASE")),
    "openrouter": ProviderEndpoint("https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",), ("OPENROUTER_API_BASE",)),
    "groq": ProviderEndpoint("https://api.groq.com/openai/v1", ("GROQ_API_KEY",), ("GROQ_API_BASE",)),
    "mistral": ProviderEndpoint("https://api.mistral.ai/v1", ("MISTRAL_API_KEY",), ("MISTRAL_API_BASE",)),
    "deepseek": ProviderEndpoint("https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",), ("DEEPSEEK_API_BASE",)),
    "moonshot": ProviderEndpoint("https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",), ("MOONSHOT_API_BASE",)),
    "together_ai": ProviderEndpoint(
        "https://api.together.xyz/v1", ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"), ("TOGETHER_AI_API_BASE",)
    ),
    "fireworks_ai": ProviderEndpoint(
        "https://api.fireworks.ai/inference/v1",
        ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"),
        ("FIREWORKS_API_BASE",),
        short_name_prefix="accounts/fireworks/models/",
    ),
    "xai": ProviderEndpoint("https://api.x.ai/v1", ("XAI_API_KEY",), ("XAI_API_BASE",)),
    "perplexity": ProviderEndpoint(
        "https://api.perplexity.ai", ("PERPLEXITY_API_KEY", "PERPLEXITYAI_API_KEY"), ("PERPLEXITY_API_BASE",)
    ),
    "cerebras": ProviderEndpoint("https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",), ("CEREBRAS_API_BASE",)),
    "ollama": ProviderEndpoint("http://127.0.0.1:11434/v1", ("OLLAMA_API_KEY",), ("OLLAMA_API_BASE",), is_local=True),
    "lm_studio": ProviderEndpoint("http://127.0.0.1:1234/v1", ("LM_STUDIO_API_KEY",), ("LM_STUDIO_API_BASE",), is_local=True),
    "llamacpp": ProviderEndpoint("http://127.0.0.1:8080/v1", ("LLAMACPP_API_KEY",), ("LLAMACPP_API_BASE",), is_local=True),
    "vllm": ProviderEndpoint("http://127.0.0.1:8000/v1", ("VLLM_API_KEY",), ("VLLM_API_BASE",), is_local=True),
    "hosted_vllm": ProviderEndpoint("http://127.0.0.1:8000/v1", ("HOSTED_VLLM_API_KEY",), ("HOSTED_VLLM_API_BASE",), is_local=True),
}

# Reached through litellm; listed here only to report a missing key early.
LITELLM_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}

# For a server with an API key and no CLAWSITE_MODEL, in order of preference.
DEFAULT_MODELS = {
    "anthropic": "anthropic/claude-sonnet-5-5",
    "openai": "openai/gpt-5",
    "gemini": "gemini/gemini-flash-latest",
    "openrouter": "openrouter/openrouter/auto",
}
