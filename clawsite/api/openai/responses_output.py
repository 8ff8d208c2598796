"""Build the response and output items of `/v1/responses`. Pure."""

from typing import Any

from clawsite.api.openai.run_updates import ClientToolCall, CompletionUsage

INCOMPLETE_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
OutputItem = dict[str, Any]


def build_response(
    run_id: str,
    created: int,
    model: str,
    *,
    status: str = "in_progress",
    output: list[OutputItem] | None = None,
    usage: CompletionUsage | None = None,
    error: dict[str, Any] | None = None,
    incomplete: str = "",
    previous: str = "",
) -> dict[str, Any]:
    return {
        "id": f"resp_{run_id}",
        "object": "response",
        "created_at": created,
        "status": status,
        "background": False,
        "error": error,
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": output or [],
        "parallel_tool_calls": True,
        "previous_response_id": previous or None,
        "store": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": to_wire_usage(usage) if usage else None,
    }


def to_wire_usage(usage: CompletionUsage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt + usage.completion,
    }


def build_message_item(run_id: str, number: int, text: str | None) -> OutputItem:
    """Build a message item; `text` is None while it is in progress."""
    status, content = ("in_progress", []) if text is None else ("completed", [build_text_part(text)])
    return {"id": f"msg_{run_id}_{number}", "type": "message", "role": "assistant", "status": status, "content": content}


def build_text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def build_call_item(call: ClientToolCall, *, complete: bool = True) -> OutputItem:
    return {
        "id": f"fc_{call.id}",
        "type": "function_call",
        "status": "completed" if complete else "in_progress",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments if complete else "",
    }


def to_response_status(finish: str) -> tuple[str, str]:
    """Return the status and, if incomplete, the reason. A response with client tool calls is complete."""
    return ("incomplete", INCOMPLETE_REASONS[finish]) if finish in INCOMPLETE_REASONS else ("completed", "")
