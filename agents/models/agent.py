"""The agents people talk to."""

from typing import Any

from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

MAIN_AGENT = "main"


class Agent(models.Model):
    """An agent: model, instructions and workspace. The tool policy decides which tools it may use."""

    slug = models.CharField(
        _("ID"),
        max_length=64,
        primary_key=True,
        validators=[RegexValidator(r"^[a-z0-9][a-z0-9_-]*$", _("Use only a-z, 0-9, - and _."))],
    )
    name = models.CharField(_("name"), max_length=100)
    model = models.CharField(
        _("model"),
        max_length=200,
        blank=True,
        help_text=_("provider/model, for example openai/gpt-5. Leave blank for the server default."),
    )
    instructions = models.TextField(_("instructions"), blank=True, help_text=_("Added to the system prompt"))
    workspace = models.CharField(
        _("workspace"),
        max_length=500,
        blank=True,
        help_text=_(
            "Directory shared by everyone who uses this agent. Leave blank to give each user a private directory in the "
            "state directory."
        ),
    )
    thinking_level = models.CharField(_("thinking level"), max_length=16, blank=True)
    run_timeout_seconds = models.FloatField(
        _("run timeout (s)"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("Leave blank for the server default."),
    )
    max_turns = models.PositiveIntegerField(
        _("max turns per run"), default=50, help_text=_("Maximum number of model requests in one run")
    )
    enabled = models.BooleanField(_("enabled"), default=True)

    class Meta:
        verbose_name = _("agent")
        verbose_name_plural = _("agents")

    def __str__(self) -> str:
        return self.slug


def install_main_agent(**_kwargs: Any) -> None:
    """Create the default agent after a migration if it doesn't exist."""
    Agent.objects.get_or_create(slug=MAIN_AGENT, defaults={"name": "Main"})
