"""Calls of tools that the caller of a run has itself: handed over at the end of the run, answered by the caller's next request.

The results stand in that run's options, {callId, name, text}, and open it in the transcript in place of a user's message.
Whether a conversation waits for them is asked of client_results.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sessions_app.journal import NewEntry, new_message_id

TOOLS = "clientTools"  # in a run's options
RESULTS = "toolResults"  # likewise
HANDED_OVER = "tool_calls"  # why a run ended whose last answer is for the caller to carry out


def tools_in(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Those that the caller has, each {name, description, parameters}."""
    found: list[dict[str, Any]] = options.get(TOOLS, [])
    return found


def results_in(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = options.get(RESULTS, [])
    return found


def entries_of(results: Sequence[Mapping[str, Any]]) -> list[NewEntry]:
    return [result_entry(result["callId"], result["name"], result["text"]) for result in results]


def result_entry(call_id: str, name: str, text: str) -> NewEntry:
    meta = {"toolCallId": call_id, "toolName": name, "isError": False, "details": {"code": "client_tool"}}
    return NewEntry("tool_result", "toolResult", [{"type": "text", "text": text}], text, new_message_id(), meta)
