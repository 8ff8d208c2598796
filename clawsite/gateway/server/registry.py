"""The registry of methods that clients can call. Each is declared with its scope, params and result types."""

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from clawsite.accounts.models import User
from clawsite.gateway.auth.authority import Authority, Role
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.protocol.params import Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.runtime import Runtime


class Nothing(Params):
    """No parameters."""


@dataclass(frozen=True, slots=True)
class Call:
    """The caller and connection of a method call."""

    connection: Connection
    authority: Authority
    runtime: Runtime

    @property
    def user(self) -> User:
        return self.authority.user


T = TypeVar("T")


@dataclass(frozen=True)
class AnswerWithFollowUp(Generic[T]):
    """A response now, and a function to call after it; its result, unless None, is a second response with the same ID."""

    first: T
    follow_up: Callable[[], Awaitable[T | None]]


Handler = Callable[[Call, Any], Awaitable[Any]]
Order = Callable[[dict[str, Any]], str]


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    scopes: tuple[Scope, ...]  # any of them is enough; empty for nodes, which have no scopes
    params: type[Params]
    result: Any
    handler: Handler
    description: str
    order: Order | None  # calls with the same order key start in order of arrival
    role: Role = "operator"
    limited: LimitedTokenRule | None = None  # for tokens with tool limits; None if it only reads or is for nodes


_methods: dict[str, Method] = {}


def method(
    name: str,
    *,
    scope: Scope | tuple[Scope, ...] | None,
    limited: LimitedTokenRule | None = None,
    role: Role = "operator",
    order: Order | None = None,
) -> Callable[[Handler], Handler]:
    """Declare a method. The handler's annotations are its params and result types, the docstring its description.

    Any of several scopes is enough; the first is named in the error for callers without one.
    """
    scopes = (scope,) if isinstance(scope, Scope) else scope or ()

    def declare(handler: Handler) -> Handler:
        if name in _methods:
            raise ValueError(f"method {name} is declared twice")
        if (not scopes) != (role == "node"):
            raise ValueError(f"method {name}: operator methods need a scope, node methods must not have one")
        if (limited is None) != (not scopes or Scope.READ in scopes):
            raise ValueError(
                f"method {name}: a method that changes something must declare its rule for tokens with tool limits (limited=)"
            )
        hints = get_type_hints(handler)
        result = _result_type(hints["return"])
        description = inspect.getdoc(handler)
        if not description:
            raise ValueError(f"method {name} has no docstring; docs/protocol.md publishes the docstring of every method")
        _methods[name] = Method(name, scopes, hints["params"], result, handler, description, order, role, limited)
        return handler

    return declare


def _result_type(hint: Any) -> Any:
    """Return the type of a handler's responses; a second response has the same type."""
    if get_origin(hint) is AnswerWithFollowUp:
        return get_args(hint)[0]
    if get_origin(hint) in (Union, UnionType):
        shapes = {_result_type(part) for part in get_args(hint)}
        if len(shapes) == 1:
            return shapes.pop()
    return hint


@functools.cache
def list_methods() -> dict[str, Method]:
    """Return all methods. The first call imports every module of the package `methods`."""
    package = importlib.import_module("clawsite.gateway.methods")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    return _methods


@functools.cache
def list_method_names(role: Role) -> list[str]:
    """Return the methods available to this role."""
    return sorted(name for name, method in list_methods().items() if method.role == role)
