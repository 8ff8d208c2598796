"""The rows of one policy version as plain values. Pure; tools_app.policy_store.policies reads and writes them."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

GLOBAL, AGENT, GROUP, SANDBOX, SUBAGENT = "global", "agent", "group", "sandbox", "subagent"
SCOPES = (GLOBAL, AGENT, GROUP, SANDBOX, SUBAGENT)
SCOPE_FIELDS = ("scope", "subject", "provider", "channel", "group", "sender")  # the fields that say where a row applies
LIST_FIELDS = ("allow", "deny", "also_allow")


@dataclass(frozen=True, slots=True)
class RuleRow:
    """What is said in one place. Rows of one place replace each other; rows of different places must all agree.

    scope     place
    global    `provider`: every provider, or a `provider` or `provider/model`
    agent     `subject` is the agent; `provider` as above
    group     `channel` and `group` (`*`: every group of the channel); `sender`: everybody there, or one of them, or `*`
    sandbox   `subject`: every agent, or the one named
    subagent  one row for all
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
    def place(self) -> tuple[str, ...]:
        return (self.scope, self.subject, self.provider, self.channel, self.group, self.sender)

    @property
    def key(self) -> str:
        """The place in one word, for traces, addresses and files: `agent:main@openai/gpt-5`, `group:telegram/-100#anna`.

        No two places have the same: what would begin the sender is written %23 within the id of a group.
        """
        where = f":{self.subject}" if self.subject else ""
        if self.scope == GROUP:
            group = self.group.replace("%", "%25").replace("#", "%23")
            where = f":{self.channel}/{group}" + (f"#{self.sender}" if self.sender else "")
        return self.scope + where + (f"@{self.provider}" if self.provider else "")

    @property
    def is_empty(self) -> bool:
        return not (self.profile or self.allow or self.deny or self.also_allow)

    def to_json(self) -> dict[str, Any]:
        lists = {name: list(getattr(self, name)) for name in LIST_FIELDS}
        return {**{name: getattr(self, name) for name in SCOPE_FIELDS}, "profile": self.profile, **lists}

    def to_compact_json(self) -> dict[str, Any]:
        """Without what says nothing, for keeping and for files."""
        return {name: value for name, value in self.to_json().items() if value}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "RuleRow":
        """Of any version: what a row did not have when it was stored says nothing."""
        values: dict[str, Any] = {name: data.get(name, "") for name in (*SCOPE_FIELDS, "profile")}
        return cls(**values | {name: tuple(data.get(name, ())) for name in LIST_FIELDS})


@dataclass(frozen=True, slots=True)
class PolicyRules:
    version: int
    rows: tuple[RuleRow, ...] = ()
    _by_scope: dict[tuple[str, ...], RuleRow] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_scope", {row.place: row for row in self.rows})

    def row(self, scope: str, subject: str = "", *, provider: str = "") -> RuleRow:
        """The row of that place; an empty one, which says nothing, where there is none."""
        return self.find(scope, subject, provider=provider) or RuleRow(scope, subject, provider=provider)

    def find(self, scope: str, subject: str = "", *, provider: str = "") -> RuleRow | None:
        """The same, None where there is none: one that is there and says nothing may still take another's place."""
        return self._by_scope.get((scope, subject, provider, "", "", ""))

    def group_row(self, channel: str, group: str, sender: str = "") -> RuleRow | None:
        return self._by_scope.get((GROUP, "", "", channel, group, sender))

    def with_row(self, row: RuleRow) -> "PolicyRules":
        """The same rules with this row in its place: what would be if it were saved."""
        others = tuple(each for each in self.rows if each.place != row.place)
        return replace(self, rows=(*others, row))

    def without(self, place: tuple[str, ...]) -> "PolicyRules":
        return replace(self, rows=tuple(each for each in self.rows if each.place != place))

    def snapshot(self) -> list[dict[str, Any]]:
        return [row.to_compact_json() for row in self.rows]

    @classmethod
    def from_snapshot(cls, version: int, snapshot: Iterable[dict[str, Any]]) -> "PolicyRules":
        return cls(version, tuple(RuleRow.from_json(row) for row in snapshot))
