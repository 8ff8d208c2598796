"""Something that happened outside a session, queued for its next run. Deleted once the run has received it."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from sessions_app.models.session import Session


class SystemEvent(models.Model):
    """Written by system_events.enqueue; the claim of a run moves its text into the transcript."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="system_events", verbose_name=_("session"))
    text = models.TextField(_("text"), help_text=_("As shown to the model"))
    source = models.CharField(_("source"), max_length=80, help_text=_("Account or webhook that reported it"))
    hook = models.CharField(
        _("webhook"),
        max_length=64,
        blank=True,
        default="",
        help_text=_("Source webhook: only runs with this webhook's limits can see the text"),
    )
    created_at = models.DateTimeField(_("created"))

    class Meta:
        verbose_name = _("system event")
        verbose_name_plural = _("system events")

    def __str__(self) -> str:
        return f"{self.source} · {self.pk}"
