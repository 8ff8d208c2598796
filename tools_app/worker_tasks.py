"""What a worker runs for tools: sources of external tools, started commands, and the expiration of approval requests."""

from django.conf import settings

from clawsite.infra import db
from clawsite.infra.periodic import periodic
from clawsite.infra.process.host import Host, on_start
from sessions_app.events.announce import FreezesChanged, SessionChanged
from tools_app.approvals import expiry
from tools_app.exec.processes import commands
from tools_app.exec.processes.commands import CommandChanged
from tools_app.exec.processes.keeper import CommandManager
from tools_app.sources.mcp.servers import SourcesChanged
from tools_app.sources.refresh import SourceRefresher


@on_start("worker")
async def start_sources(host: Host) -> None:
    refresher = SourceRefresher()
    host.provide(refresher)
    host.on_stop(refresher.close)
    host.subscribe(SourcesChanged, refresher.handle_change)
    host.every("refresh tool sources", settings.SWEEP_SECONDS, refresher.refresh, hint=refresher.changed)
    await refresher.begin()


@on_start("worker")
async def start_commands(host: Host) -> None:
    manager = CommandManager(host.id)
    host.on_stop(manager.close)
    host.subscribe(CommandChanged, manager.handle_command_change)
    host.subscribe(FreezesChanged, manager.handle_change)
    host.subscribe(SessionChanged, manager.handle_change)
    host.every("handle command input", settings.POLL_SECONDS, manager.poll, hint=manager.changed)
    host.every("end lost commands", settings.SWEEP_SECONDS, manager.sweep)
    await manager.begin()


@periodic("expire approval requests", on="worker", every=lambda: settings.POLL_SECONDS)
async def expire_approvals() -> None:
    """Expire overdue approval requests and warn about those that will expire soon."""
    if await db.read(expiry.has_due_approvals):
        await db.write(expiry.expire_and_warn, alone=True)


@periodic("delete old command output", on="worker", every=3600.0)
async def delete_old_output() -> None:
    await db.write(commands.delete_old_output)
