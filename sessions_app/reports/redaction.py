"""Redact a run for operators, who run the server but don't read users' messages. Pure.

Safe fields are listed, so a new event field stays hidden until it is added here.
"""

from collections.abc import Mapping
from typing import Any

SAFE_FIELDS = frozenset(
    {
        "phase",
        "reason",
        "rescues",
        "kind",
        "attempt",
        "delayMs",
        "startedAt",
        "endedAt",
        "aborted",
        "stopReason",
        "usage",
        "messageId",
        "offset",
        "reset",
        "final",
        "name",
        "toolCallId",
        "isError",
        "meta",
        "operation",
        "willRetry",
        "completed",
        "summarised",
        "kept",
        "leftOut",
        "tokensBefore",
        "tokensAfter",
    }
)
SAFE_MESSAGE_FIELDS = frozenset({"role", "timestamp", "messageId", "model", "provider", "usage", "stopReason"})
SAFE_APPROVAL_FIELDS = frozenset({"id", "status", "decision", "by", "expiresAt", "needed", "granted"})
TEXT_FIELDS = ("delta", "partialResult", "prompt", "error", "text")  # reported by length only


def redact_event_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """Redact an event's data: keep who, when, how long and how much, but no text."""
    safe = {name: value for name, value in data.items() if name in SAFE_FIELDS}
    text_length = sum(len(data[name]) for name in TEXT_FIELDS if isinstance(data.get(name), str))
    if text_length:
        safe["characters"] = text_length
    if isinstance(message := data.get("message"), Mapping):
        safe["message"] = {name: value for name, value in message.items() if name in SAFE_MESSAGE_FIELDS}
    if isinstance(approval := data.get("approval"), Mapping):
        safe["approval"] = {name: value for name, value in approval.items() if name in SAFE_APPROVAL_FIELDS}
    return safe
