"""The tables of the tools layer, one file a noun."""

from tools_app.models.policy import PolicyTest, PolicyVersion, ToolPolicy

__all__ = ["PolicyTest", "PolicyVersion", "ToolPolicy"]
