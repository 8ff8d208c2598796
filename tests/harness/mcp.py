"""MCP servers as rows, without a server behind them."""

from tools_app.models import McpServer
from tools_app.sources.mcp import servers
from tools_app.sources.mcp.listing import ToolListing

SCHEMA = {"type": "object", "properties": {}}


def seen(row: McpServer, *tools: str) -> McpServer:
    """As it stands after a worker has seen it."""
    told = [{"name": name, "title": "", "description": "", "inputSchema": SCHEMA, "annotations": {}} for name in tools]
    servers.record_status(row.name, row.revision, "ready", listing=ToolListing(told, []))
    row.refresh_from_db()
    return row
