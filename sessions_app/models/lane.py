"""A lane limits how many runs of one kind run concurrently on the whole server."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Lane(models.Model):
    name = models.CharField(_("name"), max_length=16, primary_key=True)
    max_running = models.PositiveIntegerField(_("max concurrent runs"))
    warn_after_seconds = models.FloatField(
        _("warn after (s)"), default=10, help_text=_("Runs that wait longer are flagged as late")
    )

    class Meta:
        verbose_name = _("lane")
        verbose_name_plural = _("lanes")

    def __str__(self) -> str:
        return self.name
