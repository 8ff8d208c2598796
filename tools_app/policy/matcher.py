"""One allow list and one deny list against one tool: deny first, then an empty allow list does not limit. Pure."""

from dataclasses import dataclass
from typing import Literal

from tools_app.policy.catalog import ALIASES
from tools_app.policy.query import ToolFacts

Effect = Literal["allow", "deny", "none"]
GROUP_PREFIX = "group:"


def normalise(entry: str) -> str:
    """Entries and names are compared in lower case, without blanks around them, under their real name."""
    entry = entry.strip().lower()
    return ALIASES.get(entry, entry)


def matches(entry: str, tool: ToolFacts) -> bool:
    """`*`, `prefix_*`, `group:x`, a tool's name or a plugin's id. Anything else matches nothing."""
    entry = normalise(entry)
    if not entry:
        return False
    if entry.endswith("*"):
        return tool.name.lower().startswith(entry[:-1])
    if entry.startswith(GROUP_PREFIX):
        return entry.removeprefix(GROUP_PREFIX) in tool.groups
    return entry in (tool.name.lower(), tool.plugin.lower())


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a layer thinks; `source` is said before the rule, such as the profile the lists come from."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    source: str = ""

    def judge(self, tool: ToolFacts) -> tuple[Effect, str]:
        """The effect on a tool and the rule behind it. `none`: nothing here speaks for or against the tool."""
        effect, rule = self._judge(tool)
        return effect, f"{self.source}: {rule}" if self.source else rule

    def _judge(self, tool: ToolFacts) -> tuple[Effect, str]:
        for entry in self.deny:
            if matches(entry, tool):
                return "deny", f"deny entry `{entry}`"
        if not self.allow:
            return "none", "no limit"
        for entry in self.allow:
            if matches(entry, tool):
                return "allow", f"allow entry `{entry}`"
        return "deny", "no allow entry matches"
