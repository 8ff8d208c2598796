"""Look up whether an agent exists, for warnings. The agents app is in a higher layer, so it registers the lookup at startup."""

from collections.abc import Callable

_agent_exists: Callable[[str], bool] | None = None


def set_agent_lookup(lookup: Callable[[str], bool]) -> None:
    """Register the function that returns whether an agent with this ID exists."""
    global _agent_exists
    _agent_exists = lookup


def is_missing_agent(slug: str) -> bool:
    """Whether an ID is given and no agent has it. Never an error, because a rule may be created before its agent."""
    return bool(slug) and _agent_exists is not None and not _agent_exists(slug)
