"""Reads about agents that the gateway and the runner share."""

import os

from django.conf import settings
from django.db.models import Exists

from agents.models import MAIN, Agent
from agents.providers.catalog import default_model
from clawsite.infra.errors import NotFound
from tools_app.models import ExecRule

MOST_NAMED = 20  # agents in an error message


def list_agents() -> list[Agent]:
    """The agents somebody may talk to, the default one first."""
    return sorted(Agent.objects.filter(enabled=True), key=lambda agent: (agent.slug != MAIN, agent.slug))


def find_agent(slug: str) -> Agent:
    """The agent of that id; NotFound names those there are."""
    agent = Agent.objects.annotate(any_exec_rules=Exists(ExecRule.objects.all())).filter(slug=slug, enabled=True).first()
    if agent is None:
        names = [other.slug for other in list_agents()]
        there = ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")
        raise NotFound(
            f"there is no agent {slug!r}, or it is switched off; you may use: {there or 'none'}",
            details={"code": "UNKNOWN_AGENT_ID"},
        )
    return agent


def model_of(agent: Agent, *overrides: str) -> str:
    """The first wish that is set: the run's, the session's, the agent's, the installation's."""
    wishes = [*overrides, agent.model, settings.DEFAULT_MODEL]
    return next((wish for wish in wishes if wish), "") or default_model(os.environ)


def is_agent(slug: str) -> bool:
    """Also one that is switched off."""
    return Agent.objects.filter(slug=slug).exists()
