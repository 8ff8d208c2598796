"""The tools that policies on this server can refer to, and suggestions for entries."""

from collections.abc import Iterable
from dataclasses import replace

from django.utils.translation import gettext as _

from tools_app.policy.catalog import GROUPS, OPENCLAW_GROUP, PLUGINS_GROUP
from tools_app.policy.expectations import BrokenExpectation, Expectation, find_broken
from tools_app.policy.matcher import GROUP_PREFIX, compile_entries
from tools_app.policy.query import PolicyQuery, ToolFacts
from tools_app.policy.rules import PolicyRules
from tools_app.policy_store.hypothetical_tools import guess_tools, list_expected_tools
from tools_app.sources import offered
from tools_app.sources.registry import list_nameable, list_plugin_names
from tools_app.sources.tools import load_tools

NEVER = "never"
MAX_MEMBERS_SHOWN = 6  # tools listed in a hint


def with_all_tools(query: PolicyQuery) -> PolicyQuery:
    """Return the query with every tool a policy can name, in display order.

    Includes native tools that aren't available yet and tools of disabled plugins and servers, so that people can see why
    they are unavailable.
    """
    now = offered.load_offered_tools()
    nameable = list_nameable(now.facts)
    names = {facts.name for facts in nameable}
    absent = [ToolFacts(name, (PLUGINS_GROUP,), source) for name, source in now.off.items() if name != source and name not in names]
    tools = sorted([*nameable, *absent], key=lambda facts: (not first_group(facts), first_group(facts), facts.name))
    return replace(query, tools=tuple(tools), plugins=now.plugin_names)


def first_group(facts: ToolFacts) -> str:
    """Return the heading people would look for the tool under: its plugin, its group, or "" for a native tool without one."""
    own = [group for group in facts.groups if group not in (OPENCLAW_GROUP, PLUGINS_GROUP)]
    return facts.plugin or (own[0] if own else "")


def is_known_tool(entry: str) -> bool:
    """Whether an entry names or matches a tool, a group or a plugin."""
    return load_tools().knows(entry)


def find_broken_among(tests: Iterable[Expectation], rules: PolicyRules) -> list[BrokenExpectation]:
    """Return the tests, stored or not, that fail.

    If a tool's plugin or server is disabled, failing or not seen yet, `never` tests treat the tool as present, because it may
    appear at any time. `allowed` tests are skipped until it is back.
    """
    now = offered.load_offered_tools()
    nameable = list_nameable(now.facts)
    failures = []
    for test in tests:
        tools, plugins = nameable, now.plugin_names
        if test.expected == NEVER:
            tools = (*nameable, *list_expected_tools(now))
        if now.would_provide(test.tool) and not _matches_any(test.tool, tools):
            tools = tuple(guess_tools(test.tool, now)) if test.expected == NEVER else ()
            if not tools:
                continue
        if test.expected == NEVER:
            plugins = list_plugin_names(tools, now.plugin_names)
        failures += find_broken([test], rules, tools, plugins)
    return failures


def find_absent_among(entries: Iterable[str]) -> frozenset[str]:
    """Return the entries that name tools of a known plugin or server, none of which is available now."""
    now = offered.load_offered_tools()
    nameable = list_nameable(now.facts)
    return frozenset(entry for entry in entries if now.would_provide(entry) and not _matches_any(entry, nameable))


def _matches_any(entry: str, tools: Iterable[ToolFacts]) -> bool:
    return any(compile_entries((entry,)).find(facts) is not None for facts in tools)


def suggest_entries() -> list[tuple[str, str]]:
    """Return suggestions for entries, each with a hint: tools, groups, plugins."""
    known = load_tools()
    tools = sorted(known.nameable, key=lambda facts: facts.name)
    suggestions = [(facts.name, first_group(facts)) for facts in tools]
    for group in sorted(GROUPS):
        suggestions.append((GROUP_PREFIX + group, _list_members([facts.name for facts in tools if group in facts.groups])))
    for plugin in sorted({facts.plugin for facts in tools if facts.plugin}):
        suggestions.append((plugin, _("plugin: %s") % _list_members([facts.name for facts in tools if facts.plugin == plugin])))
    return [*suggestions, ("*", _("All tools"))]


def _list_members(names: list[str]) -> str:
    return ", ".join(names[:MAX_MEMBERS_SHOWN]) + (", …" if len(names) > MAX_MEMBERS_SHOWN else "")
