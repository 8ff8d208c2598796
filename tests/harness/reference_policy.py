"""A naive second implementation of the tool policy: plain loops over rows and entries, without preparation or caching.

Results of tools_app.policy are compared with it, and its speed too (bench.policy_bench). It imports lists from there, never code.
"""

import glob
from fnmatch import fnmatchcase

from tools_app.policy.catalog import (
    ALIASES,
    GROUPS,
    NATIVE_NAMES,
    OPENCLAW_GROUP,
    PROFILES,
    SANDBOX_ALLOW,
    SANDBOX_ALWAYS,
    SANDBOX_DENY,
    SUBAGENT_DENY,
)
from tools_app.policy.query import PolicyQuery, ToolFacts
from tools_app.policy.rules import PolicyRules, RuleRow

NOTHING = RuleRow("none")
Lists = tuple[tuple[str, ...], tuple[str, ...]]  # allow, deny


def kept(query: PolicyQuery, rules: PolicyRules) -> set[str]:
    lists = [*profiles(query, rules), *(lists_of(row, query) for row in applicable_rows(query, rules)), *fixed(query, rules)]
    return {
        tool.name
        for tool in query.tools
        if (query.is_owner or not tool.owner_only) and all(passes(tool, allow, deny) for allow, deny in lists)
    }


def passes(tool: ToolFacts, allow: tuple[str, ...], deny: tuple[str, ...]) -> bool:
    if any(names(entry, tool) for entry in deny):
        return False
    return not allow or any(names(entry, tool) for entry in allow)


def names(entry: str, tool: ToolFacts) -> bool:
    entry = entry.strip().lower()
    entry = ALIASES.get(entry, entry)
    if "*" in entry:
        return entry.index("*") == len(entry) - 1 and fnmatchcase(tool.name.lower(), glob.escape(entry[:-1]) + "*")
    if entry.startswith("group:"):
        return entry.removeprefix("group:") in tool.groups
    return bool(entry) and entry in (tool.name.lower(), tool.plugin.lower())


def applicable_rows(query: PolicyQuery, rules: PolicyRules) -> list[RuleRow]:
    """Return the row that applies in each of layers 3 to 7."""
    return [
        find(rules, "global"),
        for_provider(query, rules, "global", ""),
        find(rules, "agent", query.agent),
        for_provider(query, rules, "agent", query.agent),
        in_group(query, rules),
    ]


def profiles(query: PolicyQuery, rules: PolicyRules) -> list[Lists]:
    pairs = [
        (find(rules, "agent", query.agent), find(rules, "global"), "minimal"),
        (for_provider(query, rules, "agent", query.agent), for_provider(query, rules, "global", ""), "full"),
    ]
    lists: list[Lists] = []
    for own, general, default in pairs:
        name = own.profile or general.profile or default
        if name not in PROFILES:
            lists.append(((), ("*",)))
        elif PROFILES[name]:
            lists.append((PROFILES[name] + (own.also_allow or general.also_allow), ()))
    return lists


def fixed(query: PolicyQuery, rules: PolicyRules) -> list[Lists]:
    lists: list[Lists] = []
    if query.sandboxed:
        own, general = find(rules, "sandbox", query.agent), find(rules, "sandbox")
        row = own if own.allow or own.deny else general
        if row.allow or row.deny:
            lists.append((row.allow + SANDBOX_ALWAYS if row.allow else (), row.deny))
        else:
            lists.append((SANDBOX_ALLOW, SANDBOX_DENY))
    if query.is_subagent:
        row = find(rules, "subagent")
        lists.append((row.allow, SUBAGENT_DENY + row.deny))
    return lists


def find(rules: PolicyRules, scope: str, subject: str = "", provider: str = "") -> RuleRow:
    for row in rules.rows:
        if (row.scope, row.subject, row.provider) == (scope, subject, provider):
            return row
    return NOTHING


def for_provider(query: PolicyQuery, rules: PolicyRules, scope: str, subject: str) -> RuleRow:
    if not query.provider:
        return NOTHING
    for key in (f"{query.provider}/{query.model}", query.provider):
        row = find(rules, scope, subject, key.lower())
        if row is not NOTHING:
            return row
    return NOTHING


def in_group(query: PolicyQuery, rules: PolicyRules) -> RuleRow:
    if not query.group:
        return NOTHING
    sender_info = query.sender
    known = [
        name.strip().removeprefix("@").lower()
        for name in (sender_info.id, sender_info.e164, sender_info.username, sender_info.name)
    ]
    for group in (query.group, "*"):
        for sender in [*filter(None, known), "*", ""]:
            for row in rules.rows:
                if row.scope_values == ("group", "", "", query.channel.lower(), group, sender):
                    return row
    return NOTHING


def lists_of(row: RuleRow, query: PolicyQuery) -> Lists:
    plugins_only = bool(row.allow) and all(is_plugins(entry, query.plugins) for entry in row.allow)
    return (() if plugins_only else row.allow), row.deny


def is_plugins(entry: str, plugins: tuple[str, ...]) -> bool:
    """Whether an entry matches installed plugins and no native tool."""
    entry = entry.strip().lower()
    entry = ALIASES.get(entry, entry)
    if entry == "group:plugins":
        return True
    ours = [ToolFacts(name, (*GROUPS, OPENCLAW_GROUP)) for name in NATIVE_NAMES]
    theirs = [ToolFacts(name) for name in plugins]
    return not any(names(entry, tool) for tool in ours) and any(names(entry, tool) for tool in theirs)
