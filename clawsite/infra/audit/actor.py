"""Who is acting: a person, an agent, a service or the system itself, as the audit log names them. Needs no Django.

Changes that are noticed by signals know no request, so whoever takes up a request or a command says for whom. What nobody says
is the system's. Nothing is permitted or refused by this: it is a name for the record, not an identity to be trusted.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["person", "agent", "service", "system"]


@dataclass(frozen=True, slots=True)
class Actor:
    """`id` and `name` are text, so that they outlive the account."""

    kind: Kind
    id: str = ""
    name: str = ""


SYSTEM = Actor("system")
_now: ContextVar[Callable[[], Actor] | None] = ContextVar("acting", default=None)


def account(user: Any) -> Actor:
    """The person, or the program of ours, whose account it is."""
    return Actor("service" if user.is_service else "person", str(user.pk), user.get_username())


def agent(slug: str) -> Actor:
    return Actor("agent", slug, slug)


def acting() -> Actor:
    """Who acts now, in this request or command."""
    found = _now.get()
    return found() if found else SYSTEM


@contextmanager
def acting_as(who: Callable[[], Actor]) -> Iterator[None]:
    """For what is done inside. Asked only when something is recorded: most requests change nothing and need no account."""
    token = _now.set(who)
    try:
        yield
    finally:
        _now.reset(token)
