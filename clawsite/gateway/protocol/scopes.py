"""Scopes of a connection: those of its account, limited by its token and by those it requested."""

from collections.abc import Iterable
from enum import StrEnum


class Scope(StrEnum):
    READ = "operator.read"
    WRITE = "operator.write"
    ADMIN = "operator.admin"
    APPROVALS = "operator.approvals"
    PAIRING = "operator.pairing"


# What a requested scope includes. OpenClaw's clients only request `operator.admin`, meaning all scopes.
_IMPLIED_SCOPES = {
    Scope.ADMIN: frozenset(Scope),
    Scope.WRITE: frozenset({Scope.WRITE, Scope.READ}),
}


def expand_scopes(requested: Iterable[str]) -> frozenset[str] | None:
    """Expand the requested scopes. Return None, which means all, if the list is empty. Unknown names are ignored."""
    requested = list(requested)
    if not requested:
        return None
    known = [Scope(name) for name in requested if name in Scope.__members__.values()]
    return frozenset(scope.value for name in known for scope in _IMPLIED_SCOPES.get(name, frozenset({name})))


def effective_scopes(account: frozenset[str], token: frozenset[str] | None, requested: frozenset[str] | None) -> frozenset[str]:
    held = account if token is None else account & token
    return held if requested is None else held & requested


def has_scope(held: frozenset[str], *any_of: Scope) -> bool:
    """Whether one of the scopes is held. Write includes read; no other scope includes another, so approving is always explicit."""
    return any(needed in held or (needed is Scope.READ and Scope.WRITE in held) for needed in any_of)
