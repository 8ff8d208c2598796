"""What a connection may do: the scopes of its account, narrowed by its token and by its own wish, never widened."""

from collections.abc import Iterable
from enum import StrEnum


class Scope(StrEnum):
    READ = "operator.read"
    WRITE = "operator.write"
    ADMIN = "operator.admin"
    APPROVALS = "operator.approvals"
    PAIRING = "operator.pairing"


# What a client means when it asks for a scope. OpenClaw's clients ask for `operator.admin` alone and mean everything.
_IMPLIED_SCOPES = {
    Scope.ADMIN: frozenset(Scope),
    Scope.WRITE: frozenset({Scope.WRITE, Scope.READ}),
}


def expand_scopes(requested: Iterable[str]) -> frozenset[str] | None:
    """The requested list spelled out; None when it is empty, which means no wish. Names we do not know ask for nothing."""
    requested = list(requested)
    if not requested:
        return None
    known = [Scope(name) for name in requested if name in Scope.__members__.values()]
    return frozenset(scope.value for name in known for scope in _IMPLIED_SCOPES.get(name, frozenset({name})))


def effective_scopes(account: frozenset[str], token: frozenset[str] | None, wanted: frozenset[str] | None) -> frozenset[str]:
    held = account if token is None else account & token
    return held if wanted is None else held & wanted


def has_scope(held: frozenset[str], *any_of: Scope) -> bool:
    """One of them is enough. Who may write may read; nothing else follows from another scope: approving is nobody's by-product."""
    return any(needed in held or (needed is Scope.READ and Scope.WRITE in held) for needed in any_of)
