"""Tools that are not there and may come: what a policy test of the kind `never` is asked about all the same.

A server that was just added or moved has no list until a worker has seen it, and by then nobody asks any more. Names that end
in `*` stand for whatever comes.
"""

from tools_app.policy.catalog import PLUGINS_GROUP
from tools_app.policy.expectations import BrokenExpectation
from tools_app.policy.matcher import compile_entries, normalize_entry
from tools_app.policy.query import ToolFacts
from tools_app.sources.mcp.listing import is_included
from tools_app.sources.mcp.names import tool_prefix
from tools_app.sources.offered import OfferedTools


def list_expected_tools(now: OfferedTools) -> list[ToolFacts]:
    """One for each enabled server whose tools nobody has seen yet."""
    return [_any_tool_of(name) for name in sorted(now.unseen_servers & now.ids)]


def guess_tools(entry: str, now: OfferedTools) -> list[ToolFacts]:
    """What an entry may mean that fits nothing that is there; nothing, where the operator's patterns keep it out."""
    name = normalize_entry(entry)
    for family, server in now.servers_by_prefix.items():
        if name.startswith(family):
            wanted = name not in now.filtered and is_included(name.removeprefix(family), server.include, server.exclude)
            return [_make_facts(name, server.name)] if wanted else []
    has_tools = {source for tool, source in now.off.items() if tool != source}
    off = [
        _make_facts(tool, source)
        for tool, source in now.off.items()
        if tool != source or source not in has_tools | now.unseen_servers
    ]
    may_come = [*off, *map(_any_tool_of, sorted(now.unseen_servers))]
    return [facts for facts in may_come if compile_entries((entry,)).find(facts) is not None] or [_make_facts(name, "")]


def is_reachable(fault: BrokenExpectation, now: OfferedTools) -> bool:
    """Whether the tool is there, or comes as soon as a worker has seen its server."""
    return fault.tool in now.facts or any(
        fault.tool.startswith(family) and server.enabled for family, server in now.servers_by_prefix.items()
    )


def _any_tool_of(server: str) -> ToolFacts:
    return _make_facts(f"{tool_prefix(server)}*", server)


def _make_facts(name: str, source: str) -> ToolFacts:
    return ToolFacts(name, (PLUGINS_GROUP,), source)
