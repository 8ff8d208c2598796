"""The query of the explanation page: agent, user, channel, model. It is stored in the URL, so it can be shared."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from agents.prepare.effective_tools import with_agent_model
from sessions_app.origin import Sender
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import AGENT, GLOBAL, GROUP, SANDBOX, SUBAGENT, RuleRow
from tools_app.policy_store.vocabulary import with_all_tools

MAX_LENGTH = 200  # characters in a field, as in rules
DEFAULT_AGENT = "main"
OWNER, OTHER = "owner", "other"
SHOW_VALUES = ("", "refused", "kept", "missing", "changed")

# URL parameters for a rule's scope, because `agent`, `channel` and `group` already belong to the query.
SCOPE_FIELDS = {
    "scope": "scope",
    "subject": "for_agent",
    "provider": "for_model",
    "channel": "for_channel",
    "group": "for_group",
    "sender": "for_sender",
}


def clean_text(value: Any) -> str:
    """Clean user input: strip it, limit its length, and remove NUL characters, which databases reject."""
    return str(value).replace("\0", "").strip()[:MAX_LENGTH]


@dataclass(frozen=True, slots=True)
class ExplainQuery:
    agent: str = DEFAULT_AGENT
    model: str = ""
    who: str = OWNER
    channel: str = ""
    group: str = ""
    sender: str = ""  # any name, looked up as an ID; the other names come from recorded calls
    sender_e164: str = ""
    sender_username: str = ""
    sender_name: str = ""
    sandboxed: bool = False
    subagent: bool = False
    # Filters for the table's rows.
    tool: str = ""
    of: str = ""
    show: str = ""

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> "ExplainQuery":
        """Parse a URL or form. Invalid values are ignored: a query never causes an error."""
        texts = {name: clean_text(params.get(name, "")) for name in TEXT_FIELDS}
        return cls(
            **texts | {"agent": texts["agent"].lower() or DEFAULT_AGENT},
            who=OTHER if params.get("who") == OTHER else OWNER,
            sandboxed=bool(params.get("sandboxed")),
            subagent=bool(params.get("subagent")),
            show=show if (show := params.get("show", "")) in SHOW_VALUES else "",
        )

    @classmethod
    def from_query(cls, query: PolicyQuery, tool: str = "") -> "ExplainQuery":
        """Build the query of a recorded call."""
        return cls(
            agent=query.agent,
            model=query.model_label,
            who=OWNER if query.is_owner else OTHER,
            channel=query.channel,
            group=query.group,
            sender=query.sender.id,
            sender_e164=query.sender.e164,
            sender_username=query.sender.username,
            sender_name=query.sender.name,
            sandboxed=query.sandboxed,
            subagent=query.is_subagent,
            tool=tool,
        )

    @property
    def has_more_names(self) -> bool:
        return bool(self.sender_e164 or self.sender_username or self.sender_name)

    def params(self) -> dict[str, str]:
        """Return the values that differ from the defaults."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        defaults = {field.name: field.default for field in fields(self)}
        return {name: "1" if value is True else value for name, value in values.items() if value != defaults[name]}

    def query(self) -> PolicyQuery:
        """Build a policy query about every tool. Without a model, use the agent's, as a run does."""
        provider, _slash, model = self.model.lower().partition("/")
        query = PolicyQuery(
            self.agent,
            is_owner=self.who == OWNER,
            is_subagent=self.subagent,
            provider=provider,
            model=model,
            channel=self.channel.lower(),
            group=self.group,
            sender=Sender(self.sender, self.sender_e164, self.sender_username, self.sender_name),
            sandboxed=self.sandboxed,
        )
        return with_all_tools(with_agent_model(query))

    def address(self, more: Mapping[str, Any] | None = None, anchor: str = "") -> str:
        params = urlencode({**self.params(), **(more or {})})
        return reverse("policies") + (f"?{params}" if params else "") + (f"#{anchor}" if anchor else "")

    def edit_address(self, scope_row: RuleRow) -> str:
        """Return the URL of this query with the rule of that scope opened as a draft."""
        params = {field: value for name, field in SCOPE_FIELDS.items() if (value := getattr(scope_row, name))}
        return self.address(params, "draft")

    def scope_for_layer(self, layer: str, model: str) -> RuleRow | None:
        """Return the scope where a rule of this layer would apply to the query with that model; None if there is none."""
        model = model.lower()
        match layer:
            case "profile" | "agent":
                return RuleRow(AGENT, self.agent)
            case "global":
                return RuleRow(GLOBAL)
            case "provider_profile" | "agent_provider":
                return RuleRow(AGENT, self.agent, provider=model) if model else None
            case "global_provider":
                return RuleRow(GLOBAL, provider=model) if model else None
            case "group":
                return RuleRow(GROUP, channel=self.channel.lower(), group=self.group) if self.group else None
            case "sandbox":
                return RuleRow(SANDBOX) if self.sandboxed else None
            case "subagent":
                return RuleRow(SUBAGENT) if self.subagent else None
        return None


TEXT_FIELDS = (
    *("agent", "model", "channel", "group"),
    *("sender", "sender_e164", "sender_username", "sender_name"),
    *("tool", "of"),
)
