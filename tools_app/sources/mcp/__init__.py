"""MCP servers: connections, tool lists, results."""
