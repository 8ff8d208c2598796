"""Every tool that can be offered at this moment: natives, enabled plugins, and enabled MCP servers as they were last seen.

Sync, for threads of infra.db. Costs one small query; the rest is remembered until a row changes. Who comes first keeps a
name: natives, then plugins, then servers; what a later one brings under a taken name is left out, and `problems` says so.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from sessions_app import sql
from tools_app import plugins, registry
from tools_app.definition import ToolFactory
from tools_app.hooks import Hook, HookAnswer, PluginHook
from tools_app.mcp.names import prefix_of, tool_name
from tools_app.mcp.tools import factories_of
from tools_app.models import McpServer, Plugin
from tools_app.plugins import Loaded
from tools_app.policy.catalog import PLUGINS
from tools_app.policy.matcher import GROUP_PREFIX, normalise
from tools_app.policy.query import ToolFacts
from tools_app.registry import Registered, Registry

# What the answer depends on: switches, settings, names of plugins, and the digest of each server's tools.
STATE = """
    SELECT 'mcp', id, enabled, revision, listing FROM tools_app_mcpserver
    UNION ALL SELECT 'plugin', id, enabled, 0, name FROM tools_app_plugin
    ORDER BY 1, 2
"""


@dataclass(slots=True)
class Sources:
    tools: dict[str, Registered]
    ids: set[str] = field(default_factory=set)  # of enabled plugins and servers
    off: set[str] = field(default_factory=set)  # ids and tools of those that are not, or that cannot be used
    families: set[str] = field(default_factory=set)  # what the names of a server's tools begin with, for each server
    kinds: dict[str, str] = field(default_factory=dict)  # plugin or MCP server, for each id, on or off
    loaded: list[Loaded] = field(default_factory=list)
    problems: dict[str, list[str]] = field(default_factory=dict)  # plugin or server -> what is left out
    watchful: set[str] = field(default_factory=set)  # plugins that had hooks when they could last be loaded

    def add(self, factory: ToolFactory, plugin: str) -> str:
        """Put a tool among the others; -> why not, if its name is taken."""
        if factory.name in self.tools:
            owner = self.tools[factory.name].facts.plugin
            return f"{factory.name} is a tool of {owner} already" if owner else f"{factory.name} is a tool already"
        try:
            self.tools[factory.name] = Registered(factory, registry.facts_of(factory, plugin))
        except ImproperlyConfigured as wrong:
            return str(wrong)
        return ""

    @property
    def registry(self) -> Registry:
        return Registry(self.tools, frozenset(self.ids), frozenset(self.off))

    def would_bring(self, entry: str) -> bool:
        """Whether an entry names, or fits, what a plugin or server brings, or would bring if it were on and well."""
        name = normalise(entry)
        named = {GROUP_PREFIX + PLUGINS, *self.ids, *self.off}
        if not name.endswith("*"):
            return name in named or any(name.startswith(family) for family in self.families)
        beginning = name[:-1]
        return any(each.startswith(beginning) for each in named | self.families) or any(
            beginning.startswith(family) for family in self.families
        )

    def still_brings(self, tool: ToolFacts) -> bool:
        found = self.tools.get(tool.name)
        return found is not None and found.facts.plugin == tool.plugin

    def why_gone(self, tool: ToolFacts) -> str:
        source = f"{self.kinds.get(tool.plugin, 'its source')} `{tool.plugin}`"
        if tool.plugin in self.ids:
            return f"{source} does not offer it any more"
        if tool.plugin in self.problems:
            return f"{source} cannot be used now"
        return f"{source} was switched off" if tool.plugin in self.kinds else f"{source} was removed"

    def blocking(self, loaded: Loaded) -> tuple[Hook, ...]:
        """In place of hooks that should be there and are not."""
        if not loaded.error or loaded.name not in self.watchful:
            return ()
        return (lambda _call: HookAnswer(block=f"it looks at every call, and cannot be loaded ({loaded.error})"),)


def known_tools() -> Registry:
    """The tools of this moment. A policy may also name what is switched off."""
    return current().registry


def plugin_hooks() -> tuple[PluginHook, ...]:
    """The before_tool_call hooks of enabled plugins, in the order of the plugins' names.

    One that had hooks and cannot be loaded blocks every call: somebody wanted each of them looked at.
    """
    return _hooks(current())


def tools_and_hooks() -> tuple[Registry, tuple[PluginHook, ...]]:
    """Both with one query, for every run begins with it."""
    sources = current()
    return sources.registry, _hooks(sources)


def gone_among(tools: Iterable[ToolFacts]) -> dict[str, str]:
    """Those of a run's tools that nothing offers any more at this moment, and why not. Waits for no import."""
    brought = [tool for tool in tools if tool.plugin]
    if not brought:
        return {}
    now = current(wait=False)
    return {tool.name: now.why_gone(tool) for tool in brought if not now.still_brings(tool)}


def _hooks(sources: Sources) -> tuple[PluginHook, ...]:
    return tuple(PluginHook(each.name, hook) for each in sources.loaded for hook in sources.blocking(each) or each.before_tool_call)


def loaded_plugins() -> list[Loaded]:
    """What became of each enabled plugin in this process."""
    return [*current().loaded]


def current(*, wait: bool = True) -> Sources:
    """With `wait`, plugins that are just being imported get a moment to be among them."""
    state = tuple(tuple(row) for row in sql.rows(STATE))
    enabled = [name for kind, _id, is_on, _revision, name in state if kind == "plugin" and is_on]
    return _sources(state, plugins.imported(enabled, plugins.PATIENCE_SECONDS if wait else 0))


def forget() -> None:
    """What was made of rows that are not committed must not be remembered: other rows may get the same numbers."""
    _sources.cache_clear()


@lru_cache(maxsize=2)
def _sources(_state: tuple[Any, ...], _imported: frozenset[str]) -> Sources:
    """Remembered by the state of the rows itself and by the imports that are over, so it cannot be out of date."""
    sources = Sources(dict(registry.installed().tools))
    for plugin in Plugin.objects.order_by("name"):
        sources.kinds[plugin.name] = "plugin"
        if plugin.enabled:
            sources.loaded.append(_with_plugin(sources, plugins.loaded(plugin.name)))
            if plugin.has_hooks:
                sources.watchful.add(plugin.name)
        if plugin.name not in sources.ids:
            sources.off |= {plugin.name, *plugin.tools}
    for server in McpServer.objects.order_by("name"):
        sources.kinds[server.name] = "MCP server"
        sources.families.add(prefix_of(server.name))
        if not server.enabled:
            sources.off |= {server.name, *(tool_name(server.name, tool["name"]) for tool in server.tools)}
        else:
            sources.ids.add(server.name)
            refused = [why for factory in factories_of(server) if (why := sources.add(factory, server.name))]
            if refused:
                sources.problems[server.name] = refused
    return sources


def _with_plugin(sources: Sources, loaded: Loaded) -> Loaded:
    """All of a plugin or nothing: half a plugin would be a surprise."""
    problem = loaded.error
    if not problem and (normalise(loaded.name) != loaded.name or registry.installed().knows(loaded.name)):
        problem = f"{loaded.name} is no name for a plugin: it is a tool's or another plugin's, or not in lower case"
    before = dict(sources.tools)
    for factory in loaded.tools:
        problem = problem or sources.add(factory, loaded.name)
    if problem:
        sources.tools = before
        sources.problems[loaded.name] = [problem]
        return Loaded(loaded.name, error=problem)
    sources.ids.add(loaded.name)
    return loaded
