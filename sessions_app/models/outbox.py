"""Outgoing messages for connectors: written at the end of a run or by a tool call, delivered once."""

from django.db import models
from django.db.models import UniqueConstraint
from django.utils.translation import gettext_lazy as _

from sessions_app.models.run import Run
from sessions_app.models.session import Session


class Outbox(models.Model):
    class Status(models.TextChoices):
        PENDING = "pending", _("Unsent")
        DELIVERED = "delivered", _("Delivered")
        FAILED = "failed", _("Failed")

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="outbox", verbose_name=_("session"))
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="outbox", verbose_name=_("run"))
    call_id = models.CharField(
        _("call ID"), max_length=200, blank=True, help_text=_("Tool call that sent the message; blank for the run’s reply.")
    )
    part = models.PositiveSmallIntegerField(_("part"), default=0)
    channel = models.CharField(_("channel"), max_length=32)
    payload = models.JSONField(_("payload"))
    status = models.CharField(_("status"), max_length=16, choices=Status.choices, default=Status.PENDING)
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0)
    lease_token = models.BigIntegerField(_("lease token"), default=0)
    lease_until = models.FloatField(_("lease until"), null=True, blank=True)
    error = models.TextField(_("error"), blank=True)
    created_at = models.DateTimeField(_("created"))
    delivered_at = models.DateTimeField(_("delivered"), null=True, blank=True)

    class Meta:
        verbose_name = _("outbox entry")
        verbose_name_plural = _("outbox")
        constraints = [UniqueConstraint(fields=["run", "call_id", "part"], name="one_reply_per_part")]

    def __str__(self) -> str:
        return f"{self.channel} {self.run_id}/{self.part}"
