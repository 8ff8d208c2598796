"""Installed plugins. Written only by tools_app.sources.plugins, except `enabled`, which the admin also sets."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Plugin(models.Model):
    """An entry point in the group `clawsite.plugins`. Discovered through package metadata; imported only while enabled."""

    name = models.CharField(_("name"), max_length=64, unique=True)
    enabled = models.BooleanField(_("enabled"), default=False, help_text=_("Its code runs in every process while this is enabled."))
    package = models.CharField(_("package"), max_length=200, blank=True)
    version = models.CharField(_("version"), max_length=64, blank=True)
    tools = models.JSONField(_("tools"), default=list, blank=True)
    has_hooks = models.BooleanField(
        _("checks tool calls"),
        default=False,
        help_text=_("Checks every tool call before it runs; while the plugin can’t be loaded, no tool calls run."),
    )
    error = models.TextField(_("error"), blank=True)
    seen_at = models.DateTimeField(_("last seen"), null=True, blank=True)

    class Meta:
        verbose_name = _("plugin")
        verbose_name_plural = _("plugins")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
