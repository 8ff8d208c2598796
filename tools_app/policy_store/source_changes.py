"""What operators do to the sources of tools, MCP servers and plugins. What workers see of them is written elsewhere.

Each of these can change what agents may use: an allow list that names a plugin only is ignored while the plugin is on. So a
change that breaks a policy test is refused, like a version of the policy. A test that was broken before stops nothing here:
the change may be the first step of a repair.
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
    """Store what an operator wants; workers connect anew. InvalidRequest says what could not work, or what it would break.

    With `expected_revision`, only if nobody changed it since.
    """
    servers.check_server(server)
    with _keep_tests_passing():
        before = McpServer.objects.filter(pk=server.pk).first()
        if before and expected_revision not in (None, before.revision):
            words = _("%(server)s was changed while you were editing. Your input is kept: review it, then save again.")
            raise Conflict(words % {"server": before.name})
        fields = [name for name in servers.SETTING_FIELDS if before is None or getattr(server, name) != getattr(before, name)]
        server.save(update_fields=_apply_settings(server, before) if before else None)
        change = "changed" if before else "added"
        # By name only: values of variables and headers are what makes a server trust us.
        audit_log.record("settings.changed", subject=("MCP server", server.pk), name=server.name, change=change, fields=fields)
    return server


def _apply_settings(server: McpServer, before: McpServer) -> list[str]:
    """Brings the server in step with its settings; -> the columns to write.

    Not all of them: what workers saw meanwhile is not overwritten with what a form was opened with.
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
        for row in McpServer.objects.filter(pk__in=_primary_keys(rows)):  # as it is now, whenever the caller read it
            _record_audit("MCP server", [row], "deleted", was=_audit_details(row))
        McpServer.objects.filter(pk__in=_primary_keys(rows)).delete()


def switch_plugins(rows: Iterable[Plugin], *, on: bool) -> None:
    rows = list(rows)
    names = {row.name for row in rows}
    with _keep_tests_passing(on=names) if on else _keep_tests_passing(off=names):
        Plugin.objects.filter(pk__in=_primary_keys(rows)).update(enabled=on, error="")
        _record_audit("plugin", rows, "enabled" if on else "disabled")


def dry_run(change: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Raises what the change would raise, and leaves nothing of it."""
    with transaction.atomic():
        change(*args, **kwargs)
        transaction.set_rollback(True)


@contextmanager
def _keep_tests_passing(on: Set[str] = frozenset(), off: Set[str] = frozenset()) -> Iterator[None]:
    """A transaction beside which nobody changes policies or sources; undone if a test breaks that held before.

    `on` and `off` are plugins to be switched: one whose import never ends can be switched off.
    """
    plugins.require_imported({*plugins.list_enabled(), *on} - off)
    with transaction.atomic():
        lock_changes()
        rules = current_rules()
        before = _find_broken_tests(rules)
        yield
        try:
            after = _find_broken_tests(rules)
            # A tool that nobody could have, and that comes within reach now, breaks its test only now.
            broken = [fault for name, (fault, is_near) in after.items() if name not in before or is_near > before[name][1]]
        finally:
            source_tools.clear_caches()
        if broken:
            raise InvalidRequest(" ".join(describe_broken_test(fault) for fault in broken))
        servers.notify_workers()


def _find_broken_tests(rules: PolicyRules) -> dict[str, tuple[BrokenExpectation, bool]]:
    """The broken tests by their names, each with whether it forbids what somebody can have by now."""
    now = offered.load_offered_tools()
    return {
        fault.expectation.name: (fault, fault.expectation.expected == PolicyTest.Expected.NEVER and is_reachable(fault, now))
        for fault in find_broken_tests(rules)
    }


def _audit_details(server: McpServer) -> dict[str, Any]:
    """What the log keeps of a server. Arguments, paths of addresses, values of variables and headers may be secrets."""
    plain = {name: getattr(server, name) for name in ("transport", "command", "enabled", "include", "exclude", "timeout_seconds")}
    where = urlsplit(server.url)
    named = {"host": where.hostname or "", "args": len(server.args), "env": sorted(server.env), "headers": sorted(server.headers)}
    return {name: value for name, value in (plain | named).items() if value not in ("", [])}


def _record_audit(kind: str, rows: Iterable[McpServer | Plugin], change: str, **more: Any) -> None:
    details = {"change": change, **more}
    audit_log.record_all(
        [audit_log.NewAuditEntry("settings.changed", subject=(kind, row.pk), details={"name": row.name} | details) for row in rows]
    )


def _primary_keys(rows: Iterable[McpServer | Plugin]) -> list[Any]:
    return [row.pk for row in rows]
