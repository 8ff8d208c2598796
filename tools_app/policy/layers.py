"""The nine policy layers in order, and the limits of an access token.

Each layer turns the query and the rules into a LayerPolicy, or None if it doesn't apply. Pure.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from clawsite.infra.reasons import Reason, register_reasons
from clawsite.infra.reasons import gettext_noop as _
from sessions_app.origin import Sender
from tools_app.policy.catalog import (
    DEFAULT_PROFILE,
    PROFILES,
    SANDBOX_ALLOW,
    SANDBOX_ALWAYS,
    SANDBOX_DENY,
    SUBAGENT_DENY,
    VISITING_WEBHOOK_DENY,
    WEBHOOK_CHANNEL,
    WEBHOOK_DENY,
)
from tools_app.policy.matcher import LayerPolicy, has_only_plugins
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import AGENT, GLOBAL, SANDBOX, SUBAGENT, PolicyRules, RuleRow

ANY = "*"
EMPTY_ROW = RuleRow("")

# Sources of lists; they complete a rule, as in "not in the `coding` profile".
register_reasons(
    {
        "policy.profile": _("the `{name}` profile"),
        "policy.default_profile": _("the default profile `{name}`"),
        "policy.unknown_profile": _("unknown profile `{name}`"),
        "policy.sandbox_list": _("the sandbox list"),
        "policy.subagent_list": _("the subagent list"),
        "policy.webhook_list": _("the webhook list"),
        "policy.access_token": _("the list of access token `{name}`"),
    }
)


@dataclass(frozen=True, slots=True)
class Layer:
    name: str
    resolve: Callable[[PolicyQuery, PolicyRules], LayerPolicy | None]


def profile_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy:
    """The agent's tool profile, else the global one, else minimal, plus the agent's "also allow" list or else the global one."""
    agent, everyone = rules.row(AGENT, query.agent), rules.row(GLOBAL)
    if policy := _combine_profiles(agent, everyone):
        return policy
    also = agent if agent.also_allow else everyone
    return LayerPolicy(
        allow=PROFILES[DEFAULT_PROFILE],
        also=also.also_allow,
        source=Reason("policy.default_profile", name=DEFAULT_PROFILE),
        also_row=also.key,
    )


def provider_profile_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    """The tool profile for the model: the agent's for this provider or model, else the global one."""
    specific, general = _find_provider_row(AGENT, query.agent, query, rules), _find_provider_row(GLOBAL, "", query, rules)
    return _combine_profiles(specific or EMPTY_ROW, general or EMPTY_ROW) or _unlimited_policy(specific or general)


def global_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    return _row_policy(rules.find(GLOBAL), query)


def global_provider_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    return _row_policy(_find_provider_row(GLOBAL, "", query, rules), query)


def agent_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    return _row_policy(rules.find(AGENT, query.agent), query)


def agent_provider_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    return _row_policy(_find_provider_row(AGENT, query.agent, query, rules), query)


def group_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    """In a group chat, the first existing rule: for the sender in this group, this group, the sender in any group, or any group.

    Only that rule applies. Direct chats skip this layer. A webhook is a group in the channel `hook`, named by its path; a fixed
    deny list applies to it unless its rule has an allowlist.
    """
    if not query.group:
        return None
    for group in dict.fromkeys((query.group, ANY)):
        for sender in (*sender_keys(query.sender), ANY, ""):
            if row := rules.group_row(query.channel.lower(), group, sender):
                return _restrict_webhook(_row_policy(row, query), query)
    return _restrict_webhook(None, query)


def sandbox_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    """In an isolated workspace: the agent's rule, else the rule for all agents, else fixed lists.

    `image` is added to any allowlist, because it only reads files inside the workspace.
    """
    if not query.sandboxed:
        return None
    for row in (rules.row(SANDBOX, query.agent), rules.row(SANDBOX)):
        if row.allow or row.deny:
            return LayerPolicy(allow=row.allow, deny=row.deny, also=SANDBOX_ALWAYS, row=row.key)
    return LayerPolicy(allow=SANDBOX_ALLOW, deny=SANDBOX_DENY, source=Reason("policy.sandbox_list"))


def subagent_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    """Subagents leave coordination to their parent. A rule can restrict them further but can't lift these limits."""
    if not query.is_subagent:
        return None
    row = rules.row(SUBAGENT)
    return LayerPolicy(
        allow=row.allow,
        deny=row.deny,
        always_deny=SUBAGENT_DENY,
        source=Reason("policy.subagent_list"),
        row="" if row.is_empty else row.key,
    )


def _restrict_webhook(policy: LayerPolicy | None, query: PolicyQuery) -> LayerPolicy | None:
    """Apply the webhook deny list even if a rule only denies, or only allows plugins: such a rule isn't meant to lift it."""
    if query.channel.lower() != WEBHOOK_CHANNEL or (policy and policy.allow):
        return policy
    always_deny = VISITING_WEBHOOK_DENY if query.visiting else WEBHOOK_DENY
    return replace(policy or LayerPolicy(), always_deny=always_deny, source=Reason("policy.webhook_list"))


def token_policy(query: PolicyQuery) -> LayerPolicy | None:
    """The limits of the access token. Applied literally, even if the list names only plugins or no existing tool."""
    if query.key is None:
        return None
    return LayerPolicy(allow=query.key.allow, deny=query.key.deny, source=Reason("policy.access_token", name=query.key.name))


def sender_keys(sender: Sender) -> Iterator[str]:
    """Yield the keys to look up a sender by, in order: ID, phone number, username, name."""
    for name in (sender.id, sender.e164, sender.username, sender.name):
        if key := sender_key(name):
            yield key


def sender_key(name: str) -> str:
    return name.strip().removeprefix("@").lower()


def _find_provider_row(scope: str, subject: str, query: PolicyQuery, rules: PolicyRules) -> RuleRow | None:
    """Return the rule for exactly this model, else the one for its provider. Only the first that exists applies, even if empty."""
    provider, model = query.provider.lower(), query.model.lower()
    if not provider:
        return None
    return rules.find(scope, subject, provider=f"{provider}/{model}") or rules.find(scope, subject, provider=provider)


def _combine_profiles(specific: RuleRow, general: RuleRow) -> LayerPolicy | None:
    """Return the specific rule's tool profile and "also allow" list; each falls back to the general rule's on its own."""
    row = specific if specific.profile else general
    if not row.profile:
        return None
    if row.profile not in PROFILES:
        return LayerPolicy(deny=(ANY,), source=Reason("policy.unknown_profile", name=row.profile), row=row.key)
    also = specific if specific.also_allow else general
    # With an unlimited profile, "also allow" must not become a limit: it is meant to add tools.
    source = Reason("policy.profile", name=row.profile)
    return LayerPolicy(PROFILES[row.profile], also=also.also_allow, source=source, row=row.key, also_row=also.key)


def _unlimited_policy(row: RuleRow | None) -> LayerPolicy | None:
    """Name a rule in the trace even if it denies nothing: it may replace one that would."""
    return LayerPolicy(row=row.key) if row else None


def _row_policy(row: RuleRow | None, query: PolicyQuery) -> LayerPolicy | None:
    if row is None or not (row.allow or row.deny):
        return _unlimited_policy(row)
    if has_only_plugins(row.allow, query.plugins):
        # Meant to add a plugin; applied literally, it would remove every other tool.
        return LayerPolicy(deny=row.deny, row=row.key, ignored=True)
    return LayerPolicy(allow=row.allow, deny=row.deny, row=row.key)


LAYERS = (
    Layer("profile", profile_policy),
    Layer("provider_profile", provider_profile_policy),
    Layer("global", global_policy),
    Layer("global_provider", global_provider_policy),
    Layer("agent", agent_policy),
    Layer("agent_provider", agent_provider_policy),
    Layer("group", group_policy),
    Layer("sandbox", sandbox_policy),
    Layer("subagent", subagent_policy),
)
