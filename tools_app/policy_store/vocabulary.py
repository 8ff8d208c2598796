"""What a policy can speak of in this installation: its tools, and the words an entry may use. Asks the registry, in one place."""

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
MAX_MEMBERS_SHOWN = 6  # tools of a group, in a hint


def with_all_tools(query: PolicyQuery) -> PolicyQuery:
    """The question about every tool a policy can name, in the order they are read.

    Also those natives that nothing offers yet, and those of plugins and servers that are off: who looks for one finds why.
    """
    now = offered.load_offered_tools()
    there = list_nameable(now.facts)
    names = {facts.name for facts in there}
    absent = [ToolFacts(name, (PLUGINS_GROUP,), source) for name, source in now.off.items() if name != source and name not in names]
    tools = sorted([*there, *absent], key=lambda facts: (not first_group(facts), first_group(facts), facts.name))
    return replace(query, tools=tuple(tools), plugins=now.plugin_names)


def first_group(facts: ToolFacts) -> str:
    """The one a person would look for it under: its plugin, its own group, or "" for a native of none."""
    own = [group for group in facts.groups if group not in (OPENCLAW_GROUP, PLUGINS_GROUP)]
    return facts.plugin or (own[0] if own else "")


def is_known_tool(entry: str) -> bool:
    """Whether an entry names or fits a tool, a group or a plugin."""
    return load_tools().knows(entry)


def find_broken_among(tests: Iterable[Expectation], rules: PolicyRules) -> list[BrokenExpectation]:
    """Those of these tests, stored or not, that do not hold.

    Of tools whose plugin or server is off, cannot be used or was not seen yet, `never` is asked as if they were there, because
    they may come at any time; `allowed` is not, and is asked again when they are back.
    """
    now = offered.load_offered_tools()
    there = list_nameable(now.facts)
    faults = []
    for test in tests:
        tools, plugins = there, now.plugin_names
        if test.expected == NEVER:
            tools = (*there, *list_expected_tools(now))
        if now.would_provide(test.tool) and not _matches_any(test.tool, tools):
            tools = tuple(guess_tools(test.tool, now)) if test.expected == NEVER else ()
            if not tools:
                continue
        if test.expected == NEVER:
            plugins = list_plugin_names(tools, now.plugin_names)
        faults += find_broken([test], rules, tools, plugins)
    return faults


def find_absent_among(entries: Iterable[str]) -> frozenset[str]:
    """The entries that name what a plugin or server of ours would bring, while nothing of it is there."""
    now = offered.load_offered_tools()
    there = list_nameable(now.facts)
    return frozenset(entry for entry in entries if now.would_provide(entry) and not _matches_any(entry, there))


def _matches_any(entry: str, tools: Iterable[ToolFacts]) -> bool:
    return any(compile_entries((entry,)).find(facts) is not None for facts in tools)


def suggest_entries() -> list[tuple[str, str]]:
    """What somebody may type as an entry, each with a hint: tools, groups, plugins."""
    known = load_tools()
    tools = sorted(known.nameable, key=lambda facts: facts.name)
    words = [(facts.name, first_group(facts)) for facts in tools]
    for group in sorted(GROUPS):
        words.append((GROUP_PREFIX + group, _list_members([facts.name for facts in tools if group in facts.groups])))
    for plugin in sorted({facts.plugin for facts in tools if facts.plugin}):
        words.append((plugin, _("plugin: %s") % _list_members([facts.name for facts in tools if facts.plugin == plugin])))
    return [*words, ("*", _("All tools"))]


def _list_members(names: list[str]) -> str:
    return ", ".join(names[:MAX_MEMBERS_SHOWN]) + (", …" if len(names) > MAX_MEMBERS_SHOWN else "")
