"""Who is acting: a person, an agent, a service or the system itself, as the audit log names them. Needs no Django.

Changes that are noticed by signals know no request, so whoever takes up a request or a command says for whom. What nobody says
is the system's. Nothing is permitted or refused by this: it is a name for the record, not an identity to be trusted.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

ActorKind = Literal["person", "agent", "service", "system"]


@dataclass(frozen=True, slots=True)
class Actor:
    """`id` and `name` are text, so that they outlive the account."""

    kind: ActorKind
    id: str = ""
    name: str = ""


SYSTEM = Actor("system")
_current: ContextVar[Callable[[], Actor] | None] = ContextVar("acting", default=None)


def actor_for_user(user: Any) -> Actor:
    """The person, or the program of ours, whose account it is."""
    return Actor("service" if user.is_service else "person", str(user.pk), user.get_username())


def actor_for_agent(slug: str) -> Actor:
    return Actor("agent", slug, slug)


def current_actor() -> Actor:
    """Who acts now, in this request or command."""
    found = _current.get()
    return found() if found else SYSTEM


@contextmanager
def acting_as(who: Callable[[], Actor]) -> Iterator[None]:
    """For what is done inside. Asked only when something is recorded: most requests change nothing and need no account."""
    token = _current.set(who)
    try:
        yield
    finally:
        _current.reset(token)
