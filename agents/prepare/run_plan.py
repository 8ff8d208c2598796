"""Everything a run needs, gathered before the first model call and frozen: steps 1 to 5 of the runner."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from agents import selectors
from agents.context.history import Past, recall
from agents.context.system_prompt import system_prompt
from agents.context.workspace import Workplace, workplace_of
from agents.llm.base import ModelProvider, ModelRequest, ToolSpec
from agents.llm.catalog import ResolvedModel, open_provider, resolve_model
from agents.llm.messages import ToolCallAsked
from agents.llm.prices import takes_images
from agents.models import Agent
from agents.prepare.tool_context import Occasion
from clawsite.infra import db
from sessions_app.origin import HOOK, KEY_LIMITS, reader_of
from sessions_app.runs import client_tools
from sessions_app.runs.compaction_requests import asks_no_model
from sessions_app.runs.queue import Claimed
from sessions_app.transcript.messages import PastEntry, model_history
from tools_app.core.plugin_hooks import PluginHook
from tools_app.exec.rules import ExecRules, passed_on_by, rules_of
from tools_app.policy.rules import PolicyRules
from tools_app.policy_store.policies import current_rules
from tools_app.sources.registry import Registry
from tools_app.sources.tools import tools_and_hooks
from tools_app.toolset import Toolset


@dataclass(frozen=True, slots=True)
class RunPlan:
    agent: Agent
    model: ResolvedModel
    provider: ModelProvider
    toolset: Toolset
    past: Past
    timeout_seconds: float
    request: ModelRequest  # without messages: the loop adds them turn by turn
    workspace: Path
    hooks: tuple[PluginHook, ...] = ()  # asked before every call
    invoked: ToolCallAsked | None = None  # a person's own call, which no model is asked about


async def prepare(claimed: Claimed) -> RunPlan:
    """Gather what the run needs; NotFound when its agent is gone, ProviderError when its model cannot be used."""
    agent, workplace, offer, entries = await db.read(_load, claimed)
    # 1 resolve model, 2 choose credentials
    wanted = selectors.model_of(agent, claimed.options.get("model", ""), claimed.session_model)
    invoked = _invoked(claimed)
    model = resolve_model(wanted, os.environ, will_be_asked=invoked is None and not asks_no_model(claimed.options))
    # 3 take the session: done by the claim, whose lease every later write names
    # 4 build tools
    occasion = Occasion(
        agent=agent,
        model=model,
        workplace=workplace,
        session_id=claimed.session_id,
        session_key=claimed.session_key,
        session_owner_id=claimed.session_owner_id,
        sender_id=claimed.owner_id,
        sender=claimed.options.get("sender", {}),
        run_pk=claimed.pk,
        hook=claimed.options.get(HOOK, ""),
        through=passed_on_by(claimed.options),
        key_limits=claimed.options.get(KEY_LIMITS),
    )
    toolset = occasion.toolset(offer.rules, offer.known).with_callers(client_tools.tools_in(claimed.options))
    # 5 load history
    past = await recall(claimed, entries, workplace.directory, takes_images=takes_images(model.display))
    request = ModelRequest(
        model=model.name,
        messages=(),
        system=system_prompt(agent, list(toolset.tools), extra=claimed.options.get("extraSystemPrompt", "")),
        tools=tuple(ToolSpec(**spec) for spec in toolset.specs()),
        parameters=claimed.options.get("parameters", {}),
        thinking=claimed.options.get("thinking") or claimed.thinking_level or agent.thinking_level,
        credentials=model.credentials,
        run_id=claimed.run_id,
    )
    provider = open_provider(model, raw_log=settings.RAW_STREAM_LOG)
    timeout = claimed.timeout_seconds or agent.run_timeout_seconds or settings.RUN_TIMEOUT_SECONDS
    return RunPlan(agent, model, provider, toolset, past, timeout, request, workplace.directory, offer.hooks, invoked)


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools and the rules of this moment."""

    rules: PolicyRules
    known: Registry
    hooks: tuple[PluginHook, ...]


def _load(claimed: Claimed) -> tuple[Agent, Workplace, Offer, Sequence[PastEntry]]:
    agent, any_exec_rules = selectors.find_agent_to_run(claimed.agent)
    session_id = str(claimed.session_id)
    rules = rules_of(claimed) if any_exec_rules else ExecRules()
    # Touches the disk, so it belongs on this thread too.
    owner, from_hook = claimed.session_owner_id, HOOK in claimed.options
    workplace = workplace_of(agent, owner, session_id, claimed.session_key, rules, from_hook=from_hook)
    offer = Offer(current_rules(), *tools_and_hooks())
    reader = reader_of(claimed.options, claimed.session_key)
    return agent, workplace, offer, model_history(claimed.session_id, claimed.generation, claimed.pk, reader)


def _invoked(claimed: Claimed) -> ToolCallAsked | None:
    wish = claimed.options.get("invoke")
    return ToolCallAsked(f"invoke_{claimed.pk}", wish["name"], wish["args"]) if wish else None
