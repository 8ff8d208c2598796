"""The methods clients may call. Each is declared with its scope and its shapes; what is not declared does not exist."""

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.alias_generators import to_camel

from clawsite.accounts.models import User
from clawsite.gateway.authority import Authority
from clawsite.gateway.connection import Connection
from clawsite.gateway.runtime import Runtime
from clawsite.gateway.scopes import Scope


class Params(BaseModel):
    """Parameters of a method: camelCase on the wire, and closed, so that a misspelt one is told instead of ignored."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, protected_namespaces=())


class Nothing(Params):
    """A method without parameters."""


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls, over which connection."""

    connection: Connection
    authority: Authority
    runtime: Runtime

    @property
    def user(self) -> User:
        return self.authority.user


@dataclass(frozen=True, slots=True)
class Followed:
    """An answer now, and something to do after it; what that returns, unless None, is a second answer with the same id."""

    first: Any
    then: Callable[[], Awaitable[Any]]


Handler = Callable[[Call, Any], Awaitable[Any]]
Order = Callable[[dict[str, Any]], str]


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    scope: Scope
    params: type[Params]
    result: Any
    handler: Handler
    description: str
    order: Order | None  # calls with the same word are begun one after the other, in order of arrival


_methods: dict[str, Method] = {}


def method(name: str, *, scope: Scope, order: Order | None = None) -> Callable[[Handler], Handler]:
    """Declare a method. Its shapes are the annotations of the handler, its description the docstring."""

    def declare(handler: Handler) -> Handler:
        if name in _methods:
            raise ValueError(f"method {name} is declared twice")
        hints = get_type_hints(handler)
        description = inspect.getdoc(handler)
        if not description:
            raise ValueError(f"method {name} has no docstring; it is printed in docs/protocol.md")
        _methods[name] = Method(name, scope, hints["params"], hints["return"], handler, description, order)
        return handler

    return declare


@functools.cache
def methods() -> dict[str, Method]:
    """All of them. The first use imports every module of the package `methods`."""
    package = importlib.import_module("clawsite.gateway.methods")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return _methods


def result_schema(result: Any) -> dict[str, Any]:
    return TypeAdapter(result).json_schema(mode="serialization")
