"""The question of the explanation page: who asks, where, with which model. It lives in the address, so it can be sent to others."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from agents.prepare.effective_tools import with_agent_model
from tools_app.policy.query import PolicyQuery, Sender
from tools_app.policy.rules import AGENT, GLOBAL, GROUP, SANDBOX, SUBAGENT, RuleRow
from tools_app.policy_store.vocabulary import with_all_tools

MAX_LENGTH = 200  # characters of a field, as in the rows
DEFAULT_AGENT = "main"
OWNER, OTHER = "owner", "other"
SHOW_VALUES = ("", "refused", "kept", "missing", "changed")

# How the fields of a rule's place are named in an address that has the question's own `agent`, `channel`, `group` already.
SCOPE_FIELDS = {
    "scope": "scope",
    "subject": "for_agent",
    "provider": "for_model",
    "channel": "for_channel",
    "group": "for_group",
    "sender": "for_sender",
}


def clean_text(value: Any) -> str:
    """What somebody typed or an address brought: one line, not endless, without what a database does not take."""
    return str(value).replace("\0", "").strip()[:MAX_LENGTH]


@dataclass(frozen=True, slots=True)
class ExplainQuery:
    agent: str = DEFAULT_AGENT
    model: str = ""
    who: str = OWNER
    channel: str = ""
    group: str = ""
    sender: str = ""  # any name, looked up as an id; the further names are those of a recorded call
    sender_e164: str = ""
    sender_username: str = ""
    sender_name: str = ""
    sandboxed: bool = False
    subagent: bool = False
    # Which rows of the answer are shown.
    tool: str = ""
    of: str = ""
    show: str = ""

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> "ExplainQuery":
        """From an address or a form. What makes no sense is left out: a question is never an error."""
        words = {name: clean_text(params.get(name, "")) for name in TEXT_FIELDS}
        return cls(
            **words | {"agent": words["agent"].lower() or DEFAULT_AGENT},
            who=OTHER if params.get("who") == OTHER else OWNER,
            sandboxed=bool(params.get("sandboxed")),
            subagent=bool(params.get("subagent")),
            show=show if (show := params.get("show", "")) in SHOW_VALUES else "",
        )

    @classmethod
    def from_query(cls, query: PolicyQuery, tool: str = "") -> "ExplainQuery":
        """The question of a recorded call."""
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
        """Whatever is not as it is anyway."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {field.name: field.default for field in fields(self)}
        return {name: "1" if value is True else value for name, value in told.items() if value != plain[name]}

    def query(self) -> PolicyQuery:
        """About every tool. Where no model is named it is the agent's own, as in a run."""
        provider, _slash, model = self.model.lower().partition("/")
        asked = PolicyQuery(
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
        return with_all_tools(with_agent_model(asked))

    def address(self, more: Mapping[str, Any] | None = None, anchor: str = "") -> str:
        given = urlencode({**self.params(), **(more or {})})
        return reverse("policies") + (f"?{given}" if given else "") + (f"#{anchor}" if anchor else "")

    def edit_address(self, place: RuleRow) -> str:
        """The same question with the rule of that place opened as a draft."""
        said = {field: value for name, field in SCOPE_FIELDS.items() if (value := getattr(place, name))}
        return self.address(said, "draft")

    def scope_for_layer(self, layer: str, model: str) -> RuleRow | None:
        """Where a rule would stand that speaks in this layer to this question, asked with that model; None where no rule can."""
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
