"""Invocations of node commands and their results."""

import uuid
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from clawsite.gateway.models.device import MANAGE_ANY_DEVICE, Device

if TYPE_CHECKING:
    from clawsite.accounts.models import User


class NodeInvocationQuerySet(models.QuerySet["NodeInvocation"]):
    def for_user(self, user: "User") -> "NodeInvocationQuerySet":
        return self if user.is_active and user.has_perm(MANAGE_ANY_DEVICE) else self.filter(owner=user)


class NodeInvocation(models.Model):
    """One command for one node. It is sent at most once, because it is marked as sent before it is sent."""

    class Status(models.TextChoices):
        PENDING = "pending", _("Waiting")
        SENT = "sent", _("Sent")
        DONE = "done", _("Completed")
        FAILED = "failed", _("Failed")

    ENTERED_FROM = {
        Status.SENT: [Status.PENDING],
        Status.DONE: [Status.SENT],
        Status.FAILED: [Status.PENDING, Status.SENT],
    }

    id = models.UUIDField(_("ID"), primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", verbose_name=_("requested by"))
    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="invocations", verbose_name=_("node"))
    command = models.CharField(_("command"), max_length=200)
    params_json = models.TextField(_("parameters"), blank=True, help_text=_("As sent to the node"))
    request_hash = models.CharField(_("request hash"), max_length=64)
    idempotency_key = models.CharField(_("idempotency key"), max_length=200)
    timeout_ms = models.PositiveIntegerField(_("timeout in milliseconds"))
    status = models.CharField(_("status"), max_length=16, choices=Status.choices, default=Status.PENDING)
    result_json = models.TextField(_("result"), blank=True)
    error_code = models.CharField(_("error"), max_length=64, blank=True)
    error_message = models.CharField(_("error message"), max_length=1000, blank=True)
    created_at = models.DateTimeField(_("requested"), default=timezone.now)
    expires_at = models.DateTimeField(_("expires"))
    sent_at = models.DateTimeField(_("sent"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    objects = NodeInvocationQuerySet.as_manager()

    class Meta:
        verbose_name = _("node invocation")
        verbose_name_plural = _("node invocations")
        constraints = [UniqueConstraint(fields=["owner", "idempotency_key"], name="one_invocation_per_key")]
        indexes = [
            models.Index(fields=["device", "status"], condition=Q(status__in=["pending", "sent"]), name="invocation_open"),
            models.Index(fields=["-created_at"], name="invocation_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.command} · {self.get_status_display()}"

    @property
    def is_open(self) -> bool:
        return self.status in (self.Status.PENDING, self.Status.SENT)
