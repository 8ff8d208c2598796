"""The tables of the tools layer, one file a noun."""

from tools_app.models.policy import PolicyVersion, ToolPolicy

__all__ = ["PolicyVersion", "ToolPolicy"]
