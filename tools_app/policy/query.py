"""The input of a policy decision: user, chat, agent, model and tools. Pure, and stored with every call.

It includes the facts about each tool, so that a stored query gives the same result after groups or plugins have changed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from sessions_app.origin import NO_SENDER, Sender, TokenLimits


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What policies know about a tool: its name, its groups, and the plugin or MCP server that provides it."""

    name: str
    groups: tuple[str, ...] = ()
    plugin: str = ""
    owner_only: bool = False
    # The entries that match it, most specific first; computed once, because every layer needs them.
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
class PolicyQuery:
    agent: str
    is_owner: bool = False
    is_subagent: bool = False
    tools: tuple[ToolFacts, ...] = ()
    provider: str = ""
    model: str = ""  # without its provider
    channel: str = ""
    group: str = ""  # empty in a direct chat
    sender: Sender = NO_SENDER
    sandboxed: bool = False
    visiting: bool = False  # a webhook run in one of the owner's own sessions, not in a session of the webhook
    plugins: tuple[str, ...] = ()  # IDs of the enabled plugins and the names of their tools
    key: TokenLimits | None = None

    @property
    def model_label(self) -> str:
        """The model as people write it: `openai/gpt-5`, or the provider alone."""
        return "/".join(filter(None, (self.provider, self.model)))

    def about(self, tools: Iterable[ToolFacts]) -> "PolicyQuery":
        return replace(self, tools=tuple(tools))

    def to_json(self) -> dict[str, Any]:
        """Omit empty fields: a query is stored with every call."""
        always = {"agent": self.agent, "is_owner": self.is_owner, "is_subagent": self.is_subagent}
        optional: dict[str, Any] = {name: value for name in QUERY_FIELDS if (value := getattr(self, name))}
        if sender := {name: value for name in SENDER_FIELDS if (value := getattr(self.sender, name))}:
            optional["sender"] = sender
        if self.plugins:
            optional["plugins"] = list(self.plugins)
        if self.key:
            optional["key"] = self.key.to_json()
        return {**always, **optional, "tools": [facts.to_json() for facts in self.tools]}

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
