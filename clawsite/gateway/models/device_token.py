"""Tokens that paired devices connect with instead of their owner's credentials."""

from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from clawsite.accounts.models import AccessToken, User, valid_token_filter
from clawsite.gateway.models.device import Device


class DeviceTokenQuerySet(models.QuerySet["DeviceToken"]):
    def valid(self) -> "DeviceTokenQuerySet":
        """Valid tokens with device and owner; excludes those whose access token was revoked or has expired."""
        unbound_or_valid = Q(made_with__isnull=True) | valid_token_filter("made_with__")
        valid = self.filter(
            unbound_or_valid, revoked_at__isnull=True, device__revoked_at__isnull=True, device__owner__is_active=True
        )
        return valid.select_related("device__owner", "made_with__made_with")


class DeviceToken(models.Model):
    """A secret for one device in one role. Only its digest is stored, and it is only valid with the device's signature.

    A token without a digest is handed out on the next connect with the device's signature. A token created with an access token is
    valid as long as that one and has the same limits, so that a program can't outlive its access token.
    """

    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="tokens", verbose_name=_("device"))
    role = models.CharField(_("role"), max_length=16)
    digest = models.CharField(_("digest"), max_length=64, blank=True, editable=False, db_index=True)
    scopes = models.JSONField(_("scopes"), default=list)
    created_at = models.DateTimeField(_("created"), default=timezone.now)
    issued_at = models.DateTimeField(_("issued"), null=True, blank=True)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)
    made_with = models.ForeignKey(
        AccessToken, null=True, blank=True, on_delete=models.CASCADE, related_name="+", verbose_name=_("created with access token")
    )

    objects = DeviceTokenQuerySet.as_manager()

    class Meta:
        verbose_name = _("device token")
        verbose_name_plural = _("device tokens")
        constraints = [
            UniqueConstraint(fields=["device", "role"], condition=Q(revoked_at__isnull=True), name="one_living_token_per_role"),
        ]

    def __str__(self) -> str:
        return f"{self.device_id} · {self.role}"

    def limited_account(self) -> User:
        """The owner, with the limits of the access token it was created with, which may be the approver's."""
        self.device.owner.key_limits = self.made_with.limits() if self.made_with else None
        return self.device.owner

    def ceiling(self) -> frozenset[str]:
        scopes = frozenset(self.scopes)
        return scopes & self.made_with.ceiling() if self.made_with else scopes
