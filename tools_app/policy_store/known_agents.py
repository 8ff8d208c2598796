"""Which agents there are, for warnings about names that nobody has. The agents layer is above this one, so it tells at start."""

from collections.abc import Callable

_agent_exists: Callable[[str], bool] | None = None


def set_agent_lookup(ask: Callable[[str], bool]) -> None:
    """From now on `ask` says whether there is an agent of that id."""
    global _agent_exists
    _agent_exists = ask


def is_missing_agent(slug: str) -> bool:
    """Whether an id is given and no agent has it. A rule may come before its agent, so this is never an error."""
    return bool(slug) and _agent_exists is not None and not _agent_exists(slug)
