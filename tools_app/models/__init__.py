"""Models of the tools layer, one module per concept."""

from tools_app.models.approval import Approval, ApprovalVote, Grant
from tools_app.models.command import Command, CommandInput, CommandOutput
from tools_app.models.exec_rule import ExecRule
from tools_app.models.mcp import McpServer
from tools_app.models.plugin import Plugin
from tools_app.models.policy import PolicyTest, PolicyVersion, ToolPolicy

__all__ = [
    "Approval",
    "ApprovalVote",
    "Command",
    "CommandInput",
    "CommandOutput",
    "ExecRule",
    "Grant",
    "McpServer",
    "Plugin",
    "PolicyTest",
    "PolicyVersion",
    "ToolPolicy",
]
