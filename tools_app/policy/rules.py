"""The rows an operator has written, as plain values of one policy version. Pure; tools_app.policies reads and writes them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RuleRow:
    """What one scope says. `subject` is the agent's slug, or empty for the global row."""

    scope: str
    subject: str = ""
    profile: str = ""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    also_allow: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "scope": self.scope,
            "subject": self.subject,
            "profile": self.profile,
            "allow": list(self.allow),
            "deny": list(self.deny),
            "also_allow": list(self.also_allow),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "RuleRow":
        lists = (tuple(data[name]) for name in ("allow", "deny", "also_allow"))
        return cls(data["scope"], data["subject"], data["profile"], *lists)


@dataclass(frozen=True, slots=True)
class PolicyRules:
    version: int
    rows: tuple[RuleRow, ...] = ()

    def row(self, scope: str, subject: str = "") -> RuleRow:
        """The row of that scope and subject; an empty one, which says nothing, where there is none."""
        for row in self.rows:
            if row.scope == scope and row.subject == subject:
                return row
        return RuleRow(scope, subject)

    def snapshot(self) -> list[dict[str, Any]]:
        return [row.to_json() for row in self.rows]

    @classmethod
    def from_snapshot(cls, version: int, snapshot: Iterable[dict[str, Any]]) -> "PolicyRules":
        return cls(version, tuple(RuleRow.from_json(row) for row in snapshot))
