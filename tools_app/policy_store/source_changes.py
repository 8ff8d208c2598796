"""Operators' changes to tool sources: MCP servers and plugins. Workers record the status of these elsewhere.

Each change can affect what agents can use: for example, an allowlist that names only a plugin is ignored while the plugin is
enabled. So a change that breaks a policy test is rejected, as for the policy itself. A test that already failed doesn't prevent
a change, which may be the first step of a fix.
"""

from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from clawsite.infra.audit import log as audit_log
from clawsite.infra.errors import Conflict, InvalidRequest
from tools_app.models import McpServer, Plugin, PolicyTest
from tools_app.policy.expectations import BrokenExpectation
from tools_app.policy.rules import PolicyRules
from tools_app.policy_store.hypothetical_tools import is_reachable
from tools_app.policy_store.policies import current_rules, describe_broken_test, find_broken_tests, lock_changes
from tools_app.sources import offered, plugins
from tools_app.sources import tools as source_tools
from tools_app.sources.mcp import servers


def save_server(server: McpServer, *, expected_revision: int | None = None) -> McpServer:
    """Save a server's settings; workers reconnect. Raise InvalidRequest if they are invalid or would break a policy test.

    With `expected_revision`, raise Conflict if the server has changed since.
    """
    servers.check_server(server)
    with _keep_tests_passing():
        before = McpServer.objects.filter(pk=server.pk).first()
        if before and expected_revision not in (None, before.revision):
            message = _("%(server)s was changed while you were editing. Your input is kept: review it, then save again.")
            raise Conflict(message % {"server": before.name})
        fields = [name for name in servers.SETTING_FIELDS if before is None or getattr(server, name) != getattr(before, name)]
        server.save(update_fields=_apply_settings(server, before) if before else None)
        change = "changed" if before else "added"
        # Names only: the values of variables and headers may be credentials.
        audit_log.record("settings.changed", subject=("MCP server", server.pk), name=server.name, change=change, fields=fields)
    return server


def _apply_settings(server: McpServer, before: McpServer) -> list[str]:
    """Reset what the changed settings invalidate, and return the columns to write.

    Other columns are left out, so that a form with old values doesn't overwrite what workers have recorded.
    """
    server.revision = before.revision + 1
    columns = [*servers.SETTING_FIELDS, "revision"]
    if any(getattr(server, name) != getattr(before, name) for name in servers.CONNECTION_FIELDS):
        server.tools, server.listing, server.notes, server.error = [], "", [], ""
        columns += ["tools", "listing", "notes", "error"]
    if not server.enabled:
        server.status, server.error = McpServer.Status.OFF, ""
        columns += ["status", "error"]
    return columns


def switch_servers(rows: Iterable[McpServer], *, on: bool) -> None:
    rows = list(rows)
    off = {} if on else {"status": McpServer.Status.OFF, "error": ""}
    with _keep_tests_passing():
        McpServer.objects.filter(pk__in=_primary_keys(rows)).update(enabled=on, revision=F("revision") + 1, **off)
        _record_audit("MCP server", rows, "enabled" if on else "disabled")


def delete_servers(rows: Iterable[McpServer]) -> None:
    rows = list(rows)
    with _keep_tests_passing():
        for row in McpServer.objects.filter(pk__in=_primary_keys(rows)):  # read again: the caller's copy may be old
            _record_audit("MCP server", [row], "deleted", was=_audit_details(row))
        McpServer.objects.filter(pk__in=_primary_keys(rows)).delete()


def switch_plugins(rows: Iterable[Plugin], *, on: bool) -> None:
    rows = list(rows)
    names = {row.name for row in rows}
    with _keep_tests_passing(on=names) if on else _keep_tests_passing(off=names):
        Plugin.objects.filter(pk__in=_primary_keys(rows)).update(enabled=on, error="")
        _record_audit("plugin", rows, "enabled" if on else "disabled")


def dry_run(change: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Make the change and roll it back, raising whatever it raises."""
    with transaction.atomic():
        change(*args, **kwargs)
        transaction.set_rollback(True)


@contextmanager
def _keep_tests_passing(on: Set[str] = frozenset(), off: Set[str] = frozenset()) -> Iterator[None]:
    """Lock policies and sources for a transaction, and roll it back if a test that passed before fails.

    `on` and `off` are plugins to enable and disable. A plugin to disable doesn't have to be imported, so one that hangs on import
    can be disabled.
    """
    plugins.require_imported({*plugins.list_enabled(), *on} - off)
    with transaction.atomic():
        lock_changes()
        rules = current_rules()
        before = _find_broken_tests(rules)
        yield
        try:
            after = _find_broken_tests(rules)
            # A test that already failed counts as newly broken if this change makes its tool reachable.
            broken = [failure for name, (failure, reachable) in after.items() if name not in before or reachable > before[name][1]]
        finally:
            source_tools.clear_caches()
        if broken:
            raise InvalidRequest(" ".join(describe_broken_test(failure) for failure in broken))
        servers.notify_workers()


def _find_broken_tests(rules: PolicyRules) -> dict[str, tuple[BrokenExpectation, bool]]:
    """Return the failing tests by name, and for each whether it forbids a tool that is now reachable."""
    now = offered.load_offered_tools()
    return {
        failure.expectation.name: (
            failure,
            failure.expectation.expected == PolicyTest.Expected.NEVER and is_reachable(failure, now),
        )
        for failure in find_broken_tests(rules)
    }


def _audit_details(server: McpServer) -> dict[str, Any]:
    """Return what the audit log records of a server, without possible secrets: arguments, URL path, variable and header values."""
    plain = {name: getattr(server, name) for name in ("transport", "command", "enabled", "include", "exclude", "timeout_seconds")}
    url = urlsplit(server.url)
    summary = {"host": url.hostname or "", "args": len(server.args), "env": sorted(server.env), "headers": sorted(server.headers)}
    return {name: value for name, value in (plain | summary).items() if value not in ("", [])}


def _record_audit(kind: str, rows: Iterable[McpServer | Plugin], change: str, **more: Any) -> None:
    details = {"change": change, **more}
    audit_log.record_all(
        [audit_log.NewAuditEntry("settings.changed", subject=(kind, row.pk), details={"name": row.name} | details) for row in rows]
    )


def _primary_keys(rows: Iterable[McpServer | Plugin]) -> list[Any]:
    return [row.pk for row in rows]
