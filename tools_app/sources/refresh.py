"""Keep a worker's MCP servers and plugins in sync with their rows."""

import asyncio

from clawsite.infra import db
from tools_app.sources import plugins
from tools_app.sources import tools as source_tools
from tools_app.sources.mcp.manager import McpManager
from tools_app.sources.mcp.servers import SourcesChanged
from tools_app.sources.plugins import LoadedPlugin


class SourceRefresher:
    """The worker calls `refresh` periodically, and soon after `changed` is set."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self._mcp = McpManager()
        self._recorded: list[LoadedPlugin] | None = None  # None before the first refresh

    def handle_change(self, _message: SourcesChanged) -> None:
        self.changed.set()

    async def begin(self) -> None:
        """Import the enabled plugins before the first run needs them."""
        names = await db.read(plugins.list_enabled)
        if names:
            await asyncio.to_thread(plugins.import_plugins, names, plugins.IMPORT_TIMEOUT_SECONDS)

    async def refresh(self) -> None:
        await self._mcp.synchronize()
        loaded = await db.read(source_tools.loaded_plugins)
        if self._recorded != loaded:
            await db.write(plugins.record_plugins, await db.read(plugins.list_installed), loaded)
            self._recorded = loaded

    async def close(self) -> None:
        await self._mcp.close()
