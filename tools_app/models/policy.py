"""Tool policy rules, policy tests, and every published version. Written only by tools_app.policy_store.policies."""

from django.conf import settings
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils.translation import gettext_lazy as _

from tools_app.policy.expectations import Expectation
from tools_app.policy.rules import LIST_FIELDS, SCOPE_FIELDS, RuleRow


class ToolPolicy(models.Model):
    """What one scope allows and denies. These rows are for editing; runs use the newest PolicyVersion."""

    class Scope(models.TextChoices):
        GLOBAL = "global", _("everyone")
        AGENT = "agent", _("agent")
        GROUP = "group", _("group chat")
        SANDBOX = "sandbox", _("sandbox")
        SUBAGENT = "subagent", _("subagents")

    scope = models.CharField(_("scope"), max_length=32, choices=Scope.choices)
    subject = models.CharField(
        _("agent"),
        max_length=64,
        blank=True,
        help_text=_("Agent ID, for the scopes “agent” and “sandbox”. A sandbox rule without one applies to all agents."),
    )
    provider = models.CharField(
        _("model"),
        max_length=200,
        blank=True,
        help_text=_(
            "For the scopes “everyone” and “agent”: `openai`, or `anthropic/claude-opus-4` for a single model. Leave blank for "
            "all models."
        ),
    )
    channel = models.CharField(_("channel"), max_length=64, blank=True, help_text=_("For group chats, for example `telegram`"))
    group = models.CharField(
        _("group"),
        max_length=200,
        blank=True,
        help_text=_("The group’s ID in its channel, or `*` for all groups without a rule."),
    )
    sender = models.CharField(
        _("sender"),
        max_length=200,
        blank=True,
        help_text=_(
            "A person’s ID, phone number, username or name, or `*`. Replaces the group’s rule. Leave blank for the group itself."
        ),
    )
    profile = models.CharField(
        _("tool profile"),
        max_length=32,
        blank=True,
        help_text=_("Leave blank for the global tool profile, or minimal if there is none."),
    )
    allow = models.JSONField(
        _("allow"), default=list, blank=True, help_text=_("Only these tools are allowed; leave blank for no limit.")
    )
    deny = models.JSONField(
        _("deny"), default=list, blank=True, help_text=_("These tools are always denied, regardless of what is allowed.")
    )
    also_allow = models.JSONField(_("also allow"), default=list, blank=True, help_text=_("Added to what the tool profile allows"))

    class Meta:
        verbose_name = _("tool policy")
        verbose_name_plural = _("tool policies")
        constraints = [
            UniqueConstraint(fields=list(SCOPE_FIELDS), name="one_policy_per_place"),
            models.CheckConstraint(condition=~Q(scope="global") | Q(subject=""), name="global_policy_has_no_subject"),
        ]

    def __str__(self) -> str:
        return self.as_rule().key

    def as_rule(self) -> RuleRow:
        return RuleRow.from_json({name: getattr(self, name) for name in (*SCOPE_FIELDS, "profile", *LIST_FIELDS)})


class PolicyTest(models.Model):
    """An expectation that must hold after every edit: a version that breaks it is not published."""

    class Expected(models.TextChoices):
        NEVER = "never", _("never gets")
        ALLOWED = "allowed", _("gets")

    name = models.CharField(_("name"), max_length=120, unique=True, help_text=_("For example: support-bot never gets exec"))
    agent = models.CharField(_("agent"), max_length=64, blank=True, help_text=_("Leave blank for all agents."))
    expected = models.CharField(_("expected result"), max_length=16, choices=Expected.choices)
    tool = models.CharField(_("tool"), max_length=200, help_text=_("A tool, `group:runtime` or `sessions_*`"))
    provider = models.CharField(_("model"), max_length=200, blank=True, help_text=_("Leave blank for any model."))
    channel = models.CharField(_("channel"), max_length=64, blank=True)
    group = models.CharField(_("group"), max_length=200, blank=True, help_text=_("Leave blank for a direct chat."))
    sender = models.CharField(_("sender"), max_length=200, blank=True)
    sandboxed = models.BooleanField(_("in a sandbox"), default=False)
    subagent = models.BooleanField(_("as a subagent"), default=False)

    class Meta:
        verbose_name = _("policy test")
        verbose_name_plural = _("policy tests")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def as_expectation(self) -> Expectation:
        texts = {name: getattr(self, name) for name in Expectation.TEXT_FIELDS}
        return Expectation(**texts, sandboxed=self.sandboxed, subagent=self.subagent)


class PolicyVersion(models.Model):
    """A snapshot of all rules and tests after a change. Never edited: tool calls store the version that decided them."""

    number = models.PositiveIntegerField(_("number"), unique=True)
    created_at = models.DateTimeField(_("created"))
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", verbose_name=_("changed by")
    )
    change = models.CharField(_("change"), max_length=300, blank=True, help_text=_("Short description of the change"))
    snapshot = models.JSONField(_("rules"))
    tests = models.JSONField(_("tests"), null=True, default=list)  # null: created before versions included tests

    class Meta:
        verbose_name = _("policy version")
        verbose_name_plural = _("policy versions")
        ordering = ["-number"]

    def __str__(self) -> str:
        return str(self.number)
