"""Where an agent's files are: a private directory for each of its users, or the one the operator named."""

from pathlib import Path

from django.conf import settings

from agents.models import Agent


def workspace_of(agent: Agent, owner_id: int) -> Path:
    """The directory, made if it is not there. Names come from our own ids, never from what somebody typed."""
    if agent.workspace:
        path = Path(agent.workspace).expanduser()
    else:
        path = Path(settings.HOME) / "workspaces" / agent.slug / f"user-{owner_id}"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
