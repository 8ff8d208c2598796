"""What a worker does for the tools that come from outside: follow the rows of MCP servers and plugins."""

import asyncio

from clawsite.infra import db
from clawsite.infra.bus import Message
from tools_app.sources import plugins
from tools_app.sources import tools as source_tools
from tools_app.sources.mcp.manager import McpManager
from tools_app.sources.mcp.servers import CHANGED
from tools_app.sources.plugins import Loaded


class SourceKeeper:
    """`look` is called now and then, and soon after `changed` is set."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self._mcp = McpManager()
        self._noted: list[Loaded] | None = None  # nothing yet

    def hear(self, message: Message) -> None:
        if message.get("k") == CHANGED["k"]:
            self.changed.set()

    async def begin(self) -> None:
        """Have the enabled plugins imported before the first run wants them."""
        names = await db.read(plugins.enabled_names)
        if names:
            await asyncio.to_thread(plugins.imported, names, plugins.IMPORT_SECONDS)

    async def look(self) -> None:
        await self._mcp.look()
        loaded = await db.read(source_tools.loaded_plugins)
        if self._noted != loaded:
            await db.write(plugins.note, await db.read(plugins.seen), loaded)
            self._noted = loaded

    async def close(self) -> None:
        await self._mcp.close()
