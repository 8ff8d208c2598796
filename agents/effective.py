"""Which tools the next run of a session would have, and why not the others: the runner's own question, asked without a run."""

import os
from dataclasses import dataclass

from agents import selectors
from agents.models import Agent
from agents.providers.base import ProviderError
from agents.providers.catalog import resolve_model
from agents.providers.prices import takes_images
from agents.workspace import workspace_of
from clawsite.accounts.models import User
from sessions_app.keys import parse_key
from sessions_app.models import Session
from tools_app.definition import ToolEnv
from tools_app.policies import current_rules
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules
from tools_app.registry import Registry
from tools_app.sources import known_tools
from tools_app.toolset import Toolset, build_toolset


@dataclass(frozen=True, slots=True)
class Effective:
    agent: Agent
    toolset: Toolset
    rules: PolicyRules
    known: Registry


def effective_tools(user: User, session: Session) -> Effective:
    """For a message of this user in this session now. Reads only, apart from making the workspace's directory."""
    agent = selectors.find_agent(session.agent)
    provider, model = _model_of(agent, session)
    env = ToolEnv(
        workspace=workspace_of(agent, session.owner_id),
        agent=agent.slug,
        owner_id=session.owner_id,
        session_id=str(session.pk),
        session_key=session.key,
        run_pk=0,  # as in a run: some tools have no place outside of one
        model=f"{provider}/{model}",
        takes_images=takes_images(f"{provider}/{model}"),
        sender_id=user.pk,
    )
    key, rules, known = parse_key(session.key), current_rules(), known_tools()
    query = PolicyQuery(
        agent=agent.slug,
        is_owner=user.pk == session.owner_id,
        is_subagent=key.is_subagent,
        provider=provider,
        model=model,
        channel=key.channel,
        group=key.group,
    )
    return Effective(agent, build_toolset(env, query, rules, known), rules, known)


def _model_of(agent: Agent, session: Session) -> tuple[str, str]:
    wanted = selectors.model_of(agent, session.model)
    try:
        resolved = resolve_model(wanted, os.environ)
    except ProviderError:  # it has no credentials now; which tools go with it can be said all the same
        provider, _slash, model = wanted.partition("/")
        return provider, model
    return resolved.provider, resolved.model
