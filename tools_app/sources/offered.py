"""The tools currently offered, by name: native tools, enabled plugins, and enabled MCP servers as last seen.

Names and facts only, so that it is cheap enough for the writer thread; tools_app.sources.tools creates the tools. Sync. Costs
one small query; the rest is cached until a row changes. Native tools take precedence over plugins, and plugins over servers;
a later tool whose name is already taken is left out and listed in `problems`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import orjson
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from clawsite.infra import sql
from clawsite.infra.reasons import Reason
from tools_app.models import McpServer, Plugin
from tools_app.policy.catalog import PLUGINS_GROUP
from tools_app.policy.matcher import GROUP_PREFIX, normalize_entry
from tools_app.policy.query import ToolFacts
from tools_app.sources import plugins, registry
from tools_app.sources.mcp.listing import is_included
from tools_app.sources.mcp.names import make_tool_name, tool_prefix
from tools_app.sources.plugins import LoadedPlugin

# What the result depends on: enabled flags, settings, tools and hooks of plugins, and the digest of each server's tools.
STATE_SQL = """
    SELECT 'mcp', id, enabled, '', revision, listing FROM tools_app_mcpserver
    UNION ALL SELECT 'plugin', id, enabled, name, CASE WHEN has_hooks THEN 1 ELSE 0 END, CAST(tools AS TEXT) FROM tools_app_plugin
    ORDER BY 1, 2
"""
SourceState = tuple[tuple[Any, ...], ...]
# The database extracts the names: a list may be megabytes, and parsing five of them takes Python 1 s.
_TOOL_NAMES_SQL = {
    "sqlite": "(SELECT json_group_array(json_extract(value, '$.name')) FROM json_each(tools))",
    "postgresql": "jsonb_path_query_array(tools, '$[*].name')::text",
}


class SourceReasons(NamedTuple):
    """Reason codes for a tool that its source doesn't provide now."""

    dropped_it: str
    failed: str
    disabled: str


PLUGIN = SourceReasons("source.plugin_dropped_it", "source.plugin_failed", "source.plugin_disabled")
MCP_SERVER = SourceReasons("source.server_dropped_it", "source.server_failed", "source.server_disabled")


@dataclass(slots=True)
class OfferedTools:
    facts: dict[str, ToolFacts]  # of every tool
    ids: set[str] = field(default_factory=set)  # IDs of enabled plugins and servers
    off: dict[str, str] = field(default_factory=dict)  # IDs and tools of disabled or unusable sources -> ID
    servers_by_prefix: dict[str, McpServer] = field(default_factory=dict)  # by tool name prefix
    unseen_servers: set[str] = field(default_factory=set)  # servers, enabled or not, that have not listed their tools yet
    filtered: set[str] = field(default_factory=set)  # tools excluded by the operator's patterns
    sources: dict[str, SourceReasons] = field(default_factory=dict)  # of each ID, enabled or not
    loaded: list[LoadedPlugin] = field(default_factory=list)
    problems: dict[str, list[str]] = field(default_factory=dict)  # plugin or server -> what was left out and why
    plugins_with_hooks: set[str] = field(default_factory=set)  # plugins that had hooks when last loaded
    plugin_names: tuple[str, ...] = ()  # as in ToolRegistry

    def add(self, name: str, plugin: str, *, owner_only: bool = False) -> str:
        """Add a tool; return the reason if it can't be added."""
        if name in self.facts:
            owner = self.facts[name].plugin
            return f"{name} is already a tool of {owner}" if owner else f"{name} is already a tool"
        try:
            self.facts[name] = registry.make_plugin_tool_facts(name, plugin, owner_only=owner_only)
        except ImproperlyConfigured as wrong:
            return str(wrong)
        return ""

    def would_provide(self, entry: str) -> bool:
        """Whether an entry matches something a plugin or server provides, or would provide if enabled and working."""
        name = normalize_entry(entry)
        named = {GROUP_PREFIX + PLUGINS_GROUP, *self.ids, *self.off}
        if not name.endswith("*"):
            return name in named or any(name.startswith(family) for family in self.servers_by_prefix)
        beginning = name[:-1]
        return any(each.startswith(beginning) for each in named | self.servers_by_prefix.keys()) or any(
            beginning.startswith(family) for family in self.servers_by_prefix
        )

    def is_from_plugin(self, name: str, plugin: str) -> bool:
        return name in self.facts and self.facts[name].plugin == plugin

    def why_unavailable(self, tool: ToolFacts) -> Reason:
        source = self.sources.get(tool.plugin)
        if source is None:
            return Reason("source.removed", name=tool.plugin)
        if tool.plugin in self.ids:
            return Reason(source.dropped_it, name=tool.plugin)
        return Reason(source.failed if tool.plugin in self.problems else source.disabled, name=tool.plugin)


@dataclass(frozen=True, slots=True)
class CurrentOffer:
    """What a call in progress is authorized against, besides the current rules.

    `plugins` are the names that policy entries may use for plugins, servers and their tools (see PolicyQuery). `unavailable` maps
    those of the run's tools that are no longer offered to the reason.
    """

    plugins: tuple[str, ...]
    unavailable: dict[str, Reason]


def read_current_offer(tools: Iterable[ToolFacts]) -> CurrentOffer:
    """Return the current offer for the tools a run started with. One query, safe on the writer thread; never waits for imports."""
    now = load_offered_tools(wait=False)
    gone = {
        tool.name: now.why_unavailable(tool) for tool in tools if tool.plugin and not now.is_from_plugin(tool.name, tool.plugin)
    }
    return CurrentOffer(now.plugin_names, gone)


def load_offered_tools(*, wait: bool = True) -> OfferedTools:
    """Return the tools currently offered. With `wait`, allow a moment for plugin imports to finish."""
    return build_offered_tools(*read_state(wait=wait))


def read_state(*, wait: bool = True) -> tuple[SourceState, frozenset[str]]:
    """Return the cache key: the rows, and the plugins whose import has finished."""
    rows = tuple(tuple(row) for row in sql.fetch_rows(STATE_SQL))
    enabled = [name for kind, _id, is_on, name, *_rest in rows if kind == "plugin" and is_on]
    return rows, plugins.import_plugins(enabled, plugins.IMPORT_WAIT_SECONDS if wait else 0)


@lru_cache(maxsize=2)
def build_offered_tools(_state: SourceState, _imported: frozenset[str]) -> OfferedTools:
    """Build the offered tools. Cached by the rows' state and the finished imports, so the result can't be stale."""
    offer = OfferedTools({name: each.facts for name, each in registry.load_installed().tools.items()})
    for plugin in Plugin.objects.order_by("name"):
        offer.sources[plugin.name] = PLUGIN
        if plugin.enabled:
            offer.loaded.append(_add_plugin(offer, plugins.get_loaded(plugin.name)))
            if plugin.has_hooks:
                offer.plugins_with_hooks.add(plugin.name)
        if plugin.name not in offer.ids:
            offer.off |= dict.fromkeys([plugin.name, *plugin.tools], plugin.name)
    for server, names in _read_servers():
        offer.sources[server.name] = MCP_SERVER
        offer.servers_by_prefix[tool_prefix(server.name)] = server
        tools = {make_tool_name(server.name, name): is_included(name, server.include, server.exclude) for name in names}
        if not server.listing and not tools:
            offer.unseen_servers.add(server.name)
        if not server.enabled:
            offer.off |= dict.fromkeys([server.name, *tools], server.name)
            continue
        offer.ids.add(server.name)
        offer.filtered |= {name for name, is_on in tools.items() if not is_on}
        if refused := [why for name, is_on in tools.items() if is_on and (why := offer.add(name, server.name))]:
            offer.problems[server.name] = refused
    offer.plugin_names = registry.list_plugin_names(offer.facts.values(), offer.ids)
    return offer


def _add_plugin(offer: OfferedTools, loaded: LoadedPlugin) -> LoadedPlugin:
    """Add all tools of a plugin or none of them."""
    problem = loaded.error
    if not problem and (normalize_entry(loaded.name) != loaded.name or registry.load_installed().knows(loaded.name)):
        problem = f"invalid plugin name {loaded.name}: it is already a tool or plugin, or not lowercase"
    before = dict(offer.facts)
    for tool in loaded.tools:
        problem = problem or offer.add(tool.name, loaded.name, owner_only=tool.owner_only)
    if problem:
        offer.facts = before
        offer.problems[loaded.name] = [problem]
        return LoadedPlugin(loaded.name, error=problem)
    offer.ids.add(loaded.name)
    return loaded


def _read_servers() -> list[tuple[McpServer, list[str]]]:
    """Return each server without its tool list, and its tools' original names."""
    rows = sql.fetch_rows(f"SELECT id, {_TOOL_NAMES_SQL[connection.vendor]} FROM tools_app_mcpserver")
    names = {pk: orjson.loads(listed) for pk, listed in rows}
    servers = McpServer.objects.only("name", "enabled", "include", "exclude", "listing").order_by("name")
    return [(server, names.get(server.pk, [])) for server in servers]
