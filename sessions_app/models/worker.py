"""A worker process and how to detect that it is gone."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Worker(models.Model):
    id = models.CharField(_("ID"), max_length=64, primary_key=True)
    host = models.CharField(_("host"), max_length=200, blank=True)
    # Boot ID, PID and start time identify one process on one host permanently: if it isn't found, it is dead.
    boot_id = models.CharField(_("boot ID"), max_length=64, blank=True)
    pid = models.PositiveIntegerField(_("process ID"))
    process_started = models.CharField(_("process start time"), max_length=32, blank=True)
    started_at = models.DateTimeField(_("started"))
    heartbeat_at = models.FloatField(_("last heartbeat"), help_text=_("Database time, seconds since 1970"))
    draining = models.BooleanField(_("draining"), default=False)
    version = models.CharField(_("version"), max_length=32, blank=True)

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")

    def __str__(self) -> str:
        return self.id
