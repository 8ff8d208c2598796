"""One allow list and one deny list against one tool: deny first, then an empty allow list does not limit. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tools_app.policy.catalog import ALIASES, GROUPS, NATIVE_NAMES, PLUGINS_GROUP
from tools_app.policy.query import ToolFacts

Effect = Literal["allow", "deny", "none"]
EntryKind = Literal["core", "plugin", "unknown"]
LayerMatch = tuple[Effect, str, str]  # effect, rule, key of the row
GROUP_PREFIX = "group:"


def normalize_entry(entry: str) -> str:
    """Entries and names are compared in lower case, without blanks around them, under their real name."""
    entry = entry.strip().lower()
    return ALIASES.get(entry, entry)


@dataclass(frozen=True, slots=True)
class EntryMatcher:
    """A list made ready for many questions. Which entry is named does not depend on the order of the list."""

    exact: dict[str, str]  # normalised: as written
    patterns: tuple[tuple[str, str], ...]  # (beginning, as written), the longest first

    def find(self, tool: ToolFacts) -> str | None:
        """The entry that speaks of the tool, the most precise one: its name, its plugin, a group, a pattern."""
        exact = self.exact
        for key in tool.keys:
            if key in exact:
                return exact[key]
        for beginning, entry in self.patterns:
            if tool.keys[0].startswith(beginning):
                return entry
        return None


@lru_cache(maxsize=4096)
def compile_entries(entries: tuple[str, ...]) -> EntryMatcher:
    """`*`, `prefix_*`, `group:x`, a tool's name or a plugin's id. Anything else, a blank entry too, matches nothing."""
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
    """What an entry is about. A pattern that fits a native tool is a core entry, whatever else it fits.

    `plugins` holds the ids of the enabled plugins and the names of their tools, in lower case.
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
    """Whether every entry names an enabled plugin or its tools. One typo among them, and the answer is no."""
    known = frozenset(name.lower() for name in plugins)
    return bool(entries) and all(classify_entry(entry, known) == "plugin" for entry in entries)


@dataclass(frozen=True, slots=True)
class LayerPolicy:
    """What a layer thinks. `source` is said before the rule, such as the profile the lists come from.

    `row` and `also_row` are the keys of the rows behind the lists and behind what was also allowed; no row is behind `always_deny`.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    source: str = ""
    row: str = ""
    also_row: str = ""
    ignored: bool = False  # there is an allow list, but it names only plugins
    always_deny: tuple[str, ...] = ()

    def judge(self, tools: Iterable[ToolFacts]) -> Iterator[LayerMatch]:
        """For each tool the effect, the rule behind it, the row it stands in. `none`: nothing here is for or against it."""
        # Lists made ready once for all tools, empty ones left out, names ready in ToolFacts.keys: 60 tools in nine layers
        # take 0.5 ms instead of 1.8.
        lists = [(compile_entries(entries).find, effect, words, row) for entries, effect, words, row in self._lists() if entries]
        before = f"{self.source}: " if self.source else ""
        unnamed = self._match_unnamed(before)
        for tool in tools:
            for find, effect, words, row in lists:
                if (entry := find(tool)) is not None:
                    yield effect, f"{before}{words} `{entry}`", row
                    break
            else:
                yield unnamed

    def _lists(self) -> Iterator[tuple[tuple[str, ...], Effect, str, str]]:
        """In the order in which they are asked: entries, effect of one that fits, its name, its row."""
        yield self.always_deny, "deny", "deny entry", ""
        yield self.deny, "deny", "deny entry", self.row
        if self.allow and not self.ignored:
            yield self.allow, "allow", "allow entry", self.row
            yield self.also, "allow", "also allow entry", self.also_row

    def _match_unnamed(self, before: str) -> LayerMatch:
        """Of a tool that no list names."""
        if self.ignored:
            return "none", f"{before}allow list ignored, as it names only plugins", self.row
        if not self.allow:
            return "none", f"{before}no limit", self.row
        return "deny", f"{before}no allow entry matches", self.row
