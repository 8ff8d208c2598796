"""The tools available from the start: built-in tools and the `agent_tools` module of every installed app. Unfiltered.

tools_app.sources.tools adds plugins and MCP servers, which can change at run time.

An app outside NATIVE_APPS is a plugin: its label is the plugin's ID, and its tools are in `group:plugins`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import module_has_submodule

from clawsite.infra.reasons import Reason
from tools_app.core.definition import Tool, ToolEnv, ToolFactory, ToolUnavailable
from tools_app.policy import catalog
from tools_app.policy.matcher import classify_entry
from tools_app.policy.query import ToolFacts

BUILTIN_MODULES = (
    "tools_app.builtin.files.read_write",
    "tools_app.builtin.files.grep",
    "tools_app.builtin.files.patch",
    "tools_app.builtin.image",
    "tools_app.builtin.web.tools",
    "tools_app.builtin.exec",
    "tools_app.builtin.process",
)
NATIVE_APPS = frozenset({"tools_app", "agents"})
DISCOVERED_MODULE = "agent_tools"


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    factory: ToolFactory
    facts: ToolFacts


@dataclass(frozen=True, slots=True)
class ToolRegistry:
    """`plugins` are the IDs of enabled plugins, even those without tools.

    `also_known` are names that a policy may use although nothing provides them now, such as a disabled plugin.
    """

    tools: dict[str, RegisteredTool]
    plugins: frozenset[str] = frozenset()
    also_known: frozenset[str] = frozenset()
    search_providers: Mapping[str, Callable[[], Any]] = field(default_factory=dict)

    @classmethod
    def build(cls, provided: Iterable[tuple[ToolFactory, str]]) -> "ToolRegistry":
        """Build a registry from factories, each with its plugin's ID, or "" for native tools."""
        tools: dict[str, RegisteredTool] = {}
        for factory, plugin in provided:
            if factory.name in tools:
                raise ImproperlyConfigured(f"there are two tools named {factory.name}")
            tools[factory.name] = RegisteredTool(factory, make_tool_facts(factory, plugin))
        return cls(tools)

    @property
    def plugin_names(self) -> tuple[str, ...]:
        return list_plugin_names((each.facts for each in self.tools.values()), self.plugins)

    @property
    def nameable(self) -> tuple[ToolFacts, ...]:
        return list_nameable({name: each.facts for name, each in self.tools.items()})

    def create(self, names: Iterable[str], env: ToolEnv) -> tuple[dict[str, Tool], dict[str, Reason]]:
        """Create these tools for a run; also return why the others are unavailable."""
        env = replace(env, search_providers=self.search_providers) if self.search_providers else env
        created: dict[str, Tool] = {}
        unavailable: dict[str, Reason] = {}
        for name in names:
            try:
                created[name] = self.tools[name].factory.create(env)
            except ToolUnavailable as error:
                unavailable[name] = error.reason
        return created, unavailable

    def knows(self, entry: str) -> bool:
        """Whether a policy entry names or matches a native tool, a group, a plugin or a plugin's tool."""
        return entry in self.also_known or classify_entry(entry, frozenset(self.plugin_names)) != "unknown"


def list_plugin_names(tools: Iterable[ToolFacts], plugins: Iterable[str]) -> tuple[str, ...]:
    """Return plugin IDs and the names of their tools, as policy entries may use them."""
    provided = {name for facts in tools if facts.plugin for name in (facts.plugin, facts.name)}
    return tuple(sorted({name.lower() for name in (*provided, *plugins)}))


def list_nameable(offered: Mapping[str, ToolFacts]) -> tuple[ToolFacts, ...]:
    """Return every tool a policy can name, including native tools that nothing offers yet."""
    absent = [(name, group) for name, group in catalog.GROUP_BY_TOOL.items() if name not in offered]
    natives = (ToolFacts(name, _native_groups(group), "", name in catalog.OWNER_ONLY) for name, group in absent)
    return (*offered.values(), *natives)


@cache
def load_installed() -> ToolRegistry:
    """Return everything the installed apps offer. Cached: apps don't change while a process runs."""
    provided = [(factory, "") for name in BUILTIN_MODULES for factory in _find_factories(import_module(name))]
    for app in apps.get_app_configs():
        if app.module and module_has_submodule(app.module, DISCOVERED_MODULE):
            plugin = "" if app.name in NATIVE_APPS else app.label
            provided += [(factory, plugin) for factory in _find_factories(import_module(f"{app.name}.{DISCOVERED_MODULE}"))]
    return ToolRegistry.build(provided)


def _find_factories(module: ModuleType) -> list[ToolFactory]:
    return [value for value in vars(module).values() if isinstance(value, ToolFactory)]


def make_tool_facts(factory: ToolFactory, plugin: str) -> ToolFacts:
    """Return the facts of a tool. Reject names that would let it pass for another tool in policy entries."""
    name = factory.name
    if plugin:
        return make_plugin_tool_facts(name, plugin, owner_only=factory.owner_only)
    if (expected := catalog.GROUP_BY_TOOL.get(name)) != factory.group:
        raise ImproperlyConfigured(f"tool {name} says group {factory.group!r}, but tools_app.policy.catalog says {expected!r}")
    return ToolFacts(name, _native_groups(factory.group), "", factory.owner_only or name in catalog.OWNER_ONLY)


def make_plugin_tool_facts(name: str, plugin: str, *, owner_only: bool = False) -> ToolFacts:
    """Return the facts of a tool from a plugin or server."""
    if {name.lower(), plugin.lower()} & (catalog.NATIVE_NAMES | catalog.ALIASES.keys()):
        raise ImproperlyConfigured(f"plugin {plugin} may not use the name of a native tool ({name})")
    return ToolFacts(name, (catalog.PLUGINS_GROUP,), plugin, owner_only)


def _native_groups(group: str) -> tuple[str, ...]:
    """Return the groups of a native tool: its own, if any, and that of all native tools."""
    return (group, catalog.OPENCLAW_GROUP) if group else (catalog.OPENCLAW_GROUP,)
