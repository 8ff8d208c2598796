"""Paired devices: programs with their own key pair, as operators, nodes or both."""

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import UniqueConstraint
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

if TYPE_CHECKING:
    from clawsite.accounts.models import User

MANAGE_ANY_DEVICE = "accounts.manage_any_device"


class DeviceQuerySet(models.QuerySet["Device"]):
    def for_user(self, user: "User") -> "DeviceQuerySet":
        """Devices the user may manage: their own, or all with the permission."""
        return self if user.is_active and user.has_perm(MANAGE_ANY_DEVICE) else self.filter(owner=user)

    def active(self) -> "DeviceQuerySet":
        return self.filter(revoked_at__isnull=True)


class Device(models.Model):
    """One device of one account. Several accounts can pair the same key; each has a separate row.

    A revoked device stays in the list and can't connect until it is approved again.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="devices", verbose_name=_("owner"))
    fingerprint = models.CharField(_("device ID"), max_length=64, help_text=_("SHA-256 of the public key"))
    public_key = models.CharField(_("public key"), max_length=64)
    display_name = models.CharField(_("name"), max_length=256, blank=True)
    platform = models.CharField(_("platform"), max_length=128, blank=True)
    device_family = models.CharField(_("device family"), max_length=128, blank=True)
    model_identifier = models.CharField(pgettext_lazy("of a device", "model"), max_length=128, blank=True)
    client_id = models.CharField(_("program"), max_length=512, blank=True)
    client_version = models.CharField(_("version"), max_length=128, blank=True)
    is_operator = models.BooleanField(
        pgettext_lazy("role of a device", "operator"), default=False, help_text=_("Can act for its owner within its scopes")
    )
    is_node = models.BooleanField(_("node"), default=False, help_text=_("Runs commands sent by its owner"))
    scopes = models.JSONField(_("scopes"), default=list, help_text=_("The owner’s permissions this device can use as an operator"))
    # Stored because requesting the same scopes again, after fewer were granted, is not a new request.
    asked_scopes = models.JSONField(_("requested scopes"), default=list)
    declared = models.JSONField(_("reported by node"), default=dict, help_text=_("What the node reported when it last connected"))
    allowed_commands = models.JSONField(_("allowed commands"), default=list, help_text=_("Commands the node can be asked to run"))
    paired_at = models.DateTimeField(_("paired"), default=timezone.now)
    approved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        verbose_name=_("approved by"),
        help_text=_("Blank if the owner’s own credentials were enough."),
    )
    last_seen_at = models.DateTimeField(_("last seen"), null=True, blank=True)
    last_address = models.CharField(_("last address"), max_length=64, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)

    objects = DeviceQuerySet.as_manager()

    class Meta:
        verbose_name = _("device")
        verbose_name_plural = _("devices")
        constraints = [UniqueConstraint(fields=["owner", "fingerprint"], name="one_row_per_account_and_device")]
        indexes = [models.Index(fields=["fingerprint"], name="device_by_fingerprint")]

    def __str__(self) -> str:
        return self.display_name or f"{self.fingerprint[:12]}…"

    @property
    def roles(self) -> list[str]:
        return [role for role, has in (("operator", self.is_operator), ("node", self.is_node)) if has]
