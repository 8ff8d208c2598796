"""What a device connects with after it was paired, in place of its owner's credential."""

from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from clawsite.accounts.models import AccessToken, User, valid_token_filter
from clawsite.gateway.models.device import Device


class DeviceTokenQuerySet(models.QuerySet["DeviceToken"]):
    def valid(self) -> "DeviceTokenQuerySet":
        """With their device and owner; without those whose access token was revoked or has expired."""
        living = Q(made_with__isnull=True) | valid_token_filter("made_with__")
        good = self.filter(living, revoked_at__isnull=True, device__revoked_at__isnull=True, device__owner__is_active=True)
        return good.select_related("device__owner", "made_with__made_with")


class DeviceToken(models.Model):
    """A secret for one device in one role. Only its digest is stored, and it counts only together with the device's signature.

    Without a digest it waits to be handed out: to whoever connects next with the device's signature. One that was handed out on the
    word of an access token lives as long as that one and is bound by its limits: a program gets nothing lasting out of it.
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
        """The owner, with the limits of the access token that it was made with, which may be the one of who approved the device."""
        self.device.owner.key_limits = self.made_with.limits() if self.made_with else None
        return self.device.owner

    def ceiling(self) -> frozenset[str]:
        scopes = frozenset(self.scopes)
        return scopes & self.made_with.ceiling() if self.made_with else scopes
