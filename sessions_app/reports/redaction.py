"""A run without the words of people: what an operator sees, who runs the installation and does not read along. Pure.

What is kept is listed, so that a new field of an event is a secret until somebody puts it here.
"""

from collections.abc import Mapping
from typing import Any

KEPT = frozenset(
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
KEPT_OF_MESSAGE = frozenset({"role", "timestamp", "messageId", "model", "provider", "usage", "stopReason"})
KEPT_OF_APPROVAL = frozenset({"id", "status", "decision", "by", "expiresAt", "needed", "granted"})
SPOKEN = ("delta", "partialResult", "prompt", "error", "text")  # told by their length


def without_words(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of an event: who, when, how long and how much, but not what was said."""
    kept = {name: value for name, value in data.items() if name in KEPT}
    said = sum(len(data[name]) for name in SPOKEN if isinstance(data.get(name), str))
    if said:
        kept["characters"] = said
    if isinstance(message := data.get("message"), Mapping):
        kept["message"] = {name: value for name, value in message.items() if name in KEPT_OF_MESSAGE}
    if isinstance(approval := data.get("approval"), Mapping):
        kept["approval"] = {name: value for name, value in approval.items() if name in KEPT_OF_APPROVAL}
    return kept
