"""MCP servers for agents. Written only by tools_app.sources.mcp.servers."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _


class McpServer(models.Model):
    """How to reach an MCP server, and its state as last seen by a worker. Secrets are referenced as `${NAME}`, never stored."""

    class Transport(models.TextChoices):
        STDIO = "stdio", _("Program on the worker’s host")
        HTTP = "http", _("Address (streamable HTTP)")

    class Status(models.TextChoices):
        OFF = "off", _("disabled")
        STARTING = "starting", _("starting…")
        READY = "ready", _("ready")
        FAILING = "failing", _("failing")

    name = models.CharField(
        _("name"),
        max_length=32,
        unique=True,
        help_text=_("Its tools are named `<name>__<tool>`, and policies can refer to the server by this name. Example: weather"),
    )
    enabled = models.BooleanField(_("enabled"), default=False, help_text=_("Workers connect to the server while this is enabled."))
    transport = models.CharField(_("kind"), max_length=8, choices=Transport.choices, default=Transport.STDIO)
    command = models.CharField(
        _("program"), max_length=500, blank=True, help_text=_("Run without a shell. Example: uvx, or /usr/bin/my-server")
    )
    args = models.JSONField(_("arguments"), default=list, blank=True)
    env = models.JSONField(_("environment"), default=dict, blank=True)
    url = models.CharField(_("address"), max_length=500, blank=True, help_text=_("Example: http://127.0.0.1:8000/mcp"))
    headers = models.JSONField(_("headers"), default=dict, blank=True)
    include = models.JSONField(_("only these tools"), default=list, blank=True)
    exclude = models.JSONField(_("except these tools"), default=list, blank=True)
    timeout_seconds = models.FloatField(
        _("call timeout"),
        default=120,
        validators=[MinValueValidator(0.1), MaxValueValidator(3600)],
        help_text=_("In seconds; the call is then canceled and the model is notified."),
    )
    revision = models.PositiveIntegerField(
        _("revision"), default=1, help_text=_("Incremented by every change; workers then reconnect.")
    )

    status = models.CharField(_("status"), max_length=8, choices=Status.choices, default=Status.OFF)
    tools = models.JSONField(_("tools"), default=list, blank=True)
    listing = models.CharField(_("tool list digest"), max_length=16, blank=True)
    notes = models.JSONField(_("skipped"), default=list, blank=True)
    error = models.TextField(_("error"), blank=True)
    checked_at = models.DateTimeField(_("last seen"), null=True, blank=True)
    restarts = models.PositiveIntegerField(_("restarts"), default=0, help_text=_("By workers, after failures"))

    class Meta:
        verbose_name = _("MCP server")
        verbose_name_plural = _("MCP servers")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
