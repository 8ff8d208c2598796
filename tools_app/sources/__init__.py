"""Where tools come from: built-in, plugins, MCP servers."""
