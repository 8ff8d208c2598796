"""One call of a web tool, as in a run."""

import asyncio
from typing import Any

from tools_app.authorize import authorize_tool_call
from tools_app.builtin.web import tools
from tools_app.core.definition import CallContext, CallRef, ToolEnv, ToolResult
from tools_app.execute import perform_call
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.sources.registry import ToolRegistry
from tools_app.toolset import build_toolset

ENV = ToolEnv(None, "main", 1, "s", "k")
RULES = PolicyRules(1, (RuleRow("global", profile="full"),))
TOOLS = ToolRegistry.build([(tools.make_web_fetch, ""), (tools.make_web_search, "")])


async def use_web(name: str, **arguments: Any) -> ToolResult:
    """Tools are created for each call, with the current settings."""
    toolset = build_toolset(ENV, PolicyQuery("main"), RULES, TOOLS)
    permit = authorize_tool_call(CallRef("c1", name, arguments), toolset=toolset, rules=RULES).permit
    return await perform_call(permit, CallContext("c1", lambda partial: None, asyncio.Event()))
