"""Who may do what: accounts, their tokens, the first administrator's link, and how often signing in has failed.

The tables only. Scopes come from `groups`, tokens from `tokens`, waiting times from `throttle`.
"""

from datetime import datetime, timedelta

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import UniqueConstraint
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

TOKEN_DAYS = 90


def default_expiry() -> datetime:
    return timezone.now() + timedelta(days=TOKEN_DAYS)


class User(AbstractUser):
    """A person, or a program of ours that owns sessions (`is_service`) and can never sign in."""

    is_service = models.BooleanField(
        _("service account"), default=False, editable=False, help_text=_("Owns the sessions of a program; has no password.")
    )

    class Meta(AbstractUser.Meta):
        permissions = [
            ("use_gateway", _("Can chat with agents")),
            ("view_any_session", _("Can read everybody's sessions")),
            ("approve_commands", _("Can approve or deny commands")),
            ("administer_gateway", _("Can administer the gateway")),
            ("pair_devices", _("Can pair devices")),
        ]


class AccessToken(models.Model):
    """A key for programs. Only its digest is stored, so the secret can be shown once and never again."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="access_tokens", verbose_name=_("user"))
    name = models.CharField(_("name"), max_length=100)
    prefix = models.CharField(_("prefix"), max_length=16, unique=True, help_text=_("Public part of the token, to recognise it by"))
    digest = models.CharField(max_length=64, editable=False)
    scopes = models.JSONField(
        _("scopes"), default=list, help_text=_("What of the account's rights the token has; empty means none")
    )
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(_("expires"), default=default_expiry)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("access token")
        verbose_name_plural = _("access tokens")

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class FirstAdminLink(models.Model):
    """The one link that may create the first administrator. There is one row, so a new link ends the old one."""

    ONLY = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY, editable=False)
    digest = models.CharField(max_length=64)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"until {self.expires_at:%Y-%m-%d %H:%M}"


class FailedSignIns(models.Model):
    """How often in a row an address, or an account, has failed. The waiting time follows from the two numbers."""

    subject = models.CharField(max_length=80, unique=True)
    failures = models.PositiveIntegerField(default=0)
    last_failed_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name_plural = "failed sign-ins"

    def __str__(self) -> str:
        return f"{self.subject}: {self.failures}"


class KnownAddress(models.Model):
    """Where an account has signed in from, so that failures of strangers elsewhere do not keep its owner waiting."""

    account = models.CharField(max_length=80)
    address = models.CharField(max_length=64)
    last_seen_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name_plural = "known addresses"
        constraints = [UniqueConstraint(fields=["account", "address"], name="one_row_per_account_and_address")]

    def __str__(self) -> str:
        return self.address
