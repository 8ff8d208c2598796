"""Tool sources: built-in tools, plugins, MCP servers."""
