"""Which tools there are: the builtins, and the `agent_tools` module of every installed app. Nothing is filtered here.

An app that is not one of ours is a plugin: its label is the plugin's id, and its tools are in `group:plugins`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import module_has_submodule

from tools_app.definition import ToolFactory
from tools_app.policy import catalog
from tools_app.policy.matcher import kind_of
from tools_app.policy.query import ToolFacts

BUILTIN_MODULES = ("tools_app.builtin.fs", "tools_app.builtin.grep")
OWN_APPS = frozenset({"tools_app", "agents"})
DISCOVERED_MODULE = "agent_tools"


@dataclass(frozen=True, slots=True)
class Registered:
    factory: ToolFactory
    facts: ToolFacts


@dataclass(frozen=True, slots=True)
class Registry:
    tools: dict[str, Registered]

    @classmethod
    def of(cls, brought: Iterable[tuple[ToolFactory, str]]) -> "Registry":
        """From factories, each with the id of the plugin that brings it, or "" for our own."""
        tools: dict[str, Registered] = {}
        for factory, plugin in brought:
            if factory.name in tools:
                raise ImproperlyConfigured(f"there are two tools named {factory.name}")
            tools[factory.name] = Registered(factory, _facts(factory, plugin))
        return cls(tools)

    @property
    def plugin_names(self) -> tuple[str, ...]:
        """Ids of the plugins and names of their tools: what a policy entry may call one of them."""
        brought = [each.facts for each in self.tools.values() if each.facts.plugin]
        return tuple(sorted({facts.plugin for facts in brought} | {facts.name for facts in brought}))

    @property
    def nameable(self) -> tuple[ToolFacts, ...]:
        """Every tool a policy can speak of, also those natives that nothing offers yet."""
        absent = (
            ToolFacts(name, _groups_of(group), owner_only=name in catalog.OWNER_ONLY)
            for name, group in catalog.GROUP_OF.items()
            if name not in self.tools
        )
        return (*(each.facts for each in self.tools.values()), *absent)

    def knows(self, entry: str) -> bool:
        """Whether a policy entry names a native tool, a group, a plugin or a plugin's tool, or fits one of them."""
        return kind_of(entry, frozenset(self.plugin_names)) != "unknown"


@cache
def installed() -> Registry:
    """Everything the installed apps offer. Looked up once: apps do not come or go while a process lives."""
    brought = [(factory, "") for name in BUILTIN_MODULES for factory in _factories_in(import_module(name))]
    for app in apps.get_app_configs():
        if app.module and module_has_submodule(app.module, DISCOVERED_MODULE):
            plugin = "" if app.name in OWN_APPS else app.label
            brought += [(factory, plugin) for factory in _factories_in(import_module(f"{app.name}.{DISCOVERED_MODULE}"))]
    return Registry.of(brought)


def _factories_in(module: ModuleType) -> list[ToolFactory]:
    return [value for value in vars(module).values() if isinstance(value, ToolFactory)]


def _facts(factory: ToolFactory, plugin: str) -> ToolFacts:
    """Refuses whatever would let a tool borrow the standing of another one: policy entries go by these names."""
    name = factory.name
    if plugin:
        if name in catalog.NATIVE_NAMES or plugin in catalog.NATIVE_NAMES:
            raise ImproperlyConfigured(f"plugin {plugin} may not use the name of a native tool ({name})")
        return ToolFacts(name, (catalog.PLUGINS,), plugin, factory.owner_only)
    if (expected := catalog.GROUP_OF.get(name)) != factory.group:
        raise ImproperlyConfigured(f"tool {name} says group {factory.group!r}, but tools_app.policy.catalog says {expected!r}")
    return ToolFacts(name, _groups_of(factory.group), "", factory.owner_only or name in catalog.OWNER_ONLY)


def _groups_of(group: str) -> tuple[str, ...]:
    """Of a native tool: its own, if it has one, and that of all natives."""
    return (group, catalog.OPENCLAW) if group else (catalog.OPENCLAW,)
