"""Pairing requests of devices."""

import uuid
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from clawsite.gateway.models.device import MANAGE_ANY_DEVICE, Device

if TYPE_CHECKING:
    from clawsite.accounts.models import User


class PairingRequestQuerySet(models.QuerySet["PairingRequest"]):
    def for_user(self, user: "User") -> "PairingRequestQuerySet":
        """Requests the user may decide: those made with their credentials or with none, or all with the permission."""
        return (
            self if user.is_active and user.has_perm(MANAGE_ANY_DEVICE) else self.filter(Q(account=user) | Q(account__isnull=True))
        )

    def pending(self) -> "PairingRequestQuerySet":
        return self.filter(status=PairingRequest.Status.PENDING, expires_at__gt=timezone.now())


class PairingRequest(models.Model):
    """A device's request to be paired. Repeated attempts share one request, which expires five minutes after the last attempt."""

    class Status(models.TextChoices):
        PENDING = "pending", _("Pending")
        APPROVED = "approved", _("Approved")
        REJECTED = "rejected", _("Denied")

    class Reason(models.TextChoices):
        NOT_PAIRED = "not-paired", _("Unknown device")
        ROLE = "role-upgrade", _("Requests another role")
        SCOPES = "scope-upgrade", _("Requests more scopes")

    id = models.UUIDField(_("ID"), primary_key=True, default=uuid.uuid4, editable=False)
    fingerprint = models.CharField(_("device ID"), max_length=64, db_index=True)
    public_key = models.CharField(_("public key"), max_length=64)
    # The account whose credentials the device presented; null if none.
    account = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        verbose_name=_("account"),
    )
    role = models.CharField(_("role"), max_length=16)
    scopes = models.JSONField(_("requested scopes"), default=list)
    reason = models.CharField(_("reason"), max_length=16, choices=Reason.choices, default=Reason.NOT_PAIRED)
    facts = models.JSONField(_("reported by device"), default=dict, help_text=_("Names and, for a node, its commands"))
    address = models.CharField(_("address"), max_length=64, blank=True)
    created_at = models.DateTimeField(_("requested"), default=timezone.now, db_index=True)
    expires_at = models.DateTimeField(_("expires"))
    status = models.CharField(_("status"), max_length=16, choices=Status.choices, default=Status.PENDING)
    decided_at = models.DateTimeField(_("decided at"), null=True, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", verbose_name=_("decided by")
    )
    device = models.ForeignKey(
        Device, null=True, blank=True, on_delete=models.SET_NULL, related_name="requests", verbose_name=_("device")
    )

    objects = PairingRequestQuerySet.as_manager()

    class Meta:
        verbose_name = _("pairing request")
        verbose_name_plural = _("pairing requests")

    def __str__(self) -> str:
        return str(self.facts.get("displayName") or f"{self.fingerprint[:12]}…")

    @property
    def is_open(self) -> bool:
        return self.status == self.Status.PENDING and self.expires_at > timezone.now()
