"""The event log: what every client of a session receives, in order, stored so that it can be resent."""

from django.db import models
from django.db.models import UniqueConstraint
from django.utils.translation import gettext_lazy as _

from sessions_app.models.run import Run
from sessions_app.models.session import Session


class Event(models.Model):
    """Immutable. `cursor` is dense per session, `seq` dense per run; events without a run have no seq."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="events", verbose_name=_("session"))
    cursor = models.BigIntegerField(_("cursor"))
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.CASCADE, related_name="events", verbose_name=_("run"))
    seq = models.PositiveIntegerField(_("sequence number in the run"), null=True, blank=True)
    stream = models.CharField(_("stream"), max_length=16)  # lifecycle, assistant, thinking, toolcall, tool, compaction, session
    data = models.JSONField(_("data"))
    ts = models.BigIntegerField(_("time"), help_text=_("Milliseconds since 1970"))

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        constraints = [
            UniqueConstraint(fields=["session", "cursor"], name="one_event_per_cursor"),
            UniqueConstraint(fields=["run", "seq"], name="one_event_per_seq"),
        ]

    def __str__(self) -> str:
        return f"{self.stream} {self.cursor}"
