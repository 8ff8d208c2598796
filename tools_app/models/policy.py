"""The tool policy as rows, and every version it ever had. tools_app.policies is the only writer of both."""

from django.conf import settings
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils.translation import gettext_lazy as _

from tools_app.policy.rules import RuleRow


class ToolPolicy(models.Model):
    """What one scope allows and refuses. Rows are for editing; runs are judged by the newest PolicyVersion."""

    class Scope(models.TextChoices):
        GLOBAL = "global", _("global")
        AGENT = "agent", _("agent")

    scope = models.CharField(_("scope"), max_length=32, choices=Scope.choices)
    subject = models.CharField(_("subject"), max_length=64, blank=True, help_text=_("Id of the agent; empty for the global policy"))
    profile = models.CharField(
        _("profile"), max_length=32, blank=True, help_text=_("Empty: the global profile, or minimal where there is none")
    )
    allow = models.JSONField(_("allow"), default=list, blank=True, help_text=_("Only these tools pass; empty does not limit"))
    deny = models.JSONField(_("deny"), default=list, blank=True, help_text=_("These never pass, whatever is allowed"))
    also_allow = models.JSONField(_("also allow"), default=list, blank=True, help_text=_("Added to what the profile allows"))

    class Meta:
        verbose_name = _("tool policy")
        verbose_name_plural = _("tool policies")
        constraints = [
            UniqueConstraint(fields=["scope", "subject"], name="one_policy_per_subject"),
            models.CheckConstraint(condition=~Q(scope="global") | Q(subject=""), name="global_policy_has_no_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.get_scope_display()} {self.subject}".strip()

    def as_rule(self) -> RuleRow:
        return RuleRow(self.scope, self.subject, self.profile, tuple(self.allow), tuple(self.deny), tuple(self.also_allow))


class PolicyVersion(models.Model):
    """All rows as they stood after one change. Never edited: tool calls name the version they were judged by."""

    number = models.PositiveIntegerField(_("number"), unique=True)
    created_at = models.DateTimeField(_("created"))
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", verbose_name=_("changed by")
    )
    snapshot = models.JSONField(_("rows"))

    class Meta:
        verbose_name = _("policy version")
        verbose_name_plural = _("policy versions")
        ordering = ["-number"]

    def __str__(self) -> str:
        return str(self.number)
