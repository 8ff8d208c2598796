"""Which agents there are, for warnings about names that nobody has. The agents layer is above this one, so it tells at start."""

from collections.abc import Callable

_ask: Callable[[str], bool] | None = None


def told_by(ask: Callable[[str], bool]) -> None:
    """From now on `ask` says whether there is an agent of that id."""
    global _ask
    _ask = ask


def is_missing(slug: str) -> bool:
    """Whether an id is given and no agent has it. A rule may come before its agent, so this is never an error."""
    return bool(slug) and _ask is not None and not _ask(slug)
