"""Model parameters set by the caller of a run (length, temperature, format, tool choice), for both API formats. Pure.

Named as in chat completions. Endpoints themselves reject what they do not support.
"""

from collections.abc import Mapping
from typing import Any

from agents.llm.providers.dialect import EndpointDialect

CHAT_PARAMETERS = (
    "max_tokens",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "response_format",
    "parallel_tool_calls",
    "tool_choice",
)
ONLY_WITH_TOOLS = ("tool_choice", "parallel_tool_calls")


def build_chat_parameters(wanted: Mapping[str, Any], dialect: EndpointDialect, *, with_tools: bool) -> dict[str, Any]:
    parameters = {name: wanted[name] for name in CHAT_PARAMETERS if name in wanted and (with_tools or name not in ONLY_WITH_TOOLS)}
    if dialect.completion_limit and "max_tokens" in parameters:
        parameters["max_completion_tokens"] = parameters.pop("max_tokens")
    return parameters


def build_responses_parameters(wanted: Mapping[str, Any], *, with_tools: bool) -> dict[str, Any]:
    """Build the same parameters for /responses, which has no stop sequences, seeds or penalties."""
    parameters = {name: wanted[name] for name in ("temperature", "top_p") if name in wanted}
    if "max_tokens" in wanted:
        parameters["max_output_tokens"] = wanted["max_tokens"]
    if response_format := wanted.get("response_format"):
        schema = response_format.get("json_schema") or {}
        parameters["text"] = {"format": {"type": response_format["type"], **schema}}
    if with_tools:
        parameters |= {name: wanted[name] for name in ("parallel_tool_calls",) if name in wanted}
        if choice := wanted.get("tool_choice"):
            parameters["tool_choice"] = (
                choice if isinstance(choice, str) else {"type": "function", "name": choice["function"]["name"]}
            )
    return parameters
