"""The actor of an audit log entry: a person, an agent, a service or the system. Needs no Django.

Signal handlers don't know the request, so each entry point (request, command) sets the current actor; the default is the
system. The actor is only a name for the log. Never use it for permission checks.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

ActorKind = Literal["person", "agent", "service", "system"]


@dataclass(frozen=True, slots=True)
class Actor:
    """`id` and `name` are text, so that they stay readable after the account is deleted."""

    kind: ActorKind
    id: str = ""
    name: str = ""


SYSTEM = Actor("system")
_current: ContextVar[Callable[[], Actor] | None] = ContextVar("acting", default=None)


def actor_for_user(user: Any) -> Actor:
    """Return the actor for an account: a service for service accounts, otherwise a person."""
    return Actor("service" if user.is_service else "person", str(user.pk), user.get_username())


def actor_for_agent(slug: str) -> Actor:
    return Actor("agent", slug, slug)


def current_actor() -> Actor:
    """Return the actor of the current request or command."""
    get_actor = _current.get()
    return get_actor() if get_actor else SYSTEM


@contextmanager
def acting_as(get_actor: Callable[[], Actor]) -> Iterator[None]:
    """Set the actor for the enclosed code. `get_actor` runs only if something is recorded: most requests don't need the account."""
    token = _current.set(get_actor)
    try:
        yield
    finally:
        _current.reset(token)
