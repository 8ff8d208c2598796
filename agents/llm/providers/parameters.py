"""How the caller of a run wants the model to answer: length, temperature, format, which tool. Both formats. Pure.

Kept by their names in chat completions. What an endpoint does not take it refuses itself, in its own words.
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
    put = {name: wanted[name] for name in CHAT_PARAMETERS if name in wanted and (with_tools or name not in ONLY_WITH_TOOLS)}
    if dialect.completion_limit and "max_tokens" in put:
        put["max_completion_tokens"] = put.pop("max_tokens")
    return put


def build_responses_parameters(wanted: Mapping[str, Any], *, with_tools: bool) -> dict[str, Any]:
    """The same for /responses, which has no stop words, seeds or penalties."""
    put = {name: wanted[name] for name in ("temperature", "top_p") if name in wanted}
    if "max_tokens" in wanted:
        put["max_output_tokens"] = wanted["max_tokens"]
    if wished := wanted.get("response_format"):
        schema = wished.get("json_schema") or {}
        put["text"] = {"format": {"type": wished["type"], **schema}}
    if with_tools:
        put |= {name: wanted[name] for name in ("parallel_tool_calls",) if name in wanted}
        if choice := wanted.get("tool_choice"):
            put["tool_choice"] = choice if isinstance(choice, str) else {"type": "function", "name": choice["function"]["name"]}
    return put
