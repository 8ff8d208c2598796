"""Reading the transcript: as messages on the wire, and as the history a model is given."""

from typing import Any
from uuid import UUID

from clawsite.infra import clock
from sessions_app.models import TranscriptEntry

# What a model is given at most; older turns are left out (compaction will summarise them instead).
HISTORY_ENTRIES = 400


def to_wire(entry: TranscriptEntry, run_id: str | None = None) -> dict[str, Any]:
    """One entry as a message: role, content blocks, timestamp and whatever its kind adds."""
    message: dict[str, Any] = {
        "role": entry.role,
        "content": entry.content,
        "timestamp": clock.to_ms(entry.created_at),
        "messageId": entry.message_id,
        **entry.meta,
    }
    if run_id:
        message["runId"] = run_id
    return message


def model_history(session_id: UUID, generation: int) -> list[TranscriptEntry]:
    """The entries a model sees, oldest first, beginning with a user's message."""
    newest = (
        TranscriptEntry.objects.filter(session_id=session_id, generation=generation, kind__in=["message", "tool_result"])
        .only("kind", "role", "content", "text", "meta", "run_id", "position")
        .order_by("-position")[:HISTORY_ENTRIES]
    )
    entries = list(reversed(newest))
    while entries and entries[0].role != "user" and len(entries) == HISTORY_ENTRIES:
        entries.pop(0)
    return entries
