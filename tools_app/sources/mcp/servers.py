"""MCP server rows: what workers read and write, and validation.

Operators' changes are in tools_app.policy_store.source_changes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from clawsite.infra import bus, clock
from clawsite.infra.bus import BusMessage
from clawsite.infra.errors import InvalidRequest
from clawsite.infra.text import make_storable
from tools_app.models import McpServer, Plugin
from tools_app.policy.catalog import ALIASES, NATIVE_NAMES
from tools_app.sources import registry
from tools_app.sources.mcp.listing import ToolListing
from tools_app.sources.mcp.names import is_server_name, tool_prefix
from tools_app.sources.mcp.secrets import FORBIDDEN_VARIABLES, find_forbidden, looks_secret

MAX_ERROR = 500
# Changing one of these means another program or address, so the known tools no longer apply.
CONNECTION_FIELDS = ("transport", "command", "args", "url")
SETTING_FIELDS = (*CONNECTION_FIELDS, "enabled", "env", "headers", "include", "exclude", "timeout_seconds")


@dataclass(frozen=True)
class SourcesChanged(BusMessage, kind="sources"):
    """Servers or plugins were changed; workers reload them."""


@dataclass(frozen=True, slots=True)
class McpServerSettings:
    """The settings a connection needs, from one revision of the row."""

    name: str
    revision: int
    transport: str
    command: str
    args: list[str]
    env: dict[str, str]
    url: str
    headers: dict[str, str]


def list_enabled() -> list[McpServerSettings]:
    """Return the servers that workers should connect to."""
    columns = [field.name for field in fields(McpServerSettings)]  # without the tool lists: this is queried every few seconds
    return [McpServerSettings(**row) for row in McpServer.objects.filter(enabled=True).values(*columns)]


@transaction.atomic
def restart_servers(servers: Iterable[McpServer]) -> None:
    """Make every worker reconnect to these servers."""
    keys = [server.pk for server in servers]
    McpServer.objects.filter(pk__in=keys, enabled=True).update(
        revision=F("revision") + 1, status=McpServer.Status.STARTING, error=""
    )
    notify_workers()


def record_status(
    name: str, revision: int, status: str, *, error: str = "", listing: ToolListing | None = None, restarted: bool = False
) -> bool:
    """Store a status reported by a worker and return whether it was stored. Reports about old revisions are ignored."""
    rows = McpServer.objects.filter(name=name, revision=revision, enabled=True)
    seen: dict[str, Any] = {"status": status, "error": make_storable(error)[:MAX_ERROR], "checked_at": clock.now()}
    # Write the list only if it changed: it may be hundreds of kilobytes.
    if listing is not None and not rows.filter(listing=listing.digest).exists():
        seen |= {"tools": make_storable(listing.tools), "listing": listing.digest, "notes": make_storable(listing.notes)}
    if restarted:
        seen["restarts"] = F("restarts") + 1
    return bool(rows.update(**seen))


def notify_workers() -> None:
    bus.publish_on_commit(SourcesChanged())


def check_server(server: McpServer) -> None:
    """Raise InvalidRequest if a setting is invalid."""
    _check_name(server)
    if server.transport == McpServer.Transport.STDIO:
        if not server.command.strip():
            raise InvalidRequest(_("Enter the program that starts the server."))
    elif urlsplit(server.url).scheme not in ("http", "https") or not urlsplit(server.url).hostname:
        raise InvalidRequest(_("Enter an address that starts with http:// or https:// and includes the host."))
    for name in server.env:
        if FORBIDDEN_VARIABLES.fullmatch(name.upper()):
            raise InvalidRequest(_("%(name)s is reserved for Clawsite and is not passed on.") % {"name": name})
    # An argument may be the value of the option before it: `--token`, `abc`.
    options = pairwise([server.command, *server.args])
    values = [*server.env.items(), *server.headers.items(), ("", server.url), ("", server.command), *options]
    for name, value in values:
        if own := find_forbidden(value):
            raise InvalidRequest(_("%(name)s is reserved for Clawsite and is not passed on.") % {"name": own})
        if looks_secret(name, value):
            raise InvalidRequest(
                _("%(where)s contains a secret. Set it in the worker’s environment and write ${NAME} here.")
                % {"where": name or _("The command or address")}
            )


def _check_name(server: McpServer) -> None:
    name = server.name
    if not is_server_name(name):
        raise InvalidRequest(
            _(
                "“%(name)s” is not a valid server name. Use lowercase letters and digits, start with a letter, and use only "
                "single - or _ between them."
            )
            % {"name": name}
        )
    native = registry.load_installed()
    if name in NATIVE_NAMES or name in ALIASES or native.knows(name) or Plugin.objects.filter(name=name).exists():
        raise InvalidRequest(_("“%(name)s” is already the name of a tool or plugin.") % {"name": name})
    others = McpServer.objects.exclude(pk=server.pk).values_list("name", flat=True)
    if taken := next((other for other in others if tool_prefix(other) == tool_prefix(name)), ""):
        raise InvalidRequest(
            _("The tools of “%(name)s” would have the same names as those of “%(taken)s”.") % {"name": name, "taken": taken}
        )
