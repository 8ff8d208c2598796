"""Tools that don't exist yet but may appear, so that `never` policy tests cover them too.

A server that was just added or changed has no tool list until a worker connects, and tests don't run again when it does. Names
that end in `*` stand for any such tool.
"""

from tools_app.policy.catalog import PLUGINS_GROUP
from tools_app.policy.expectations import BrokenExpectation
from tools_app.policy.matcher import compile_entries, normalize_entry
from tools_app.policy.query import ToolFacts
from tools_app.sources.mcp.listing import is_included
from tools_app.sources.mcp.names import tool_prefix
from tools_app.sources.offered import OfferedTools


def list_expected_tools(now: OfferedTools) -> list[ToolFacts]:
    """Return one placeholder for each enabled server whose tools are not known yet."""
    return [_any_tool_of(name) for name in sorted(now.unseen_servers & now.ids)]


def guess_tools(entry: str, now: OfferedTools) -> list[ToolFacts]:
    """Guess what an entry that matches no existing tool refers to; nothing if the server's filters exclude it."""
    name = normalize_entry(entry)
    for prefix, server in now.servers_by_prefix.items():
        if name.startswith(prefix):
            included = name not in now.filtered and is_included(name.removeprefix(prefix), server.include, server.exclude)
            return [_make_facts(name, server.name)] if included else []
    has_tools = {source for tool, source in now.off.items() if tool != source}
    off = [
        _make_facts(tool, source)
        for tool, source in now.off.items()
        if tool != source or source not in has_tools | now.unseen_servers
    ]
    candidates = [*off, *map(_any_tool_of, sorted(now.unseen_servers))]
    return [facts for facts in candidates if compile_entries((entry,)).find(facts) is not None] or [_make_facts(name, "")]


def is_reachable(failure: BrokenExpectation, now: OfferedTools) -> bool:
    """Whether the tool is available, or will be once a worker has connected to its server."""
    return failure.tool in now.facts or any(
        failure.tool.startswith(prefix) and server.enabled for prefix, server in now.servers_by_prefix.items()
    )


def _any_tool_of(server: str) -> ToolFacts:
    return _make_facts(f"{tool_prefix(server)}*", server)


def _make_facts(name: str, source: str) -> ToolFacts:
    return ToolFacts(name, (PLUGINS_GROUP,), source)
