"""Accounts, their tokens and browsers, the first administrator's link, and failed sign-in counts.

Only the tables. The logic is in `groups` (scopes), `tokens`, `sign_in.browsers` and `sign_in.throttle` (waiting times).
"""

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

TOKEN_DAYS = 90


def default_expiry() -> datetime:
    return timezone.now() + timedelta(days=TOKEN_DAYS)


class User(AbstractUser):
    """A person, or a service account (`is_service`) that owns a program's sessions and can never sign in."""

    class Theme(models.TextChoices):
        SYSTEM = "system", _("Use system theme")
        LIGHT = "light", _("Light")
        DARK = "dark", _("Dark")

    # One name, as its owner writes it: not everyone has a first and a last name, or writes them in that order.
    first_name = None  # type: ignore[assignment]  # None removes a field of an abstract model
    last_name = None  # type: ignore[assignment]  # as above
    display_name = models.CharField(_("display name"), max_length=150, blank=True)
    language = models.CharField(_("language"), max_length=16, blank=True, help_text=_("Leave blank to use the browser’s language."))
    theme = models.CharField(_("theme"), max_length=8, choices=Theme.choices, default=Theme.SYSTEM)
    is_service = models.BooleanField(
        _("service account"), default=False, editable=False, help_text=_("Owns a program’s sessions; has no password.")
    )

    # Not a column: the tool limits of the access token used to authenticate. Runs store a copy.
    key_limits: dict[str, Any] | None = None

    class Meta(AbstractUser.Meta):
        permissions = [
            ("use_gateway", _("Can chat with agents")),
            ("view_any_session", _("Can read everybody's sessions")),
            ("approve_commands", _("Can approve or deny commands")),
            ("administer_gateway", _("Can administer the gateway")),
            ("pair_devices", _("Can pair devices")),
            ("manage_any_device", _("Can manage everybody's devices")),
        ]

    def get_full_name(self) -> str:
        return self.display_name or self.username

    def get_short_name(self) -> str:
        return self.get_full_name()


def valid_token_filter(at: str = "") -> Q:
    """Filter valid access tokens, or rows that reference one at `at`: neither it nor its parent has expired or been revoked."""
    own, parent = (
        Q(**{f"{path}revoked_at__isnull": True, f"{path}expires_at__gt": timezone.now()}) for path in (at, f"{at}made_with__")
    )
    return own & (Q(**{f"{at}made_with__isnull": True}) | parent)


class AccessToken(models.Model):
    """An access token for programs. Only its digest is stored, so the secret is shown once.

    A token created with another token never has more rights than its parent currently has, and is revoked with it. It can't create
    tokens itself, so chains are at most two long.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="access_tokens", verbose_name=_("user"))
    name = models.CharField(_("name"), max_length=100)
    prefix = models.CharField(_("prefix"), max_length=16, unique=True, help_text=_("Public part of the token, used to identify it"))
    digest = models.CharField(_("digest"), max_length=64, editable=False)
    scopes = models.JSONField(
        _("scopes"), default=list, help_text=_("Which of the account’s permissions the token has; leave blank for none.")
    )
    tools = models.JSONField(
        _("tool limits"),
        default=dict,
        blank=True,
        help_text=_("`allow` and `deny` lists of tools for runs started with the token; they can only narrow the policy"),
    )
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(_("expires"), default=default_expiry)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True, editable=False)
    made_with = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        editable=False,
        on_delete=models.CASCADE,
        related_name="made",
        verbose_name=_("parent token"),
        help_text=_("The token a program used to create this one; this one is revoked with it"),
    )

    class Meta:
        verbose_name = _("access token")
        verbose_name_plural = _("access tokens")

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def has_ended(self) -> bool:
        """Whether it or its parent token has expired or been revoked."""
        ended = self.revoked_at is not None or self.expires_at <= timezone.now()
        return ended or (self.made_with is not None and self.made_with.has_ended)

    def ceiling(self) -> frozenset[str]:
        own = frozenset(self.scopes)
        return own & self.made_with.ceiling() if self.made_with else own

    def limits(self) -> dict[str, Any] | None:
        """Return the tool limits as stored with runs, or None if there are none."""
        parent = self.made_with.tools if self.made_with else {}
        tools = (
            _intersect_limits(_parse_limits(self.tools), _parse_limits(parent))
            if self.tools and parent
            else _parse_limits(self.tools or parent)
        )
        return {"name": self.prefix, **tools} if self.tools or parent else None

    def limited_account(self) -> User:
        """Return the account with this token's limits."""
        self.user.key_limits = self.limits()
        return self.user


def _intersect_limits(one: dict[str, list[str]], other: dict[str, list[str]]) -> dict[str, list[str]]:
    """Intersect the allow lists and merge the deny lists. Entries are compared literally, so the result may be too narrow."""
    deny = list(dict.fromkeys([*one["deny"], *other["deny"]]))
    if not (one["allow"] and other["allow"]):
        return {"allow": one["allow"] or other["allow"], "deny": deny}
    allow = [entry for entry in one["allow"] if entry in other["allow"]]
    return {"allow": allow, "deny": deny if allow else ["*"]}


def _parse_limits(limits: Any) -> dict[str, list[str]]:
    """Parse both lists of tools. Unreadable limits allow no tool."""
    if isinstance(limits, dict) and set(limits) <= {"allow", "deny"}:
        lists = {name: limits.get(name, []) for name in ("allow", "deny")}
        if all(isinstance(each, list) and all(isinstance(entry, str) for entry in each) for each in lists.values()):
            return lists
    return {"allow": [], "deny": ["*"]}


class BrowserSession(models.Model):
    """A signed-in browser: adds owner and browser details to a Django session, which has neither.

    It is deleted with Django's row: on sign-out, on expiry, or when its owner signs it out from elsewhere.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="browser_sessions", verbose_name=_("user"))
    # The session key is the cookie, so this row is identified by its own ID wherever it is shown.
    session = models.OneToOneField(
        "sessions.Session", on_delete=models.CASCADE, related_name="browser", editable=False, verbose_name=_("session")
    )
    address = models.CharField(_("address"), max_length=64, blank=True)
    user_agent = models.CharField(_("user agent"), max_length=300, blank=True)
    signed_in_at = models.DateTimeField(_("signed in"), default=timezone.now)
    last_seen_at = models.DateTimeField(_("last seen"), default=timezone.now)

    class Meta:
        verbose_name = _("signed-in browser")
        verbose_name_plural = _("signed-in browsers")

    def __str__(self) -> str:
        return f"{self.user_id} · {self.address}"


class FirstAdminLink(models.Model):
    """The single link that can create the first administrator. There is one row, so a new link replaces the old one."""

    ONLY = 1

    id = models.PositiveSmallIntegerField(_("ID"), primary_key=True, default=ONLY, editable=False)
    digest = models.CharField(_("digest"), max_length=64)
    expires_at = models.DateTimeField(_("expires"))
    used_at = models.DateTimeField(_("used at"), null=True, blank=True)

    class Meta:
        verbose_name = _("first administrator link")
        verbose_name_plural = _("first administrator links")

    def __str__(self) -> str:
        return f"{self.expires_at:%Y-%m-%d %H:%M}"


class FailedSignIns(models.Model):
    """Consecutive failures of an address or account. The waiting time is computed from `failures` and `last_failed_at`."""

    subject = models.CharField(_("subject"), max_length=80, unique=True)
    failures = models.PositiveIntegerField(_("failures"), default=0)
    last_failed_at = models.DateTimeField(_("last failed"), db_index=True)

    class Meta:
        verbose_name = _("failed sign-ins")
        verbose_name_plural = _("failed sign-ins")

    def __str__(self) -> str:
        return f"{self.subject}: {self.failures}"


class KnownAddress(models.Model):
    """Addresses an account has signed in from, so that strangers' failures elsewhere don't delay its owner."""

    account = models.CharField(_("account"), max_length=80)
    address = models.CharField(_("address"), max_length=64)
    last_seen_at = models.DateTimeField(_("last seen"), db_index=True)

    class Meta:
        verbose_name = _("known address")
        verbose_name_plural = _("known addresses")
        constraints = [UniqueConstraint(fields=["account", "address"], name="one_row_per_account_and_address")]

    def __str__(self) -> str:
        return self.address
