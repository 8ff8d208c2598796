"""Call built-in tools as a run does, with authorization and wrappers but without a model or worker."""

import asyncio
from pathlib import Path
from typing import Any

from sessions_app.models import Session
from tools_app.authorize import authorize_tool_call
from tools_app.core.definition import CallContext, CallRef, Deferred, DeferredCall, ToolEnv, ToolResult
from tools_app.execute import perform_call, resume_call
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.sources import registry
from tools_app.toolset import Toolset, build_toolset

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


async def call_tool(env: ToolEnv, name: str, **options: Any) -> ToolResult:
    result = await call_or_defer(env, name, **options)
    assert isinstance(result, ToolResult)
    return result


async def call_or_defer(
    env: ToolEnv, name: str, *, call_id: str = "c1", abort: asyncio.Event | None = None, **arguments: Any
) -> ToolResult | Deferred:
    permit = authorize_tool_call(CallRef(call_id, name, arguments), toolset=_offered_tools(env), rules=RULES).permit
    assert permit is not None, f"{name} is not offered here"
    return await perform_call(permit, CallContext(call_id, lambda partial: None, abort or asyncio.Event()))


async def resume_deferred(
    env: ToolEnv, name: str, deferred: ToolResult | Deferred, *, call_id: str = "c1", overdue: bool = False
) -> ToolResult | None:
    assert isinstance(deferred, Deferred)
    call = DeferredCall(CallRef(call_id, name, {}), deferred.kind, deferred.ref, overdue)
    return await resume_call(_offered_tools(env).get(name), call)


def _offered_tools(env: ToolEnv) -> Toolset:
    return build_toolset(env, PolicyQuery(env.agent), RULES, registry.load_installed())
