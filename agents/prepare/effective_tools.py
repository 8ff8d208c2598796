"""Which tools a run would have, and why not the others: asked without one, of a session or of the policy's own question."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agents import selectors
from agents.context.workspace import place_of, workplace_of
from agents.llm.catalog import resolve_model
from agents.llm.prices import takes_images
from agents.models import Agent
from agents.prepare.tool_context import Occasion
from clawsite.accounts.models import User
from sessions_app.models import Run, Session
from tools_app.core.definition import ToolEnv
from tools_app.exec.rules import rules_for
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules
from tools_app.policy_store.policies import current_rules
from tools_app.sources.offered import offered_now
from tools_app.sources.registry import Registry
from tools_app.sources.tools import known_tools
from tools_app.toolset import Toolset

NOT_HERE = "this version does not have it yet"
SOMEBODY_ELSE = -1  # no account has this number


@dataclass(frozen=True, slots=True)
class Effective:
    agent: Agent
    toolset: Toolset
    rules: PolicyRules
    known: Registry


def effective_tools(user: User, session: Session) -> Effective:
    """For a message of this user in this session now. Reads only, apart from making the workspace's directory."""
    agent, rules, known = selectors.find_agent(session.agent), current_rules(), known_tools()
    occasion = Occasion(
        agent=agent,
        model=resolve_model(selectors.model_of(agent, session.model), os.environ, will_be_asked=False),
        workplace=workplace_of(agent, session.owner_id, str(session.pk), session.key, rules_for(agent.slug, str(session.pk))),
        session_id=session.pk,
        session_key=session.key,
        session_owner_id=session.owner_id,
        sender_id=user.pk,
        sender=_known_as(user, session),
        key_limits=user.key_limits,
    )
    return Effective(agent, occasion.toolset(rules, known), rules, known)


def _known_as(user: User, session: Session) -> Mapping[str, str]:
    """What the channel called them when they last wrote here; a page or a program has no such names."""
    last = Run.objects.filter(session=session, owner=user).order_by("-pk").values_list("options", flat=True).first()
    names: Mapping[str, str] = (last or {}).get("sender", {})
    return names


def with_own_model(query: PolicyQuery, agent: Agent | None = None) -> PolicyQuery:
    """The question with the agent's own model where it names none: a run always has one, and three layers go by it."""
    if query.provider:
        return query
    used = resolve_model(selectors.model_of(agent or _agent_of(query)), os.environ, will_be_asked=False)
    return replace(query, provider=used.provider, model=used.model)


def not_offered(query: PolicyQuery, owner_id: int, *, known: Registry | None = None, agent: Agent | None = None) -> dict[str, str]:
    """Which of the tools that a question is about would be missing whatever the policy says, and why.

    The question may leave the model open: then it is the agent's own. Nothing is made, no directory either.
    """
    known, gone = known or known_tools(), offered_now(query.tools).gone
    here = [facts.name for facts in query.tools if facts.name in known.tools and facts.name not in gone]
    _made, declined = known.create(here, _supposed(query, owner_id, agent))
    return {facts.name: NOT_HERE for facts in query.tools if facts.name not in known.tools} | declined | gone


def _agent_of(query: PolicyQuery) -> Agent:
    return Agent.objects.filter(slug=query.agent).first() or Agent(slug=query.agent)


def _supposed(query: PolicyQuery, owner_id: int, agent: Agent | None) -> ToolEnv:
    """A run of which no more is known than the question says."""
    agent = agent or _agent_of(query)
    query = with_own_model(query, agent)
    model = f"{query.provider}/{query.model or '*'}"
    where = f"{query.channel}:group:{query.group}" if query.group else "main"
    return ToolEnv(
        workspace=place_of(agent, owner_id),
        agent=agent.slug,
        owner_id=owner_id,
        session_id="",
        session_key=f"agent:{agent.slug}:{'subagent:supposed' if query.is_subagent else where}",
        run_pk=0,
        model=model,
        takes_images=takes_images(model),
        sender_id=owner_id if query.is_owner else SOMEBODY_ELSE,
    )
