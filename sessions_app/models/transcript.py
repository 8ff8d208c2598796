"""The transcript: linear, append-only, and the journal a run is continued from."""

from django.db import models
from django.db.models import UniqueConstraint

from sessions_app.models.run import Run
from sessions_app.models.session import Session


class TranscriptEntry(models.Model):
    class Kind(models.TextChoices):
        MESSAGE = "message"  # role user or assistant
        TOOL_RESULT = "tool_result"
        COMPACTION = "compaction"
        SESSION = "session"  # a mark: reset, model changed

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="entries")
    generation = models.PositiveIntegerField(default=1)
    position = models.PositiveIntegerField()
    kind = models.CharField(max_length=16, choices=Kind.choices)
    role = models.CharField(max_length=16, blank=True)
    # Wire form of the message's content: [{"type": "text", "text": …}, {"type": "toolCall", …}, …]
    content = models.JSONField(default=list)
    text = models.TextField(blank=True, help_text="The plain words of the content, for previews and search")
    message_id = models.CharField(max_length=32)
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="entries")
    step = models.PositiveIntegerField(null=True, blank=True, help_text="Place in the run: a finished step is never repeated")
    # provider, model, usage, stopReason, toolCallId, toolName, isError, label: whatever the kind needs
    meta = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "transcript entries"
        constraints = [
            UniqueConstraint(fields=["session", "position"], name="one_entry_per_position"),
            UniqueConstraint(fields=["run", "step"], name="one_entry_per_step"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.position}"
