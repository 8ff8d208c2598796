"""Call built-in tools as a run does, with authorization and wrappers but without a model or worker."""

import asyncio
from pathlib import Path
from typing import Any

from sessions_app.models import Session
from tools_app.authorize import authorize_tool_call
from tools_app.core.definition import CallContext, CallRef, ToolEnv, ToolResult
from tools_app.execute import perform_call
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.sources import registry
from tools_app.toolset import build_toolset

RULES = PolicyRules(1, (RuleRow("global", profile="full"),))


def make_tool_env(session: Session, *, sender: Any = None, run_pk: int | None = None, workspace: Path | None = None) -> ToolEnv:
    """Return the environment of a run in a session, started by its owner or by another `sender`."""
    return ToolEnv(
        workspace=workspace,
        agent=session.agent,
        owner_id=session.owner_id,
        session_id=str(session.pk),
        session_key=session.key,
        run_pk=run_pk,
        model="openai/fake-1",
        sender_id=sender.pk if sender else 0,
    )


async def call_tool(
    env: ToolEnv, name: str, *, call_id: str = "c1", abort: asyncio.Event | None = None, **arguments: Any
) -> ToolResult:
    toolset = build_toolset(env, PolicyQuery(env.agent), RULES, registry.load_installed())
    permit = authorize_tool_call(CallRef(call_id, name, arguments), toolset=toolset, rules=RULES).permit
    assert permit is not None, f"{name} is not offered here"
    return await perform_call(permit, CallContext(call_id, lambda partial: None, abort or asyncio.Event()))
