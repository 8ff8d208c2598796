"""A freeze of everything, one agent or one run. The row is in force until it is lifted, and stays as history."""

from django.conf import settings
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils.translation import gettext_lazy as _


class Freeze(models.Model):
    class Scope(models.TextChoices):
        ALL = "all", _("Everything")
        AGENT = "agent", _("One agent")
        RUN = "run", _("One run")

    scope = models.CharField(_("scope"), max_length=8, choices=Scope.choices)
    subject = models.CharField(
        _("subject"), max_length=64, blank=True, help_text=_("ID of the agent or run; leave blank for everything.")
    )
    reason = models.CharField(_("reason"), max_length=500)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", verbose_name=_("frozen by")
    )
    by_name = models.CharField(
        _("frozen by"), max_length=150, help_text=_("Kept if the account is deleted; freezes from the command line have no account")
    )
    at = models.DateTimeField(_("frozen at"))

    lifted_at = models.DateTimeField(_("resumed"), null=True, blank=True)
    lifted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", verbose_name=_("resumed by")
    )
    lifted_by_name = models.CharField(_("resumed by"), max_length=150, blank=True)
    lifted_reason = models.CharField(_("reason for resuming"), max_length=500, blank=True)

    class Meta:
        verbose_name = _("freeze")
        verbose_name_plural = _("freezes")
        constraints = [
            # Also the index for the check at every claim and tool start: it only contains freezes in force, so it is nearly empty.
            UniqueConstraint(fields=["scope", "subject"], condition=Q(lifted_at__isnull=True), name="one_freeze_at_a_time"),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.subject}".strip()

    def covers(self, agent: str, run_pk: int) -> bool:
        """Return whether this freeze stops runs of this agent, or this run."""
        return {"all": True, "agent": self.subject == agent, "run": self.subject == str(run_pk)}[self.scope]

    @property
    def describe(self) -> str:
        """Describe the freeze in English, for the model and for logs."""
        return f"stopped by {self.by_name}: {self.reason}"
