"""A run without the words of people: what an operator sees, who runs the installation and does not read along. Pure.

What is kept is listed, so that a new field of an event is a secret until somebody puts it here.
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
TEXT_FIELDS = ("delta", "partialResult", "prompt", "error", "text")  # told by their length


def redact_event_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of an event: who, when, how long and how much, but not what was said."""
    kept = {name: value for name, value in data.items() if name in SAFE_FIELDS}
    said = sum(len(data[name]) for name in TEXT_FIELDS if isinstance(data.get(name), str))
    if said:
        kept["characters"] = said
    if isinstance(message := data.get("message"), Mapping):
        kept["message"] = {name: value for name, value in message.items() if name in SAFE_MESSAGE_FIELDS}
    if isinstance(approval := data.get("approval"), Mapping):
        kept["approval"] = {name: value for name, value in approval.items() if name in SAFE_APPROVAL_FIELDS}
    return kept
