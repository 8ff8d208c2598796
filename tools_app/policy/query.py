"""The question put to the policy: who asks, for which agent, about which tools. Pure, and stored with every call.

The facts about a tool travel in the question, so that history replays the same after groups or plugins have changed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What a policy may know of a tool: its name, its groups, and the plugin that brought it."""

    name: str
    groups: tuple[str, ...] = ()
    plugin: str = ""
    owner_only: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "groups": list(self.groups), "plugin": self.plugin, "owner_only": self.owner_only}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ToolFacts":
        return cls(data["name"], tuple(data["groups"]), data["plugin"], data["owner_only"])


@dataclass(frozen=True, slots=True)
class PolicyQuery:
    agent: str
    is_owner: bool = False
    is_subagent: bool = False
    tools: tuple[ToolFacts, ...] = ()

    def about(self, tools: Iterable[ToolFacts]) -> "PolicyQuery":
        return replace(self, tools=tuple(tools))

    def to_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "is_owner": self.is_owner,
            "is_subagent": self.is_subagent,
            "tools": [facts.to_json() for facts in self.tools],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "PolicyQuery":
        tools = tuple(ToolFacts.from_json(facts) for facts in data["tools"])
        return cls(data["agent"], data["is_owner"], data["is_subagent"], tools)
