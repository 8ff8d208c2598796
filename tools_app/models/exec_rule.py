"""Exec rules as rows: what the installation, an agent or a session says about commands. tools_app.exec.rules merges them."""

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils.translation import gettext_lazy as _


class ExecRule(models.Model):
    """What one place says about commands. A blank field has no opinion; where several have one, the strictest counts."""

    class Scope(models.TextChoices):
        INSTALLATION = "installation", _("everybody")
        AGENT = "agent", _("agent")
        SESSION = "session", _("session")

    class Security(models.TextChoices):
        DENY = "deny", _("refuse every command")
        ALLOWLIST = "allowlist", _("what is on the list; the rest by asking")
        FULL = "full", _("every command that is not blocked")

    class Ask(models.TextChoices):
        OFF = "off", _("never ask: what is not allowed is refused")
        ON_MISS = "on-miss", _("ask about what is not on the list")
        ALWAYS = "always", _("ask about every command")

    class Fallback(models.TextChoices):
        DENY = "deny", _("refuse")
        ALLOWLIST = "allowlist", _("refuse, unless it is on the list by then")

    class SandboxMode(models.TextChoices):
        OFF = "off", _("no session")
        GROUPS = "groups", _("group chats and webhooks")
        ALL = "all", _("every session")

    class SandboxScope(models.TextChoices):
        SESSION = "session", _("a directory for each session")
        AGENT = "agent", _("a directory for each agent and person")
        SHARED = "shared", _("one directory for all")

    class Access(models.TextChoices):
        NONE = "none", _("hidden")
        READ = "ro", _("read only")
        WRITE = "rw", _("read and write")

    class Level(models.IntegerChoices):
        NONE = 0, _("none")
        LANDLOCK = 1, _("landlock")
        BUBBLEWRAP = 2, _("bubblewrap")

    scope = models.CharField(_("scope"), max_length=16, choices=Scope.choices)
    subject = models.CharField(
        _("subject"), max_length=64, blank=True, help_text=_("Id of the agent or of the session; empty for everybody")
    )
    security = models.CharField(
        _("security"), max_length=16, choices=Security.choices, blank=True, help_text=_("Where nobody says anything: refuse")
    )
    ask = models.CharField(
        _("ask"),
        max_length=16,
        choices=Ask.choices,
        blank=True,
        help_text=_("Where nobody says anything: ask about what is missing"),
    )
    ask_fallback = models.CharField(
        _("when nobody answers"), max_length=16, choices=Fallback.choices, blank=True, help_text=_("Empty: refuse")
    )
    approver_groups = models.ManyToManyField(
        Group,
        blank=True,
        verbose_name=_("who may approve"),
        help_text=_("Besides the permission to approve; empty: everybody who has it"),
    )
    exclude_requester = models.BooleanField(
        _("not by who asked"), null=True, blank=True, help_text=_("Whoever wrote the message may not approve what came of it")
    )
    two_people = models.BooleanField(_("two people must agree"), null=True, blank=True)
    expires_seconds = models.PositiveIntegerField(
        _("a question is open for (s)"),
        null=True,
        blank=True,
        validators=[MinValueValidator(10), MaxValueValidator(30 * 86400)],
        help_text=_("Empty: 24 hours"),
    )
    timeout_seconds = models.PositiveIntegerField(
        _("a command may take (s)"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(86400)],
        help_text=_("Empty: 30 minutes"),
    )
    sandbox_mode = models.CharField(
        _("sandboxed sessions"),
        max_length=16,
        choices=SandboxMode.choices,
        blank=True,
        help_text=_("Empty: group chats and webhooks"),
    )
    sandbox_scope = models.CharField(_("a sandbox has"), max_length=16, choices=SandboxScope.choices, blank=True)
    workspace_access = models.CharField(
        _("the agent's workspace in a sandbox"), max_length=8, choices=Access.choices, blank=True, help_text=_("Empty: hidden")
    )
    network = models.BooleanField(_("network"), null=True, blank=True, help_text=_("Empty or no: commands reach no network"))
    minimum_level = models.PositiveSmallIntegerField(
        _("isolation at least"),
        null=True,
        blank=True,
        choices=Level.choices,
        help_text=_(
            "Where the host cannot give it, commands are refused. Empty: the best there is; where that is none, "
            "every command is asked about"
        ),
    )
    unsafe_without_isolation = models.BooleanField(
        _("run without isolation and without asking"),
        null=True,
        blank=True,
        help_text=_("On a host that has no sandbox: believe the list alone. Commands then have all rights of the worker's account"),
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
