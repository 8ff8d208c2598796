"""For a session or a policy query, find which tools a run would have and why others are missing, without starting a run."""

import os
from dataclasses import dataclass, replace

from agents import selectors
from agents.context.workspace import prepare_session_workspace, workspace_path
from agents.llm.catalog import resolve_model
from agents.llm.prices import takes_images
from agents.models import Agent
from agents.prepare.tool_context import ToolContext
from clawsite.accounts.models import User
from clawsite.infra.reasons import Reason
from sessions_app.models import Run, Session
from sessions_app.origin import NO_SENDER, Origin, Sender, TokenLimits
from tools_app.core.definition import ToolEnv
from tools_app.exec.rules import rules_for
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules
from tools_app.policy_store.policies import current_rules
from tools_app.sources.offered import read_current_offer
from tools_app.sources.registry import ToolRegistry
from tools_app.sources.tools import load_tools
from tools_app.toolset import Toolset

NOT_INSTALLED = Reason("tool.not_installed")
OTHER_USER_ID = -1  # no account has this ID


@dataclass(frozen=True, slots=True)
class EffectiveTools:
    agent: Agent
    toolset: Toolset
    rules: PolicyRules
    registry: ToolRegistry


def find_effective_tools(user: User, session: Session) -> EffectiveTools:
    """Return the tools for a message of this user in this session now. Creates the workspace directory, otherwise only reads."""
    agent, rules, known = selectors.find_agent(session.agent), current_rules(), load_tools()
    context = ToolContext(
        agent=agent,
        model=resolve_model(selectors.choose_model_name(agent, session.model), os.environ, will_be_asked=False),
        workplace=prepare_session_workspace(
            agent, session.owner_id, str(session.pk), session.key, rules_for(agent.slug, str(session.pk))
        ),
        session_id=session.pk,
        session_key=session.key,
        session_owner_id=session.owner_id,
        sender_id=user.pk,
        origin=Origin(sender=_last_sender(user, session)),
        token_limits=TokenLimits.parse(user.key_limits),
    )
    return EffectiveTools(agent, context.toolset(rules, known), rules, known)


def _last_sender(user: User, session: Session) -> Sender:
    """Return the sender names the channel reported with the user's last message here; pages and API clients have none."""
    last = Run.objects.filter(session=session, owner=user).order_by("-pk")[:1].requests()
    return next((request.origin.sender for request in last.values()), NO_SENDER)


def with_agent_model(query: PolicyQuery, agent: Agent | None = None) -> PolicyQuery:
    """Fill in the agent's model if the query names none: a run always has one, and three policy layers depend on it."""
    if query.provider:
        return query
    used = resolve_model(selectors.choose_model_name(agent or _find_query_agent(query)), os.environ, will_be_asked=False)
    return replace(query, provider=used.provider, model=used.model)


def find_unavailable_tools(
    query: PolicyQuery, owner_id: int, *, known: ToolRegistry | None = None, agent: Agent | None = None
) -> dict[str, Reason]:
    """Return the queried tools that are unavailable regardless of policy, with reasons.

    If the query names no model, the agent's is used. Creates nothing, not even a directory.
    """
    known, gone = known or load_tools(), read_current_offer(query.tools).unavailable
    here = [facts.name for facts in query.tools if facts.name in known.tools and facts.name not in gone]
    _tools, declined = known.create(here, _build_hypothetical_env(query, owner_id, agent))
    return {facts.name: NOT_INSTALLED for facts in query.tools if facts.name not in known.tools} | declined | gone


def _find_query_agent(query: PolicyQuery) -> Agent:
    return Agent.objects.filter(slug=query.agent).first() or Agent(slug=query.agent)


def _build_hypothetical_env(query: PolicyQuery, owner_id: int, agent: Agent | None) -> ToolEnv:
    """Build the environment of a hypothetical run from nothing but the query."""
    agent = agent or _find_query_agent(query)
    query = with_agent_model(query, agent)
    model = f"{query.provider}/{query.model or '*'}"
    where = f"{query.channel}:group:{query.group}" if query.group else "main"
    return ToolEnv(
        workspace=workspace_path(agent, owner_id),
        agent=agent.slug,
        owner_id=owner_id,
        session_id="",
        session_key=f"agent:{agent.slug}:{'subagent:supposed' if query.is_subagent else where}",
        run_pk=0,
        model=model,
        takes_images=takes_images(model),
        sender_id=owner_id if query.is_owner else OTHER_USER_ID,
    )
