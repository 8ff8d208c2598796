"""MCP servers and plugins in the admin. All changes go through tools_app.policy_store.source_changes."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from clawsite.infra.admin.actions import ActionPreview, with_confirmation
from clawsite.infra.admin.display import EMPTY, badge_column
from clawsite.infra.audit import log as audit_log
from tools_app.admin.base import ServiceAdmin
from tools_app.admin.source_forms import McpServerForm, PluginForm
from tools_app.models import McpServer, Plugin
from tools_app.policy_store import source_changes
from tools_app.sources import offered
from tools_app.sources.mcp import servers
from tools_app.sources.mcp.listing import is_included
from tools_app.sources.mcp.names import make_tool_name

STATUS_COLUMN = badge_column("status", _("status"), {"ready": "success", "starting": "info", "failing": "danger"})
MAX_SHOWN_CHARACTERS = 120  # characters of an error message shown in the list


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 1] + "…"


def _preview_enable(_request: HttpRequest, row: McpServer | Plugin) -> ActionPreview:
    if row.enabled:
        return ActionPreview(_("Already enabled"), acts=False)
    if isinstance(row, Plugin):
        message = _("Will be imported: code of %(package)s %(version)s runs in every process")
        return ActionPreview(message % {"package": row.package, "version": row.version})
    if row.transport == McpServer.Transport.STDIO:
        return ActionPreview(_("Will be started by every worker: %(command)s") % {"command": " ".join([row.command, *row.args])})
    return ActionPreview(_("Every worker will connect to it: %(url)s") % {"url": row.url})


def _preview_disable(_request: HttpRequest, row: McpServer | Plugin) -> ActionPreview:
    if not row.enabled:
        return ActionPreview(_("Already disabled"), acts=False)
    return ActionPreview(_("Its tools become unavailable; calls in progress fail"))


def _preview_restart(_request: HttpRequest, server: McpServer) -> ActionPreview:
    if not server.enabled:
        return ActionPreview(_("Disabled"), acts=False)
    return ActionPreview(_("Every worker will disconnect and reconnect; calls in progress fail"))


class SourceAdmin(ServiceAdmin):
    """Enable and disable actions, shared by MCP servers and plugins."""

    audited_as = ""  # tools_app.policy_store.source_changes records the changes
    switch: Any

    def _log(self, request: HttpRequest, rows: Iterable[Any], field: str) -> None:
        for row in rows:
            self.log_change(request, row, [{"changed": {"fields": [field]}}])

    @with_confirmation(
        label=_("Enable"),
        warning=_("Agents can then use their tools, if the tool policy allows them."),
        permission="change",
        preview=_preview_enable,
    )
    def enable(self, request: HttpRequest, rows: list[Any]) -> str:
        self.switch(rows, on=True)
        self._log(request, rows, "enabled")
        return ngettext("%d was enabled.", "%d were enabled.", len(rows)) % len(rows)

    @with_confirmation(
        label=_("Disable"),
        warning=_("Their tools become unavailable to all agents."),
        permission="change",
        preview=_preview_disable,
    )
    def disable(self, request: HttpRequest, rows: list[Any]) -> str:
        self.switch(rows, on=False)
        self._log(request, rows, "enabled")
        return ngettext("%d was disabled.", "%d were disabled.", len(rows)) % len(rows)

    @admin.display(description=_("error"))
    def error_shown(self, row: McpServer | Plugin) -> str:
        return _shorten(row.error) or EMPTY


@admin.register(McpServer)
class McpServerAdmin(SourceAdmin):
    when_empty = _("MCP servers give agents more tools. Add one by its address or command.")
    form = McpServerForm
    switch = staticmethod(source_changes.switch_servers)
    list_display = ["name", "enabled", STATUS_COLUMN, "transport", "tool_count", "restarts", "checked_at", "error_shown"]
    list_filter = ["enabled", "status", "transport"]
    search_fields = ["name", "command", "url"]
    date_hierarchy = "checked_at"
    ordering = ["name"]
    actions = ["enable", "disable", "restart"]
    readonly_fields = ["status", "error", "checked_at", "restarts", "tools_seen", "left_out"]
    fieldsets = [
        (None, {"fields": ["name", "enabled", "transport", "seen_revision"]}),
        (
            _("Program"),
            {
                "fields": ["command", "args", "env"],
                "description": _("Runs on each worker’s host, under the worker’s account. Enter only programs you trust."),
            },
        ),
        (_("Address"), {"fields": ["url", "headers"]}),
        (_("Tools"), {"fields": ["include", "exclude", "timeout_seconds"]}),
        (_("Last status seen by a worker"), {"fields": [("status", "checked_at", "restarts"), "error", "tools_seen", "left_out"]}),
    ]

    def get_readonly_fields(self, request: HttpRequest, obj: McpServer | None = None) -> list[str]:
        return [*self.readonly_fields, "name"] if obj else list(self.readonly_fields)  # policies refer to the name

    @admin.display(description=_("tools"))
    def tool_count(self, server: McpServer) -> str:
        included = sum(is_included(tool["name"], server.include, server.exclude) for tool in server.tools)
        return str(included) if included == len(server.tools) else f"{included} / {len(server.tools)}"

    @admin.display(description=_("tools"))
    def tools_seen(self, server: McpServer) -> str:
        lines = [
            (
                make_tool_name(server.name, tool["name"]),
                gettext("available") if is_included(tool["name"], server.include, server.exclude) else gettext("filtered out"),
                tool["description"],
            )
            for tool in server.tools
        ]
        body = format_html_join("", '<tr><th scope="row">{}</th><td>{}</td><td>{}</td></tr>', lines)
        return format_html('<table class="tools"><tbody>{}</tbody></table>', body) if lines else EMPTY

    @admin.display(description=_("skipped"))
    def left_out(self, server: McpServer) -> str:
        notes = [*server.notes, *offered.load_offered_tools().problems.get(server.name, [])]
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{}</li>", ((each,) for each in notes))) if notes else EMPTY

    def save_model(self, request: HttpRequest, obj: McpServer, form: Any, change: bool) -> None:
        source_changes.save_server(obj, expected_revision=form.cleaned_data.get("seen_revision"))

    def delete_model(self, request: HttpRequest, obj: McpServer) -> None:
        source_changes.delete_servers([obj])

    @with_confirmation(
        label=_("Restart"),
        warning=_("All workers reconnect."),
        permission="change",
        preview=_preview_restart,
    )
    def restart(self, request: HttpRequest, rows: list[McpServer]) -> str:
        servers.restart_servers(rows)
        audit_log.record_all(
            [
                audit_log.NewAuditEntry("admin.acted", subject=("MCP server", row.pk), details={"change": "restarted"})
                for row in rows
            ]
        )
        self._log(request, rows, "revision")
        return ngettext("%d server is restarting.", "%d servers are restarting.", len(rows)) % len(rows)


@admin.register(Plugin)
class PluginAdmin(SourceAdmin):
    """Plugins are installed with pip and discovered by workers; here they are only enabled and disabled."""

    when_empty = _("Plugins are Python packages installed alongside Clawsite. They are listed here when Clawsite finds them.")
    form = PluginForm
    switch = staticmethod(source_changes.switch_plugins)
    list_display = ["name", "enabled", "package", "version", "tool_count", "seen_at", "error_shown"]
    list_filter = ["enabled"]
    search_fields = ["name", "package"]
    date_hierarchy = "seen_at"
    ordering = ["name"]
    actions = ["enable", "disable"]
    fields = ["name", "enabled", ("package", "version"), "tools", "error", "seen_at"]
    readonly_fields = ["name", "package", "version", "tools", "error", "seen_at"]

    @admin.display(description=_("tools"))
    def tool_count(self, plugin: Plugin) -> int:
        return len(plugin.tools)

    def _plugins_for(self, request: HttpRequest, object_id: str | None) -> list[str]:
        """Also include the plugin being enabled."""
        row = self.get_object(request, object_id) if object_id else None
        enabling = row and request.POST.get("enabled") and self.has_change_permission(request, row)
        return [*super()._plugins_for(request, object_id), *([row.name] if row and enabling else [])]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Plugin | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Plugin, form: Any, change: bool) -> None:
        source_changes.switch_plugins([obj], on=obj.enabled)
