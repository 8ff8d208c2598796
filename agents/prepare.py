"""Everything a run needs, gathered before the first model call and frozen: steps 1 to 5 of the runner."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from agents import selectors
from agents.attached import NOTHING, Brought, gather, shown_by_tool
from agents.messages import AssistantMessage, AttachedFile, Image, Message, ToolCallAsked, ToolResultMessage, UserMessage
from agents.models import Agent
from agents.occasion import Occasion
from agents.prompts import system_prompt
from agents.providers.base import ModelProvider, ModelRequest, ToolSpec
from agents.providers.catalog import ResolvedModel, open_provider, resolve_model
from agents.providers.prices import takes_images
from agents.workspace import Workplace, workplace_of
from clawsite.infra import db
from sessions_app.prompt_content import attachment_ids
from sessions_app.queue import Claimed
from sessions_app.transcript import PastEntry, model_history
from tools_app.execution.rules import ExecRules, rules_for
from tools_app.hooks import PluginHook
from tools_app.policies import current_rules
from tools_app.policy.rules import PolicyRules
from tools_app.registry import Registry
from tools_app.sources import tools_and_hooks
from tools_app.toolset import Toolset


@dataclass(frozen=True, slots=True)
class RunPlan:
    agent: Agent
    model: ResolvedModel
    provider: ModelProvider
    toolset: Toolset
    history: tuple[Message, ...]
    timeout_seconds: float
    request: ModelRequest  # without messages: the loop adds them turn by turn
    hooks: tuple[PluginHook, ...] = ()  # asked before every call
    invoked: ToolCallAsked | None = None  # a person's own call, which no model is asked about


async def prepare(claimed: Claimed) -> RunPlan:
    """Gather what the run needs; NotFound when its agent is gone, ProviderError when its model cannot be used."""
    agent, workplace, offer, entries = await db.read(_load, claimed)
    # 1 resolve model, 2 choose credentials
    wanted = selectors.model_of(agent, claimed.options.get("model", ""), claimed.session_model)
    invoked = _invoked(claimed)
    model = resolve_model(wanted, os.environ, will_be_asked=invoked is None)
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
    )
    toolset = occasion.toolset(offer.rules, offer.known)
    # 5 load history
    brought = await gather(claimed, entries, workplace.directory, takes_images=takes_images(model.display))
    history = tuple(message_of(entry, brought) for entry in entries)
    request = ModelRequest(
        model=model.name,
        messages=(),
        system=system_prompt(agent, list(toolset.tools), extra=claimed.options.get("extraSystemPrompt", "")),
        tools=tuple(ToolSpec(**spec) for spec in toolset.specs()),
        thinking=claimed.options.get("thinking") or claimed.thinking_level or agent.thinking_level,
        credentials=model.credentials,
        run_id=claimed.run_id,
    )
    provider = open_provider(model, raw_log=settings.RAW_STREAM_LOG)
    timeout = claimed.timeout_seconds or agent.run_timeout_seconds or settings.RUN_TIMEOUT_SECONDS
    return RunPlan(agent, model, provider, toolset, history, timeout, request, offer.hooks, invoked)


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools and the rules of this moment."""

    rules: PolicyRules
    known: Registry
    hooks: tuple[PluginHook, ...]


def _load(claimed: Claimed) -> tuple[Agent, Workplace, Offer, Sequence[PastEntry]]:
    agent = selectors.find_agent(claimed.agent)
    session_id = str(claimed.session_id)
    # Touches the disk, so it belongs on this thread too.
    # Most installations have no exec rule, which is known with the agent: one statement less for every run.
    rules = rules_for(agent.slug, session_id) if getattr(agent, "any_exec_rules", True) else ExecRules()
    workplace = workplace_of(agent, claimed.session_owner_id, session_id, claimed.session_key, rules)
    offer = Offer(current_rules(), *tools_and_hooks())
    return agent, workplace, offer, model_history(claimed.session_id, claimed.generation, claimed.pk)


def _invoked(claimed: Claimed) -> ToolCallAsked | None:
    wish = claimed.options.get("invoke")
    return ToolCallAsked(f"invoke_{claimed.pk}", wish["name"], wish["args"]) if wish else None


def message_of(entry: PastEntry, brought: Brought = NOTHING) -> Message:
    """A stored entry as the loop knows it."""
    if entry.role == "user":
        parts = [brought[one] for one in attachment_ids(entry.content) if one in brought]
        images = tuple(part for part in parts if isinstance(part, Image))
        return UserMessage(entry.text, images, tuple(part for part in parts if isinstance(part, AttachedFile)))
    if entry.role == "toolResult":
        told = entry.meta
        images = shown_by_tool(entry, brought)
        return ToolResultMessage(told["toolCallId"], told["toolName"], entry.text, bool(told.get("isError")), images)
    calls = tuple(
        ToolCallAsked(block["id"], block["name"], block["arguments"], block.get("error", ""))
        for block in entry.content
        if block["type"] == "toolCall"
    )
    thinking = "".join(block["thinking"] for block in entry.content if block["type"] == "thinking")
    return AssistantMessage(text=entry.text, thinking=thinking, tool_calls=calls)
