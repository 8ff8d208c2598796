"""The question put to the policy: who asks, where, for which agent and model, about which tools. Pure, and stored with every call.

The facts about a tool travel in the question, so that history replays the same after groups or plugins have changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What a policy may know of a tool: its name, its groups, and the plugin that brought it."""

    name: str
    groups: tuple[str, ...] = ()
    plugin: str = ""
    owner_only: bool = False
    # What an entry can call it, the most precise first; made once, because every layer looks for them.
    keys: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        plugin = (self.plugin.lower(),) if self.plugin else ()
        object.__setattr__(self, "keys", (self.name.lower(), *plugin, *(f"group:{group}" for group in self.groups)))

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "groups": list(self.groups), "plugin": self.plugin, "owner_only": self.owner_only}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ToolFacts":
        return cls(data["name"], tuple(data["groups"]), data["plugin"], data["owner_only"])


@dataclass(frozen=True, slots=True)
class Sender:
    """Somebody in a group chat, by the names a channel knows them by, in the order in which rules are looked up."""

    id: str = ""
    e164: str = ""
    username: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """What the access token behind a run allows of the tools; `name` is its public part."""

    name: str
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "allow": list(self.allow), "deny": list(self.deny)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TokenLimits":
        return cls(data["name"], tuple(data["allow"]), tuple(data["deny"]))


@dataclass(frozen=True, slots=True)
class PolicyQuery:
    agent: str
    is_owner: bool = False
    is_subagent: bool = False
    tools: tuple[ToolFacts, ...] = ()
    provider: str = ""
    model: str = ""  # without its provider
    channel: str = ""
    group: str = ""  # empty in a direct chat
    sender: Sender = Sender()
    sandboxed: bool = False
    visiting: bool = False  # a webhook's run in a conversation of its owner's, not in one with that webhook
    plugins: tuple[str, ...] = ()  # ids of the enabled plugins and the names of their tools
    key: TokenLimits | None = None

    @property
    def model_label(self) -> str:
        """As people write it: `openai/gpt-5`, or the provider alone."""
        return "/".join(filter(None, (self.provider, self.model)))

    def about(self, tools: Iterable[ToolFacts]) -> "PolicyQuery":
        return replace(self, tools=tuple(tools))

    def to_json(self) -> dict[str, Any]:
        """Whatever says nothing is left out: a question is stored with every call."""
        plain = {"agent": self.agent, "is_owner": self.is_owner, "is_subagent": self.is_subagent}
        told: dict[str, Any] = {name: value for name in QUERY_FIELDS if (value := getattr(self, name))}
        if sender := {name: value for name in SENDER_FIELDS if (value := getattr(self.sender, name))}:
            told["sender"] = sender
        if self.plugins:
            told["plugins"] = list(self.plugins)
        if self.key:
            told["key"] = self.key.to_json()
        return {**plain, **told, "tools": [facts.to_json() for facts in self.tools]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "PolicyQuery":
        return cls(
            data["agent"],
            data["is_owner"],
            data["is_subagent"],
            tuple(ToolFacts.from_json(facts) for facts in data["tools"]),
            sender=Sender(**data.get("sender", {})),
            plugins=tuple(data.get("plugins", ())),
            key=TokenLimits.from_json(data["key"]) if "key" in data else None,
            **{name: data[name] for name in QUERY_FIELDS if name in data},
        )


QUERY_FIELDS = ("provider", "model", "channel", "group", "sandboxed", "visiting")
SENDER_FIELDS = tuple(each.name for each in fields(Sender))
