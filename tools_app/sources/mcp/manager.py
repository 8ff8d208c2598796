"""Manage this process's MCP connections: one per server, shared by all runs, synchronized with the database.

Each worker has one manager. The SDK is not imported before a server is enabled.
"""

import asyncio
import importlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from clawsite.infra import db
from clawsite.infra.errors import ClawError
from tools_app.core.definition import CallContext, ToolFailed, ToolResult
from tools_app.sources.mcp import servers
from tools_app.sources.mcp.servers import McpServerSettings

if TYPE_CHECKING:
    from tools_app.sources.mcp.connection import McpConnection

log = logging.getLogger(__name__)

_managers: list["McpManager"] = []  # of this process; tests run several workers in one process


class McpManager:
    def __init__(self) -> None:
        self._connections: dict[str, McpConnection] = {}
        _managers.append(self)

    async def synchronize(self) -> None:
        """Synchronize the connections with the rows: open new ones, replace changed ones, close removed ones."""
        wanted = {each.name: each for each in await db.read(servers.list_enabled)}
        stale = [name for name, open_ in self._connections.items() if open_.settings != wanted.get(name)]
        if stale:
            await asyncio.gather(*(self._connections.pop(name).close() for name in stale))
        for name in wanted.keys() - self._connections.keys():
            self._connections[name] = await _open_connection(wanted[name])

    async def close(self) -> None:
        if self in _managers:
            _managers.remove(self)
        connections, self._connections = self._connections, {}
        await asyncio.gather(*(each.close() for each in connections.values()))

    async def call(self, server: str, tool: str, arguments: dict[str, Any], call: CallContext) -> ToolResult:
        connection = self._connections.get(server)
        if connection is None:
            raise ToolFailed(f"MCP server `{server}` is disabled or being reconfigured. Continue without it, or try later.")
        return await connection.call(tool, arguments, call)


async def call_tool(server: str, tool: str, arguments: dict[str, Any], call: CallContext) -> ToolResult:
    """Call a tool through the manager of this process."""
    if not _managers:
        raise ToolFailed("this process is not connected to MCP servers: only workers are.")
    return await _managers[-1].call(server, tool, arguments, call)


async def _open_connection(settings: McpServerSettings) -> "McpConnection":
    module = await asyncio.to_thread(importlib.import_module, "tools_app.sources.mcp.connection")
    connection: McpConnection = module.McpConnection(settings, partial(_store_status, settings))
    connection.open()
    return connection


async def _store_status(settings: McpServerSettings, status: str, **seen: Any) -> bool:
    """Store a connection's status and return whether it was stored. An unavailable database doesn't end the connection."""
    try:
        return await db.write(servers.record_status, settings.name, settings.revision, status, **seen)
    except ClawError as error:
        log.warning("could not store status of MCP server %s: %s", settings.name, error)
    except Exception:
        log.exception("could not store status of MCP server %s", settings.name)
    return False
