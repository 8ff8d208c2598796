"""Read the results of an ended run from its rows: its answer as events, or the outcome of a direct tool call."""

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra.errors import NotFound
from sessions_app.models import Run, ToolCall, TranscriptEntry
from sessions_app.runs.client_tools import HANDED_OVER
from sessions_app.runs.types import RunState


def find_own_run(user: User, run_id: str) -> Run:
    run = Run.objects.for_user(user).filter(owner=user, run_id=run_id).select_related("session").first()
    if run is None:
        raise NotFound(_("Run not found: %(run)s") % {"run": run_id})
    return run


def rebuild_answer_events(run_pk: int) -> list[dict[str, Any]]:
    """Return the run's stored answers and its end as events."""
    run = Run.objects.get(pk=run_pk)
    entries = list(TranscriptEntry.objects.filter(run=run, role__in=("assistant", "toolResult")).order_by("position"))
    events = []
    for entry in entries:
        if entry.role == "assistant":
            message = {"content": entry.content, **entry.meta}
            events.append(
                _build_event("assistant", {"messageId": entry.message_id, "attempt": 1, "final": True, "message": message})
            )
    end: dict[str, Any] = {"phase": "end", "aborted": run.status == Run.Status.ABORTED, "stopReason": run.reason}
    if run.status == Run.Status.FAILED:
        end = {"phase": "error", "error": run.error, "kind": run.reason}
    elif run.reason == HANDED_OVER:
        last = next(entry for entry in reversed(entries) if entry.role == "assistant")
        answered = {entry.meta["toolCallId"] for entry in entries if entry.role == "toolResult"}
        calls = [block["id"] for block in last.content if block["type"] == "toolCall"]
        end["toolCallIds"] = [call_id for call_id in calls if call_id not in answered]
    return [*events, _build_event("lifecycle", end)]


def _build_event(stream: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"seq": 0, "stream": stream, "data": data}


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
