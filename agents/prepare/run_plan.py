"""Collect everything a run needs before the first model call (steps 1 to 5 of the runner)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from agents import selectors
from agents.context.history import History, load_history
from agents.context.system_prompt import render_system_prompt
from agents.context.workspace import SessionWorkspace, prepare_session_workspace
from agents.llm.base import ModelProvider, ModelRequest, ToolSpec
from agents.llm.catalog import ResolvedModel, open_provider, resolve_model
from agents.llm.messages import ToolCallRequest
from agents.llm.prices import takes_images
from agents.models import Agent
from agents.prepare.tool_context import ToolContext
from clawsite.infra import db
from sessions_app.run_request import Invocation, reader_origin
from sessions_app.runs.queue import ClaimedRun
from sessions_app.transcript.messages import HistoryEntry, read_model_history
from tools_app.core.plugin_hooks import PluginHook
from tools_app.exec.rules import ExecRules, rules_for_run
from tools_app.policy.rules import PolicyRules
from tools_app.policy_store.policies import current_rules
from tools_app.sources.registry import ToolRegistry
from tools_app.sources.tools import tools_and_hooks
from tools_app.toolset import Toolset


@dataclass(frozen=True, slots=True)
class RunPlan:
    agent: Agent
    model: ResolvedModel
    provider: ModelProvider
    toolset: Toolset
    past: History
    timeout_seconds: float
    request: ModelRequest  # without messages: the loop adds them turn by turn
    workspace: Path
    hooks: tuple[PluginHook, ...] = ()  # run before every tool call
    invoked_call: ToolCallRequest | None = None  # a tool call made by a person, without a model


async def prepare_run(claimed: ClaimedRun) -> RunPlan:
    """Collect what the run needs. Raise NotFound if its agent is gone, ProviderError if its model can't be used."""
    agent, workplace, offer, entries = await db.read(_load_inputs, claimed)
    # 1 resolve model, 2 choose credentials
    asked = claimed.request
    wanted = selectors.choose_model_name(agent, asked.model, claimed.session_model)
    invoked = _find_invoked_call(claimed)
    model = resolve_model(wanted, os.environ, will_be_asked=asked.kind.asks_model)
    # 3 take the session: done by the claim; every later write checks its lease
    # 4 build tools
    context = ToolContext(
        agent=agent,
        model=model,
        workplace=workplace,
        session_id=claimed.session_id,
        session_key=claimed.session_key,
        session_owner_id=claimed.session_owner_id,
        sender_id=claimed.owner_id,
        run_pk=claimed.pk,
        origin=asked.origin,
        token_limits=asked.token_limits,
    )
    toolset = context.toolset(offer.rules, offer.registry).with_client_tools(asked.client_tools)
    # 5 load history
    past = await load_history(claimed, entries, workplace.directory, takes_images=takes_images(model.display_name))
    request = ModelRequest(
        model=model.name,
        messages=(),
        system=render_system_prompt(agent, list(toolset.tools), extra=asked.extra_system_prompt),
        tools=tuple(ToolSpec(**spec) for spec in toolset.specs()),
        parameters=asked.parameters,
        thinking=asked.thinking or claimed.thinking_level or agent.thinking_level,
        credentials=model.credentials,
        run_id=claimed.run_id,
    )
    provider = open_provider(model, raw_log=settings.RAW_STREAM_LOG)
    timeout = claimed.timeout_seconds or agent.run_timeout_seconds or settings.RUN_TIMEOUT_SECONDS
    return RunPlan(agent, model, provider, toolset, past, timeout, request, workplace.directory, offer.hooks, invoked)


@dataclass(frozen=True, slots=True)
class ToolSnapshot:
    """The tools and policy rules at one moment."""

    rules: PolicyRules
    registry: ToolRegistry
    hooks: tuple[PluginHook, ...]


def _load_inputs(claimed: ClaimedRun) -> tuple[Agent, SessionWorkspace, ToolSnapshot, Sequence[HistoryEntry]]:
    agent, any_exec_rules = selectors.find_agent_to_run(claimed.agent)
    session_id = str(claimed.session_id)
    rules = rules_for_run(claimed) if any_exec_rules else ExecRules()
    # Accesses the disk, so it also runs on the reader thread.
    owner, from_hook = claimed.session_owner_id, bool(claimed.request.origin.webhook)
    workplace = prepare_session_workspace(agent, owner, session_id, claimed.session_key, rules, from_hook=from_hook)
    offer = ToolSnapshot(current_rules(), *tools_and_hooks())
    reader = reader_origin(claimed.request, claimed.session_key)
    return agent, workplace, offer, read_model_history(claimed.session_id, claimed.generation, claimed.pk, reader)


def _find_invoked_call(claimed: ClaimedRun) -> ToolCallRequest | None:
    match claimed.request.kind:
        case Invocation(tool, arguments):
            return ToolCallRequest(f"invoke_{claimed.pk}", tool, arguments)
    return None
