"""MCP servers as rows, without a running server."""

from tools_app.models import McpServer
from tools_app.sources.mcp import servers
from tools_app.sources.mcp.listing import ToolListing

SCHEMA = {"type": "object", "properties": {}}


def record_server_tools(row: McpServer, *tools: str) -> McpServer:
    """Store these tools for a server, as a worker does after connecting."""
    listed = [{"name": name, "title": "", "description": "", "inputSchema": SCHEMA, "annotations": {}} for name in tools]
    servers.record_status(row.name, row.revision, "ready", listing=ToolListing(listed, []))
    row.refresh_from_db()
    return row
