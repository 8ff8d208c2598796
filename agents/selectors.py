"""Reads about agents that the gateway and the runner share."""

import os

from django.conf import settings
from django.db.models import Exists

from agents.llm.catalog import get_default_model
from agents.models import MAIN_AGENT, Agent
from clawsite.infra import sql
from clawsite.infra.errors import NotFound
from tools_app.models import ExecRule

MAX_NAMED = 20  # agents in an error message


def list_agents() -> list[Agent]:
    """The agents somebody may talk to, the default one first."""
    return sorted(Agent.objects.filter(enabled=True), key=lambda agent: (agent.slug != MAIN_AGENT, agent.slug))


def find_agent(slug: str) -> Agent:
    """The agent of that id; NotFound names those there are."""
    return _require_agent(Agent.objects.filter(slug=slug, enabled=True).first(), slug)


def find_agent_to_run(slug: str) -> tuple[Agent, bool]:
    """The same, and whether the installation has any exec rule: most have none, and their runs save the statement."""
    agent = Agent.objects.annotate(any_exec_rules=Exists(ExecRule.objects.all())).filter(slug=slug, enabled=True).first()
    return _require_agent(agent, slug), bool(agent and agent.any_exec_rules)


def _require_agent(agent: Agent | None, slug: str) -> Agent:
    if agent is None:
        names = [other.slug for other in list_agents()]
        there = ", ".join(names[:MAX_NAMED]) + (", …" if len(names) > MAX_NAMED else "")
        raise NotFound(
            f"there is no agent {slug!r}, or it is switched off; you may use: {there or 'none'}",
            details={"code": "UNKNOWN_AGENT_ID"},
        )
    return agent


def check_agent(slug: str) -> None:
    """NotFound if nobody can talk to it. By SQL: every request of a program that keeps its conversation itself asks."""
    if not sql.fetch_rows("SELECT 1 FROM agents_agent WHERE slug = %s AND enabled", [slug]):
        find_agent(slug)


def choose_model_name(agent: Agent, *overrides: str) -> str:
    """The first wish that is set: the run's, the session's, the agent's, the installation's."""
    wishes = [*overrides, agent.model, settings.DEFAULT_MODEL]
    return next((wish for wish in wishes if wish), "") or get_default_model(os.environ)


def agent_exists(slug: str) -> bool:
    """Also one that is switched off."""
    return Agent.objects.filter(slug=slug).exists()
