"""The transcript: linear, append-only, and the journal from which a run is resumed."""

from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils.translation import gettext_lazy as _

from sessions_app.models.run import Run
from sessions_app.models.session import Session


class TranscriptEntry(models.Model):
    class Kind(models.TextChoices):
        MESSAGE = "message", _("Message")  # role user or assistant
        TOOL_RESULT = "tool_result", _("Tool result")
        COMPACTION = "compaction", _("Summary")
        SESSION = "session", _("Session")  # a mark: reset, model changed
        REWIND = "rewind", _("Rewind")  # hides the entries between `keep_through` and this one

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="entries", verbose_name=_("session"))
    generation = models.PositiveIntegerField(_("generation"), default=1)
    position = models.PositiveIntegerField(_("position"))
    kind = models.CharField(_("kind"), max_length=16, choices=Kind.choices)
    role = models.CharField(_("role"), max_length=16, blank=True)
    # Wire form of the message's content: [{"type": "text", "text": …}, {"type": "toolCall", …}, …]
    content = models.JSONField(_("content"), default=list)
    text = models.TextField(_("text"), blank=True, help_text=_("Plain text of the content, for previews and search"))
    message_id = models.CharField(_("message ID"), max_length=32)
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="entries", verbose_name=_("run"))
    step = models.PositiveIntegerField(
        _("step"), null=True, blank=True, help_text=_("Position in the run; a finished step is never repeated")
    )
    # provider, model, usage, stopReason, toolCallId, toolName, isError, label: whatever the kind needs
    meta = models.JSONField(_("meta"), default=dict, blank=True)
    keep_through = models.PositiveIntegerField(
        _("keep through"), null=True, blank=True, help_text=_("Last position kept by a rewind")
    )
    created_at = models.DateTimeField(_("created"))

    class Meta:
        verbose_name = _("transcript entry")
        verbose_name_plural = _("transcript entries")
        constraints = [
            UniqueConstraint(fields=["session", "position"], name="one_entry_per_position"),
            UniqueConstraint(fields=["run", "step"], name="one_entry_per_step"),
        ]
        # Checked for every entry read, and nearly always empty.
        indexes = [models.Index(fields=["session", "position"], condition=Q(kind="rewind"), name="entry_rewind")]

    def __str__(self) -> str:
        return f"{self.kind} {self.position}"
