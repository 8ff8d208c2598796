"""Tools that are not there and may come: what a policy test of the kind `never` is asked about all the same.

A server that was just added or moved has no list until a worker has seen it, and by then nobody asks any more. Names that end
in `*` stand for whatever comes.
"""

from tools_app.policy.catalog import PLUGINS
from tools_app.policy.expectations import Broken
from tools_app.policy.matcher import normalise, ready
from tools_app.policy.query import ToolFacts
from tools_app.sources.mcp.listing import is_wanted
from tools_app.sources.mcp.names import prefix_of
from tools_app.sources.offered import Offer


def to_come(now: Offer) -> list[ToolFacts]:
    """One for each enabled server whose tools nobody has seen yet."""
    return [_any_of(name) for name in sorted(now.unseen & now.ids)]


def supposed(entry: str, now: Offer) -> list[ToolFacts]:
    """What an entry may mean that fits nothing that is there; nothing, where the operator's patterns keep it out."""
    name = normalise(entry)
    for family, server in now.families.items():
        if name.startswith(family):
            wanted = name not in now.filtered and is_wanted(name.removeprefix(family), server.include, server.exclude)
            return [_brought(name, server.name)] if wanted else []
    has_tools = {source for tool, source in now.off.items() if tool != source}
    off = [_brought(tool, source) for tool, source in now.off.items() if tool != source or source not in has_tools | now.unseen]
    may_come = [*off, *map(_any_of, sorted(now.unseen))]
    return [facts for facts in may_come if ready((entry,)).find(facts) is not None] or [_brought(name, "")]


def within_reach(fault: Broken, now: Offer) -> bool:
    """Whether the tool is there, or comes as soon as a worker has seen its server."""
    return fault.tool in now.facts or any(
        fault.tool.startswith(family) and server.enabled for family, server in now.families.items()
    )


def _any_of(server: str) -> ToolFacts:
    return _brought(f"{prefix_of(server)}*", server)


def _brought(name: str, source: str) -> ToolFacts:
    return ToolFacts(name, (PLUGINS,), source)
