"""Fold a run's events into the view a client has of it. Pure.

Synchronization invariant: replaying all events of a run gives the same view as reading its rows. Only events build the view
here; a test builds the other view from transcript and tool calls.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ToolView:
    name: str
    args: dict[str, Any]
    status: str = "started"  # started, finished, failed
    text: str = ""


@dataclass(slots=True)
class RunView:
    status: str = "accepted"
    reason: str = ""
    error: str = ""
    prompt: str = ""
    messages: list[tuple[str, str]] = field(default_factory=list)  # (message ID, text) of stored answers
    tools: dict[str, ToolView] = field(default_factory=dict)
    open_message: str = ""
    open_text: str = ""  # text of the answer being written
    open_thinking: str = ""
    attempt: int = 1
    compacting: bool = False  # the session is being compacted
    seq: int = 0


def replay_events(events: Iterable[Mapping[str, Any]]) -> RunView:
    """Fold events, each with seq, stream and data, in order."""
    view = RunView()
    for event in events:
        view.seq = event["seq"]
        data = event["data"]
        match event["stream"]:
            case "lifecycle":
                _apply_lifecycle(view, data)
            case "assistant":
                _apply_assistant(view, data)
            case "thinking":
                _follow_message(view, data)
                view.open_thinking += data["delta"]
            case "toolcall":
                _follow_message(view, data)  # the stored answer has the complete arguments
            case "tool":
                _apply_tool(view, data)
            case "compaction":
                view.compacting = data["phase"] == "start"
    return view


def _apply_lifecycle(view: RunView, data: Mapping[str, Any]) -> None:
    match data["phase"]:
        case "accepted":
            view.prompt = data["prompt"]
        case "start" | "resume" | "rescued":
            view.status, view.compacting = "running", False
        case "waiting":
            view.status, view.reason = "waiting", data["reason"]
        case "end":
            view.status = "aborted" if data["aborted"] else "completed"
            view.reason = data["stopReason"]
            _close_message(view)
        case "error":
            view.status, view.reason, view.error = "error", data["kind"], data["error"]
            _close_message(view)


def _apply_assistant(view: RunView, data: Mapping[str, Any]) -> None:
    if data.get("final"):
        text = "".join(block.get("text", "") for block in data["message"]["content"] if block["type"] == "text")
        view.messages.append((data["messageId"], text))
        _close_message(view)
    elif data.get("reset"):
        _close_message(view)
        view.open_message, view.attempt = data["messageId"], data["attempt"]
    else:
        _follow_message(view, data)
        view.open_text += data["delta"]


def _follow_message(view: RunView, data: Mapping[str, Any]) -> None:
    """Start over when a delta belongs to another message or attempt than the open one."""
    if (data["messageId"], data["attempt"]) != (view.open_message, view.attempt):
        _close_message(view)
        view.open_message, view.attempt = data["messageId"], data["attempt"]


def _close_message(view: RunView) -> None:
    view.open_message = view.open_text = view.open_thinking = ""


def _apply_tool(view: RunView, data: Mapping[str, Any]) -> None:
    match data["phase"]:
        case "start":
            view.tools[data["toolCallId"]] = ToolView(data["name"], data["args"])
        case "result":
            tool = view.tools.setdefault(data["toolCallId"], ToolView(data["name"], {}))
            tool.status = "failed" if data["isError"] else "finished"
            tool.text = "\n".join(block.get("text", "") for block in data["result"]["content"])
