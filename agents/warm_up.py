"""Load what the first run of a worker needs before it arrives, on a thread: the providers' libraries and the tools.

Otherwise these imports would block the event loop during that run. Creates nothing: no row, no directory, no connection.
"""

import logging
import os
import uuid

from agents import selectors
from agents.context.workspace import SessionWorkspace, workspace_path
from agents.llm import catalog
from agents.llm.catalog import ProviderKind
from agents.models import Agent
from agents.prepare.tool_context import ToolContext
from clawsite.infra import db
from clawsite.infra.process.garbage import exempt_loaded_modules
from sessions_app.keys import make_main_key
from tools_app.policy_store.policies import current_rules
from tools_app.sources.tools import tools_and_hooks

log = logging.getLogger(__name__)

NO_ACCOUNT = 0  # no account has this ID


async def warm_up() -> None:
    """Load the providers and tools of all agents. If this fails, the first run takes longer and reports the error."""
    try:
        await db.read(_load_for_agents)
    except Exception as error:
        log.warning("could not prepare for the first run: %s", error)


def _load_for_agents() -> None:
    rules, (registry, _hooks) = current_rules(), tools_and_hooks()
    agents = selectors.list_agents()
    models = [catalog.resolve_model(selectors.choose_model_name(agent), os.environ, will_be_asked=False) for agent in agents]
    for kind in {model.kind for model in models}:
        catalog.load_provider(kind)
        if kind == ProviderKind.LITELLM:
            from agents.llm.providers import litellm_provider

            litellm_provider.import_in_background()
    for agent, model in zip(agents, models, strict=True):
        _preview_context(agent, model).toolset(rules, registry)
    exempt_loaded_modules()


def _preview_context(agent: Agent, model: catalog.ResolvedModel) -> ToolContext:
    """Build the context of a message by the owner of the agent's main session."""
    return ToolContext(
        agent=agent,
        model=model,
        workplace=SessionWorkspace(workspace_path(agent, NO_ACCOUNT)),
        session_id=uuid.UUID(int=0),
        session_key=make_main_key(agent.slug),
        session_owner_id=NO_ACCOUNT,
        sender_id=NO_ACCOUNT,
    )
