"""Where an agent's files are: a private directory for each of its users, or the one the operator named."""

from pathlib import Path

from django.conf import settings

from agents.models import Agent


def place_of(agent: Agent, owner_id: int) -> Path:
    """Where it is, or would be. Names come from our own ids, never from what somebody typed."""
    if agent.workspace:
        return Path(agent.workspace).expanduser()
    return Path(settings.HOME) / "workspaces" / agent.slug / f"user-{owner_id}"


def workspace_of(agent: Agent, owner_id: int) -> Path:
    """The directory, made if it is not there."""
    path = place_of(agent, owner_id)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
