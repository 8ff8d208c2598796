"""The rules of one policy version as plain values. Pure; tools_app.policy_store.policies reads and writes them."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

GLOBAL, AGENT, GROUP, SANDBOX, SUBAGENT = "global", "agent", "group", "sandbox", "subagent"
SCOPES = (GLOBAL, AGENT, GROUP, SANDBOX, SUBAGENT)
SCOPE_FIELDS = ("scope", "subject", "provider", "channel", "group", "sender")  # where a rule applies
LIST_FIELDS = ("allow", "deny", "also_allow")


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule. There is one rule per scope; a tool must be allowed by the rules of all scopes that apply.

    scope     fields
    global    `provider`: empty for every provider, or `provider` or `provider/model`
    agent     `subject` is the agent; `provider` as above
    group     `channel` and `group` (`*` for every group of the channel); `sender`: empty for everyone, or one sender, or `*`
    sandbox   `subject`: empty for every agent, or one agent
    subagent  none: one rule for all
    """

    scope: str
    subject: str = ""
    profile: str = ""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    also_allow: tuple[str, ...] = ()
    provider: str = ""
    channel: str = ""
    group: str = ""
    sender: str = ""

    @property
    def scope_values(self) -> tuple[str, ...]:
        return (self.scope, self.subject, self.provider, self.channel, self.group, self.sender)

    @property
    def key(self) -> str:
        """The scope as text, for traces, URLs and files: `agent:main@openai/gpt-5`, `group:telegram/-100#anna`.

        Unique per scope: `#`, which starts the sender, is escaped as %23 in a group's ID.
        """
        target = f":{self.subject}" if self.subject else ""
        if self.scope == GROUP:
            group = self.group.replace("%", "%25").replace("#", "%23")
            target = f":{self.channel}/{group}" + (f"#{self.sender}" if self.sender else "")
        return self.scope + target + (f"@{self.provider}" if self.provider else "")

    @property
    def is_empty(self) -> bool:
        return not (self.profile or self.allow or self.deny or self.also_allow)

    def to_json(self) -> dict[str, Any]:
        lists = {name: list(getattr(self, name)) for name in LIST_FIELDS}
        return {**{name: getattr(self, name) for name in SCOPE_FIELDS}, "profile": self.profile, **lists}

    def to_compact_json(self) -> dict[str, Any]:
        """Omit empty fields, for storage and files."""
        return {name: value for name, value in self.to_json().items() if value}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "RuleRow":
        """Read a row of any version: fields that didn't exist when it was stored are empty."""
        values: dict[str, Any] = {name: data.get(name, "") for name in (*SCOPE_FIELDS, "profile")}
        return cls(**values | {name: tuple(data.get(name, ())) for name in LIST_FIELDS})


@dataclass(frozen=True, slots=True)
class PolicyRules:
    version: int
    rows: tuple[RuleRow, ...] = ()
    _by_scope: dict[tuple[str, ...], RuleRow] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_scope", {row.scope_values: row for row in self.rows})

    def row(self, scope: str, subject: str = "", *, provider: str = "") -> RuleRow:
        """Return the rule of that scope, or an empty rule if there is none."""
        return self.find(scope, subject, provider=provider) or RuleRow(scope, subject, provider=provider)

    def find(self, scope: str, subject: str = "", *, provider: str = "") -> RuleRow | None:
        """Return the rule of that scope, or None if there is none. Even an empty rule replaces a more general one."""
        return self._by_scope.get((scope, subject, provider, "", "", ""))

    def group_row(self, channel: str, group: str, sender: str = "") -> RuleRow | None:
        return self._by_scope.get((GROUP, "", "", channel, group, sender))

    def with_row(self, row: RuleRow) -> "PolicyRules":
        """Return these rules as they would be after saving this row."""
        others = tuple(each for each in self.rows if each.scope_values != row.scope_values)
        return replace(self, rows=(*others, row))

    def without(self, scope_values: tuple[str, ...]) -> "PolicyRules":
        return replace(self, rows=tuple(each for each in self.rows if each.scope_values != scope_values))

    def snapshot(self) -> list[dict[str, Any]]:
        return [row.to_compact_json() for row in self.rows]

    @classmethod
    def from_snapshot(cls, version: int, snapshot: Iterable[dict[str, Any]]) -> "PolicyRules":
        return cls(version, tuple(RuleRow.from_json(row) for row in snapshot))
