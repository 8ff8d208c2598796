"""The checks of `claw doctor` that need the database. They change nothing."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from clawsite.cli.doctor.finding import CheckResult

AUDIT_ROWS_CHECKED = 1_000  # entries whose chain hashes are checked
UNSEALED_SECONDS = 60.0


def check_accounts(_settings: ModuleType) -> CheckResult:
    from clawsite.accounts.sign_in.first_admin import admin_exists

    if admin_exists():
        return CheckResult("people", "ok", "there is an administrator")
    todo = "Open the link that `claw serve` prints, or set CLAWSITE_ADMIN_USERNAME and CLAWSITE_ADMIN_PASSWORD."
    return CheckResult("people", "warn", "there is no administrator yet", todo)


def check_worker(settings: ModuleType) -> CheckResult:
    from clawsite.infra import sql
    from sessions_app.models import Worker

    # A worker without a heartbeat for longer than the lease time has lost its runs to others.
    alive_count = Worker.objects.filter(heartbeat_at__gte=sql.db_now() - settings.LEASE_SECONDS).count()
    if alive_count:
        return CheckResult("worker", "ok", f"{alive_count} alive")
    return CheckResult(
        "worker",
        "warn",
        "no worker is alive, so messages stay queued",
        "Start `claw serve`, or `claw worker` beside your web processes.",
    )


def check_freezes(_settings: ModuleType) -> CheckResult:
    from sessions_app.runs import freezes

    active = [f"{f'{each.scope} {each.subject}'.strip()}, by {each.by_name}: {each.reason}" for each in freezes.list_active()]
    if active:
        return CheckResult("stops", "warn", f"frozen: {'; '.join(active)}", "Run `claw panic --resume` to resume.")
    return CheckResult("stops", "ok", "nothing is frozen")


def check_model(_settings: ModuleType) -> CheckResult:
    from agents.llm.base import ProviderError
    from agents.llm.catalog import DEMO_MODEL, resolve_model
    from agents.models import MAIN_AGENT
    from agents.selectors import choose_model_name, find_agent

    model = choose_model_name(find_agent(MAIN_AGENT))
    try:
        resolve_model(model)
    except ProviderError as error:
        return CheckResult(
            "model", "fail", f"{model}: {error.message}", "Set the key in the environment, or choose another CLAWSITE_MODEL."
        )
    if model == DEMO_MODEL:
        todo = "For a real one set CLAWSITE_MODEL and its key, such as OPENAI_API_KEY."
        return CheckResult("model", "ok", f"{model}: the built-in demo, needs no key", todo)
    return CheckResult("model", "ok", f"{model}, credentials found")


def check_sources(_settings: ModuleType) -> CheckResult:
    """Check the sources of external tools: MCP servers and plugins."""
    from tools_app.models import McpServer, Plugin

    failing = [f"{row.name} ({row.error})" for row in McpServer.objects.filter(enabled=True, status="failing")]
    failing += [f"{row.name} ({row.error})" for row in Plugin.objects.filter(enabled=True).exclude(error="")]
    if failing:
        return CheckResult("sources", "warn", f"can't be used: {', '.join(failing)}", "Check MCP servers and plugins in the admin.")
    on, off = (
        McpServer.objects.filter(enabled=enabled).count() + Plugin.objects.filter(enabled=enabled).count()
        for enabled in (True, False)
    )
    return CheckResult("sources", "ok", f"MCP servers and plugins: {on} enabled, {off} disabled")


def check_workspaces(_settings: ModuleType) -> CheckResult:
    """Check the agents' workspaces again: rows may be older than the form's validation, and directories may have moved."""
    from django.core.exceptions import ValidationError

    from agents.admin.forms import validate_workspace
    from agents.models import Agent

    wrong = []
    for agent in Agent.objects.exclude(workspace="").order_by("slug"):
        try:
            validate_workspace(agent.workspace)
        except ValidationError as error:
            wrong.append(f"{agent.slug} has {agent.workspace}: {error.messages[0]}")
    if wrong:
        return CheckResult("workspaces", "warn", " ".join(wrong), "Choose another workspace on the agent's form in the admin.")
    return CheckResult("workspaces", "ok", "no agent's workspace contains server files")


def check_webhooks(_settings: ModuleType) -> CheckResult:
    """Check that enabled webhooks are authorized by the owners of their accounts."""
    from clawsite.connectors.webhook.models import Hook

    on = list(Hook.objects.select_related("owner").filter(enabled=True).order_by("slug"))
    if waiting := [f"{hook} ({hook.owner.get_username()})" for hook in on if not hook.is_agreed]:
        todo = "The owner can authorize the webhook on the account page under “Webhooks”; or choose another account in the admin."
        return CheckResult(
            "webhooks", "warn", f"rejecting deliveries of webhooks that are not authorized yet: {', '.join(waiting)}", todo
        )
    return CheckResult("webhooks", "ok", f"{len(on)} enabled")


def check_audit(settings: ModuleType) -> CheckResult:
    """Check only the end of the chain; `claw audit verify` checks all of it."""
    from clawsite.infra import clock
    from clawsite.infra.audit import anchor as audit_anchor
    from clawsite.infra.audit.triggers import find_missing_triggers
    from clawsite.infra.audit.verify import verify

    if missing := find_missing_triggers():
        todo = "Run `claw migrate` to restore them, find out who removed them, then run `claw audit verify`."
        return CheckResult(
            "audit",
            "fail",
            f"the database no longer protects the log against changes; missing triggers: {', '.join(missing)}",
            todo,
        )
    try:
        anchors = list(audit_anchor.read_anchors(Path(settings.AUDIT_ANCHOR))) if settings.AUDIT_ANCHOR else []
    except (OSError, audit_anchor.BadAnchor) as error:
        return CheckResult("audit", "warn", f"CLAWSITE_AUDIT_ANCHOR: {error}", "Make the file readable, or configure another one.")
    report = verify(anchors, last=AUDIT_ROWS_CHECKED)
    if report.findings:
        return CheckResult("audit", "fail", report.findings[0].words, "Run `claw audit verify` to list every broken entry.")
    if report.oldest_unsealed and (clock.now() - report.oldest_unsealed).total_seconds() > UNSEALED_SECONDS:
        text = f"entries not chained yet: {report.unsealed}, the oldest from {report.oldest_unsealed:%Y-%m-%d %H:%M} UTC"
        return CheckResult("audit", "warn", text, "Workers chain new entries every second: start one, or check its log.")
    anchored = f", {len(anchors)} anchors match" if anchors else ""
    return CheckResult("audit", "ok", f"{report.position} entries chained, the last {report.sealed} checked{anchored}")


DATABASE_CHECKS: list[Callable[[ModuleType], CheckResult]] = [
    check_accounts, check_worker, check_freezes, check_model, check_workspaces, check_sources, check_webhooks, check_audit,
]  # fmt: skip
