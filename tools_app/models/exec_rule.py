"""Exec rules for the server, an agent or a session. tools_app.exec.rules merges them."""

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils.translation import gettext_lazy as _


class ExecRule(models.Model):
    """The exec rule of one scope. Blank fields don't apply; if several rules set a field, the strictest value wins."""

    class Scope(models.TextChoices):
        INSTALLATION = "installation", _("everyone")
        AGENT = "agent", _("agent")
        SESSION = "session", _("session")

    class Security(models.TextChoices):
        DENY = "deny", _("Deny every command")
        ALLOWLIST = "allowlist", _("Allowlisted only; ask for the rest")
        FULL = "full", _("Every command that is not blocked")

    class Ask(models.TextChoices):
        OFF = "off", _("Never ask; deny what is not allowed")
        ON_MISS = "on-miss", _("Ask for commands not on the allowlist")
        ALWAYS = "always", _("Ask for every command")

    class Fallback(models.TextChoices):
        DENY = "deny", _("Deny")
        ALLOWLIST = "allowlist", _("Deny, unless allowlisted by then")

    class SandboxMode(models.TextChoices):
        OFF = "off", _("No sessions")
        GROUPS = "groups", _("Group chats and webhooks")
        ALL = "all", _("All sessions")

    class SandboxScope(models.TextChoices):
        SESSION = "session", _("One directory per session")
        AGENT = "agent", _("One directory per agent and user")
        SHARED = "shared", _("One shared directory")

    class Access(models.TextChoices):
        NONE = "none", _("Hidden")
        READ = "ro", _("Read-only")
        WRITE = "rw", _("Read and write")

    class Level(models.IntegerChoices):
        NONE = 0, _("none")
        LANDLOCK = 1, _("landlock")
        BUBBLEWRAP = 2, _("bubblewrap")

    scope = models.CharField(_("scope"), max_length=16, choices=Scope.choices)
    subject = models.CharField(
        _("subject"), max_length=64, blank=True, help_text=_("ID of the agent or session; leave blank for everyone.")
    )
    security = models.CharField(
        _("security"),
        max_length=16,
        choices=Security.choices,
        blank=True,
        help_text=_("If no rule sets this, commands are denied."),
    )
    ask = models.CharField(
        _("ask for approval"),
        max_length=16,
        choices=Ask.choices,
        blank=True,
        help_text=_("If no rule sets this, commands not on the allowlist need approval."),
    )
    ask_fallback = models.CharField(
        _("on expiration"), max_length=16, choices=Fallback.choices, blank=True, help_text=_("Leave blank to deny.")
    )
    approver_groups = models.ManyToManyField(
        Group,
        blank=True,
        verbose_name=_("approver groups"),
        help_text=_("Required in addition to the permission to approve; leave blank for everyone who has it."),
    )
    exclude_requester = models.BooleanField(
        _("requester may not approve"),
        null=True,
        blank=True,
        help_text=_("The person who wrote the message can’t approve the resulting commands."),
    )
    two_people = models.BooleanField(_("two approvers required"), null=True, blank=True)
    expires_seconds = models.PositiveIntegerField(
        _("request expires after (s)"),
        null=True,
        blank=True,
        validators=[MinValueValidator(10), MaxValueValidator(30 * 86400)],
        help_text=_("Leave blank for 24 hours."),
    )
    timeout_seconds = models.PositiveIntegerField(
        _("command timeout (s)"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(86400)],
        help_text=_("Leave blank for 30 minutes."),
    )
    sandbox_mode = models.CharField(
        _("sessions with an isolated workspace"),
        max_length=16,
        choices=SandboxMode.choices,
        blank=True,
        help_text=_("Leave blank for group chats and webhooks."),
    )
    sandbox_scope = models.CharField(_("isolated workspace"), max_length=16, choices=SandboxScope.choices, blank=True)
    workspace_access = models.CharField(
        _("access to the agent’s workspace"),
        max_length=8,
        choices=Access.choices,
        blank=True,
        help_text=_("Leave blank to hide it."),
    )
    network = models.BooleanField(
        _("network"), null=True, blank=True, help_text=_("If blank or no, commands have no network access.")
    )
    minimum_level = models.PositiveSmallIntegerField(
        _("minimum sandbox level"),
        null=True,
        blank=True,
        choices=Level.choices,
        help_text=_(
            "If the host can’t provide it, commands are denied. Leave blank for the best available level; without a sandbox, "
            "every command needs approval."
        ),
    )
    unsafe_without_isolation = models.BooleanField(
        _("run without sandbox and without approval"),
        null=True,
        blank=True,
        help_text=_(
            "On a host without a sandbox, rely on the allowlist alone. Commands then have all permissions of the worker’s account."
        ),
    )
    version = models.PositiveIntegerField(_("version"), default=1)
    updated_at = models.DateTimeField(_("updated"), auto_now=True)
    updated_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", verbose_name=_("updated by")
    )

    class Meta:
        verbose_name = _("exec rule")
        verbose_name_plural = _("exec rules")
        constraints = [
            UniqueConstraint(fields=["scope", "subject"], name="one_exec_rule_per_place"),
            models.CheckConstraint(
                condition=Q(scope="installation", subject="") | ~Q(scope="installation") & ~Q(subject=""),
                name="exec_rule_names_its_place",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scope}:{self.subject}" if self.subject else self.scope
