"""Match tools against an allowlist and a deny list. Deny wins, and an empty allowlist doesn't limit. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from clawsite.infra.reasons import Reason, register_reasons
from clawsite.infra.reasons import gettext_noop as _
from tools_app.policy.catalog import ALIASES, GROUPS, NATIVE_NAMES, PLUGINS_GROUP
from tools_app.policy.query import ToolFacts

Effect = Literal["allow", "deny", "none"]
EntryKind = Literal["core", "plugin", "unknown"]
GROUP_PREFIX = "group:"

# Reason codes: without and with the source of the list.
RuleCodes = tuple[str, str]
ALLOW_ENTRY: RuleCodes = ("policy.allow_entry", "policy.allow_entry_in")
ALSO_ALLOW_ENTRY: RuleCodes = ("policy.also_allow_entry", "policy.also_allow_entry_in")
DENY_ENTRY: RuleCodes = ("policy.deny_entry", "policy.deny_entry_in")
NOT_LISTED: RuleCodes = ("policy.not_listed", "policy.not_listed_in")
NO_LIMIT: RuleCodes = ("policy.no_limit", "policy.no_limit_in")
ONLY_PLUGINS = "policy.only_plugins"

register_reasons(
    {
        "policy.allow_entry": _("allow entry `{entry}`"),
        "policy.allow_entry_in": _("allow entry `{entry}` in {source}"),
        "policy.also_allow_entry": _("also allow entry `{entry}`"),
        "policy.also_allow_entry_in": _("also allow entry `{entry}` in {source}"),
        "policy.deny_entry": _("deny entry `{entry}`"),
        "policy.deny_entry_in": _("deny entry `{entry}` in {source}"),
        "policy.not_listed": _("not in the allowlist"),
        "policy.not_listed_in": _("not in {source}"),
        "policy.no_limit": _("no limit"),
        "policy.no_limit_in": _("not limited by {source}"),
        "policy.only_plugins": _("allowlist ignored, because it names only plugins"),
    }
)


def normalize_entry(entry: str) -> str:
    """Return the form used for comparison: lowercase, stripped, with aliases resolved."""
    entry = entry.strip().lower()
    return ALIASES.get(entry, entry)


@dataclass(frozen=True, slots=True)
class EntryMatcher:
    """A compiled list. Which entry it reports doesn't depend on the order of the list."""

    exact: dict[str, str]  # normalized entry -> entry as written
    patterns: tuple[tuple[str, str], ...]  # (prefix, entry as written), longest first

    def find(self, tool: ToolFacts) -> str | None:
        """Return the most specific entry that matches the tool: its name, its plugin, a group, a pattern."""
        exact = self.exact
        for key in tool.keys:
            if key in exact:
                return exact[key]
        for prefix, entry in self.patterns:
            if tool.keys[0].startswith(prefix):
                return entry
        return None


@lru_cache(maxsize=4096)
def compile_entries(entries: tuple[str, ...]) -> EntryMatcher:
    """Compile entries: `*`, `prefix_*`, `group:x`, a tool's name or a plugin's ID. Others, such as blank ones, match nothing."""
    exact: dict[str, str] = {}
    patterns: dict[str, str] = {}
    for entry in entries:
        name = normalize_entry(entry)
        if name.endswith("*"):
            patterns.setdefault(name[:-1], entry)
        elif name:
            exact.setdefault(name, entry)
    return EntryMatcher(exact, tuple(sorted(patterns.items(), key=lambda pair: (-len(pair[0]), pair[0]))))


def classify_entry(entry: str, plugins: frozenset[str]) -> EntryKind:
    """Classify an entry. A pattern that matches a native tool is a core entry, whatever else it matches.

    `plugins` holds the IDs of the enabled plugins and the names of their tools, in lowercase.
    """
    name = normalize_entry(entry)
    if name == GROUP_PREFIX + PLUGINS_GROUP:
        return "plugin"
    if name.startswith(GROUP_PREFIX):
        return "core" if name.removeprefix(GROUP_PREFIX) in GROUPS else "unknown"
    if name.endswith("*"):
        if any(native.startswith(name[:-1]) for native in NATIVE_NAMES):
            return "core"
        return "plugin" if any(each.startswith(name[:-1]) for each in plugins) else "unknown"
    if name in NATIVE_NAMES:
        return "core"
    return "plugin" if name in plugins else "unknown"


@lru_cache(maxsize=1024)
def has_only_plugins(entries: tuple[str, ...], plugins: tuple[str, ...]) -> bool:
    """Whether every entry names an enabled plugin or its tools. A single typo makes this false."""
    known = frozenset(name.lower() for name in plugins)
    return bool(entries) and all(classify_entry(entry, known) == "plugin" for entry in entries)


_ONLY_PLUGINS = Reason(ONLY_PLUGINS)


@dataclass(frozen=True, slots=True)
class PolicyStep:
    """The result of one layer for one tool. `none` means neither allowed nor denied here."""

    layer: str
    effect: Effect
    rule: Reason
    row: str = ""  # key of the operator's rule; empty if the rule is built in

    def to_json(self) -> dict[str, Any]:
        data = {"layer": self.layer, "effect": self.effect, "rule": self.rule.to_json()}
        return {**data, "row": self.row} if self.row else data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "PolicyStep":
        return cls(data["layer"], data["effect"], Reason.from_json(data["rule"]), data.get("row", ""))


@dataclass(frozen=True, slots=True)
class LayerPolicy:
    """The lists that one layer applies. `source` says where they come from if not from the layer's own rule, such as a profile.

    `row` is the key of the rule that has the lists, `also_row` of the one that has `also`; `always_deny` is not from a rule.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    source: Reason | None = None
    row: str = ""
    also_row: str = ""
    ignored: bool = False  # the allowlist names only plugins, so it doesn't apply
    always_deny: tuple[str, ...] = ()

    def judge(self, layer: str, tools: Iterable[ToolFacts]) -> Iterator[PolicyStep]:
        """Yield the layer's step for each tool."""
        # The lists are compiled once for all tools, empty ones are skipped, ToolFacts.keys is precomputed, and tools that match the
        # same entry share a step. So 60 tools pass through nine layers in 0.5 ms instead of 1.8 ms.
        lists = [(compile_entries(entries).find, effect, codes, row) for entries, effect, codes, row in self._lists() if entries]
        unlisted: PolicyStep | None = None
        shared: dict[tuple[RuleCodes, str, str], PolicyStep] = {}
        for tool in tools:
            for find, effect, codes, row in lists:
                if (entry := find(tool)) is not None:
                    if (step := shared.get((codes, entry, row))) is None:
                        step = shared[codes, entry, row] = PolicyStep(layer, effect, _explain(codes, self.source, entry), row)
                    yield step
                    break
            else:
                unlisted = unlisted or self._unlisted_step(layer)
                yield unlisted

    def _lists(self) -> Iterator[tuple[tuple[str, ...], Effect, RuleCodes, str]]:
        """Yield the lists in order of precedence: entries, effect of a match, codes, row."""
        yield self.always_deny, "deny", DENY_ENTRY, ""
        yield self.deny, "deny", DENY_ENTRY, self.row
        if self.allow and not self.ignored:
            yield self.allow, "allow", ALLOW_ENTRY, self.row
            yield self.also, "allow", ALSO_ALLOW_ENTRY, self.also_row

    def _unlisted_step(self, layer: str) -> PolicyStep:
        """Return the step for a tool that no list matches."""
        if self.ignored:
            return PolicyStep(layer, "none", _ONLY_PLUGINS, self.row)
        if not self.allow:
            return PolicyStep(layer, "none", _explain(NO_LIMIT, self.source), self.row)
        return PolicyStep(layer, "deny", _explain(NOT_LISTED, self.source), self.row)


@lru_cache(maxsize=4096)
def _explain(codes: RuleCodes, source: Reason | None, entry: str = "") -> Reason:
    params = {"entry": entry} if entry else {}
    return Reason(codes[1], **params, source=source) if source else Reason(codes[0], **params)
