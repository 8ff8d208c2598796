"""What only the litellm provider has to handle: its import, and exceptions of all kinds."""

import subprocess
import sys

import pytest

from agents.llm.base import FailureKind
from agents.llm.providers.litellm_provider import _chunk_to_dict, to_provider_error


class ServiceTrouble(Exception):
    def __init__(self, message: str, status_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status_code = status_code


class APIConnectionError(ServiceTrouble):
    """Named as litellm names it; the status is made up."""


class MidStreamFallbackError(ServiceTrouble):
    def __init__(self, original: Exception) -> None:
        super().__init__("litellm.MidStreamFallbackError: wrapped", 503)
        self.original_exception = original


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            ServiceTrouble("litellm.RateLimitError: RateLimitError: OpenAIException - slow down", 429),
            FailureKind.RATE_LIMIT,
            "slow down (HTTP 429)",
        ),
        (APIConnectionError("litellm.APIConnectionError: AnthropicException - peer closed", 500), FailureKind.CUT, "peer closed"),
        (APIConnectionError("Connection error.", 500), FailureKind.UNAVAILABLE, "Connection error."),
        (MidStreamFallbackError(ServiceTrouble("Overloaded", 529)), FailureKind.UNAVAILABLE, "Overloaded (HTTP 529)"),
        (ImportError("No module named 'boto3'"), FailureKind.FORMAT, "No module named 'boto3'"),
    ],
)
def test_any_exception_becomes_failure_with_provider_message(error: Exception, kind: FailureKind, message: str) -> None:
    failure = to_provider_error(error, secret="")
    assert (failure.kind, failure.message) == (kind, message)


def test_signature_in_call_id_is_removed() -> None:
    class Bare:
        def __init__(self, **fields: object) -> None:
            self.__dict__.update(fields)

    call = {"index": 0, "id": "call_1__thought__" + "A" * 5000, "function": {"name": "read", "arguments": "{}"}}
    delta = Bare(content=None, tool_calls=[call])
    read = _chunk_to_dict(Bare(choices=[Bare(delta=delta, finish_reason=None)]))
    assert read["choices"][0]["delta"]["tool_calls"][0]["id"] == "call_1"


def test_importing_provider_does_not_import_litellm() -> None:
    code = "import sys, agents.llm.providers.litellm_provider, agents.llm.catalog; print('litellm' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
