"""Who offers which tool at this moment, by name: natives, enabled plugins, and enabled MCP servers as they were last seen.

Names and facts only, so that it is cheap enough for the thread that writes; tools_app.sources makes the tools. Sync. Costs
one small query; the rest is remembered until a row changes. Who comes first keeps a name: natives, then plugins, then
servers; what a later one brings under a taken name is left out, and `problems` says so.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from clawsite.infra import sql
from tools_app.models import McpServer, Plugin
from tools_app.policy.catalog import PLUGINS_GROUP
from tools_app.policy.matcher import GROUP_PREFIX, normalize_entry
from tools_app.policy.query import ToolFacts
from tools_app.sources import plugins, registry
from tools_app.sources.mcp.listing import is_included
from tools_app.sources.mcp.names import make_tool_name, tool_prefix
from tools_app.sources.plugins import LoadedPlugin

# What the answer depends on: switches, settings, what workers found in plugins, and the digest of each server's tools.
STATE_SQL = """
    SELECT 'mcp', id, enabled, '', revision, listing FROM tools_app_mcpserver
    UNION ALL SELECT 'plugin', id, enabled, name, CASE WHEN has_hooks THEN 1 ELSE 0 END, CAST(tools AS TEXT) FROM tools_app_plugin
    ORDER BY 1, 2
"""
SourceState = tuple[tuple[Any, ...], ...]
# The database picks the names out: a list may have megabytes, and five of them take Python a second to read.
_TOOL_NAMES_SQL = {
    "sqlite": "(SELECT json_group_array(json_extract(value, '$.name')) FROM json_each(tools))",
    "postgresql": "jsonb_path_query_array(tools, '$[*].name')::text",
}


@dataclass(slots=True)
class OfferedTools:
    facts: dict[str, ToolFacts]  # of every tool there is
    ids: set[str] = field(default_factory=set)  # of enabled plugins and servers
    off: dict[str, str] = field(default_factory=dict)  # ids and tools of those that are not, or that cannot be used -> id
    servers_by_prefix: dict[str, McpServer] = field(default_factory=dict)  # by what the names of a server's tools begin with
    unseen_servers: set[str] = field(default_factory=set)  # servers, on or off, whose list nobody has seen yet
    filtered: set[str] = field(default_factory=set)  # tools that the operator's patterns keep out
    kinds: dict[str, str] = field(default_factory=dict)  # plugin or MCP server, for each id, on or off
    loaded: list[LoadedPlugin] = field(default_factory=list)
    problems: dict[str, list[str]] = field(default_factory=dict)  # plugin or server -> what is left out
    plugins_with_hooks: set[str] = field(default_factory=set)  # plugins that had hooks when they could last be loaded
    plugin_names: tuple[str, ...] = ()  # as those of a Registry

    def add(self, name: str, plugin: str, *, owner_only: bool = False) -> str:
        """Put a tool among the others; -> why not, if its name is taken."""
        if name in self.facts:
            owner = self.facts[name].plugin
            return f"{name} is a tool of {owner} already" if owner else f"{name} is a tool already"
        try:
            self.facts[name] = registry.make_plugin_tool_facts(name, plugin, owner_only=owner_only)
        except ImproperlyConfigured as wrong:
            return str(wrong)
        return ""

    def would_provide(self, entry: str) -> bool:
        """Whether an entry names, or fits, what a plugin or server brings, or would bring if it were on and well."""
        name = normalize_entry(entry)
        named = {GROUP_PREFIX + PLUGINS_GROUP, *self.ids, *self.off}
        if not name.endswith("*"):
            return name in named or any(name.startswith(family) for family in self.servers_by_prefix)
        beginning = name[:-1]
        return any(each.startswith(beginning) for each in named | self.servers_by_prefix.keys()) or any(
            beginning.startswith(family) for family in self.servers_by_prefix
        )

    def brings(self, name: str, plugin: str) -> bool:
        return name in self.facts and self.facts[name].plugin == plugin

    def why_unavailable(self, tool: ToolFacts) -> str:
        source = f"{self.kinds.get(tool.plugin, 'its source')} `{tool.plugin}`"
        if tool.plugin in self.ids:
            return f"{source} does not offer it any more"
        if tool.plugin in self.problems:
            return f"{source} cannot be used now"
        return f"{source} was switched off" if tool.plugin in self.kinds else f"{source} was removed"


@dataclass(frozen=True, slots=True)
class CurrentOffer:
    """What a call under way is judged by, beside the rules of now.

    `plugins` are what a policy entry may call a plugin, a server or a tool of theirs: the `plugins` of a PolicyQuery. `gone`
    are those of the run's tools that nothing offers any more, each with the reason.
    """

    plugins: tuple[str, ...]
    gone: dict[str, str]


def read_current_offer(tools: Iterable[ToolFacts]) -> CurrentOffer:
    """For the tools that a run was given when it began. One query, also on the thread that writes; waits for no import."""
    now = load_offered_tools(wait=False)
    gone = {tool.name: now.why_unavailable(tool) for tool in tools if tool.plugin and not now.brings(tool.name, tool.plugin)}
    return CurrentOffer(now.plugin_names, gone)


def load_offered_tools(*, wait: bool = True) -> OfferedTools:
    """With `wait`, plugins that are just being imported get a moment to be among them."""
    return build_offered_tools(*read_state(wait=wait))


def read_state(*, wait: bool = True) -> tuple[SourceState, frozenset[str]]:
    """What all of this is remembered by: the rows, and the plugins whose import is over."""
    rows = tuple(tuple(row) for row in sql.fetch_rows(STATE_SQL))
    enabled = [name for kind, _id, is_on, name, *_rest in rows if kind == "plugin" and is_on]
    return rows, plugins.import_plugins(enabled, plugins.IMPORT_WAIT_SECONDS if wait else 0)


@lru_cache(maxsize=2)
def build_offered_tools(_state: SourceState, _imported: frozenset[str]) -> OfferedTools:
    """Remembered by the state of the rows itself and by the imports that are over, so it cannot be out of date."""
    offer = OfferedTools({name: each.facts for name, each in registry.load_installed().tools.items()})
    for plugin in Plugin.objects.order_by("name"):
        offer.kinds[plugin.name] = "plugin"
        if plugin.enabled:
            offer.loaded.append(_add_plugin(offer, plugins.get_loaded(plugin.name)))
            if plugin.has_hooks:
                offer.plugins_with_hooks.add(plugin.name)
        if plugin.name not in offer.ids:
            offer.off |= dict.fromkeys([plugin.name, *plugin.tools], plugin.name)
    for server, names in _read_servers():
        offer.kinds[server.name] = "MCP server"
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
    """All of a plugin or nothing: half a plugin would be a surprise."""
    problem = loaded.error
    if not problem and (normalize_entry(loaded.name) != loaded.name or registry.load_installed().knows(loaded.name)):
        problem = f"{loaded.name} is no name for a plugin: it is a tool's or another plugin's, or not in lower case"
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
    """Each server without its list, and the names in it as the server gave them."""
    rows = sql.fetch_rows(f"SELECT id, {_TOOL_NAMES_SQL[connection.vendor]} FROM tools_app_mcpserver")
    names = {pk: orjson.loads(found) for pk, found in rows}
    servers = McpServer.objects.only("name", "enabled", "include", "exclude", "listing").order_by("name")
    return [(server, names.get(server.pk, [])) for server in servers]
