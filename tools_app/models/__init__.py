"""The tables of the tools layer, one file a noun."""

from tools_app.models.mcp import McpServer
from tools_app.models.plugin import Plugin
from tools_app.models.policy import PolicyTest, PolicyVersion, ToolPolicy

__all__ = ["McpServer", "Plugin", "PolicyTest", "PolicyVersion", "ToolPolicy"]
