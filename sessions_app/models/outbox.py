"""Replies that a connector has to deliver outside: written with the end of the run, delivered once."""

from django.db import models
from django.db.models import UniqueConstraint

from sessions_app.models.run import Run
from sessions_app.models.session import Session


class Outbox(models.Model):
    class Status(models.TextChoices):
        PENDING = "pending"
        DELIVERED = "delivered"
        FAILED = "failed"

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="outbox")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="outbox")
    part = models.PositiveSmallIntegerField(default=0)
    channel = models.CharField(max_length=32)
    payload = models.JSONField()
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    lease_token = models.BigIntegerField(default=0)
    lease_until = models.FloatField(null=True, blank=True)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField()
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "outbox"
        constraints = [UniqueConstraint(fields=["run", "part"], name="one_reply_per_part")]

    def __str__(self) -> str:
        return f"{self.channel} {self.run_id}/{self.part}"
