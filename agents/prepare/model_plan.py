"""Plan a run for one model: credentials, tools, policy, system prompt, history. Another model of the same run gets its own plan."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.conf import settings

from agents.context.history import History, load_history
from agents.context.image_limit import limit_images
from agents.context.system_prompt import render_system_prompt
from agents.llm.base import ModelProvider, ModelRequest, ToolSpec
from agents.llm.catalog import ResolvedModel, open_provider, resolve_model
from agents.llm.messages import Message, ToolCallRequest
from agents.llm.prices import takes_images
from agents.prepare.run_plan import RunPlan, reread_history
from agents.prepare.tool_context import ToolContext
from tools_app.toolset import Toolset


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """A run as planned for one model. `toolset` holds the tools that the policy allows with this model, in its schema dialect."""

    run: RunPlan
    model: ResolvedModel
    provider: ModelProvider
    toolset: Toolset
    history: History
    request: ModelRequest  # without messages: the loop adds them turn by turn

    def build_request(self, messages: Sequence[Message]) -> ModelRequest:
        """Build the request of one turn, with as many images as the model accepts."""
        shown = limit_images(messages, takes_images=takes_images(self.model.display_name))
        return replace(self.request, messages=tuple(shown))

    def is_client_call(self, call: ToolCallRequest) -> bool:
        """Whether the client has to make this call. Calls with unreadable arguments go back to the model instead."""
        return call.name in self.toolset.client_tools and not call.error


async def plan_for_model(run: RunPlan, model_name: str) -> ModelPlan:
    """Plan the rest of a run for this model. Raise ProviderError if it can't be used."""
    claimed, agent, asked = run.claimed, run.agent, run.claimed.request
    model = resolve_model(model_name, os.environ, will_be_asked=asked.kind.asks_model)
    context = ToolContext(
        agent=agent,
        model=model,
        workplace=run.workplace,
        session_id=claimed.session_id,
        session_key=claimed.session_key,
        session_owner_id=claimed.session_owner_id,
        sender_id=claimed.owner_id,
        run_pk=claimed.pk,
        origin=asked.origin,
        token_limits=asked.token_limits,
    )
    toolset = context.toolset(run.rules, run.registry).with_client_tools(asked.client_tools)
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
    history = await _load_history(run, model)
    return ModelPlan(run, model, open_provider(model, raw_log=settings.RAW_STREAM_LOG), toolset, history, request)


async def reload_history(plan: ModelPlan) -> ModelPlan:
    """Return the plan with the stored history as it is now."""
    run = await reread_history(plan.run)
    return replace(plan, run=run, history=await _load_history(run, plan.model))


async def _load_history(run: RunPlan, model: ResolvedModel) -> History:
    images = takes_images(model.display_name)
    return await load_history(run.claimed, run.entries, run.workplace.directory, takes_images=images)
