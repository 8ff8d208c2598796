"""Read the outcome of a direct tool call from the rows of its run, after the run has ended."""

from dataclasses import dataclass
from typing import Any

from sessions_app.models import Run, ToolCall
from sessions_app.runs.types import RunState


@dataclass(frozen=True, slots=True)
class InvocationOutcome:
    """`result` is the tool's output, {"content": […], "details": {…}}; on failure, `code` and `message` describe the error."""

    result: dict[str, Any]
    code: str = ""
    message: str = ""
    layer: str = ""  # layer that denied it


def read_invocation_outcome(state: RunState) -> InvocationOutcome:
    call = ToolCall.objects.filter(run=state.pk).order_by("position").first()
    if call is None or call.result is None:
        message = state.error or f"the call did not complete: {state.reason or state.status}"
        return InvocationOutcome({}, "aborted" if state.status == Run.Status.ABORTED else state.reason or "failed", message)
    if not call.is_error:
        return InvocationOutcome(call.result)
    message = "\n".join(block["text"] for block in call.result["content"] if block["type"] == "text")
    return InvocationOutcome(call.result, call.result["details"].get("code", "tool_error"), message, call.refused_by)
