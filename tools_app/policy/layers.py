"""The nine layers in their order, and the limits of an access token.

Each turns the question and the rows into an opinion, or None for "no opinion". Pure.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

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
from tools_app.policy.query import PolicyQuery, Sender
from tools_app.policy.rules import AGENT, GLOBAL, SANDBOX, SUBAGENT, PolicyRules, RuleRow

ANY = "*"
EMPTY_ROW = RuleRow("")


@dataclass(frozen=True, slots=True)
class Layer:
    name: str
    resolve: Callable[[PolicyQuery, PolicyRules], LayerPolicy | None]


def profile_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy:
    """The agent's profile, else the global one, else minimal; also-allow adds to it, the agent's replacing the global one."""
    agent, everyone = rules.row(AGENT, query.agent), rules.row(GLOBAL)
    if opinion := _combine_profiles(agent, everyone):
        return opinion
    also = agent if agent.also_allow else everyone
    return LayerPolicy(
        allow=PROFILES[DEFAULT_PROFILE],
        also=also.also_allow,
        source=f"default profile `{DEFAULT_PROFILE}`",
        also_row=also.key,
    )


def provider_profile_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    """The profile that comes with the model: the agent's for this provider, else the global one for it."""
    own, general = _find_provider_row(AGENT, query.agent, query, rules), _find_provider_row(GLOBAL, "", query, rules)
    return _combine_profiles(own or EMPTY_ROW, general or EMPTY_ROW) or _unlimited_policy(own or general)


def global_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    return _row_policy(rules.find(GLOBAL), query)


def global_provider_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    return _row_policy(_find_provider_row(GLOBAL, "", query, rules), query)


def agent_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    return _row_policy(rules.find(AGENT, query.agent), query)


def agent_provider_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    return _row_policy(_find_provider_row(AGENT, query.agent, query, rules), query)


def group_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    """In a group chat, the first row found: the sender's in this group, the group's, the sender's in all, that of all.

    It replaces what comes behind it. A direct chat has no such layer. A webhook counts as a group of the channel `hook`, by its
    path; to it a fixed list of denials applies, unless its row says itself what is allowed.
    """
    if not query.group:
        return None
    for group in dict.fromkeys((query.group, ANY)):
        for sender in (*sender_keys(query.sender), ANY, ""):
            if row := rules.group_row(query.channel.lower(), group, sender):
                return _restrict_webhook(_row_policy(row, query), query)
    return _restrict_webhook(None, query)


def sandbox_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    """Inside a sandbox: the agent's row, else the one for all, else a fixed list. `image` reads what is inside already."""
    if not query.sandboxed:
        return None
    for row in (rules.row(SANDBOX, query.agent), rules.row(SANDBOX)):
        if row.allow or row.deny:
            return LayerPolicy(allow=row.allow, deny=row.deny, also=SANDBOX_ALWAYS, row=row.key)
    return LayerPolicy(allow=SANDBOX_ALLOW, deny=SANDBOX_DENY, source="sandbox list")


def subagent_policy(query: PolicyQuery, rules: PolicyRules) -> LayerPolicy | None:
    """A subagent leaves coordination to the agent that started it. A row may narrow this further, never widen it."""
    if not query.is_subagent:
        return None
    row = rules.row(SUBAGENT)
    return LayerPolicy(
        allow=row.allow, deny=row.deny, always_deny=SUBAGENT_DENY, source="subagent list", row="" if row.is_empty else row.key
    )


def _restrict_webhook(opinion: LayerPolicy | None, query: PolicyQuery) -> LayerPolicy | None:
    """A row that only denies, or that allows nothing but plugins, was not meant to open what is closed without it."""
    if query.channel.lower() != WEBHOOK_CHANNEL or (opinion and opinion.allow):
        return opinion
    own = opinion or LayerPolicy(source="webhook list")
    return replace(own, always_deny=VISITING_WEBHOOK_DENY if query.visiting else WEBHOOK_DENY, source="webhook list")


def token_policy(query: PolicyQuery) -> LayerPolicy | None:
    """What the access token allows. Taken at its word: a list that names only plugins, or nothing there is, leaves only that."""
    return LayerPolicy(allow=query.key.allow, deny=query.key.deny, source=f"key `{query.key.name}`") if query.key else None


def sender_keys(sender: Sender) -> Iterator[str]:
    """The names under which a sender is looked up, in order: id, telephone number, user name, name."""
    for name in (sender.id, sender.e164, sender.username, sender.name):
        if key := sender_key(name):
            yield key


def sender_key(name: str) -> str:
    return name.strip().removeprefix("@").lower()


def _find_provider_row(scope: str, subject: str, query: PolicyQuery, rules: PolicyRules) -> RuleRow | None:
    """The row for exactly this model, else the one for its provider. The first found is the only one asked, whatever it says."""
    provider, model = query.provider.lower(), query.model.lower()
    if not provider:
        return None
    return rules.find(scope, subject, provider=f"{provider}/{model}") or rules.find(scope, subject, provider=provider)


def _combine_profiles(own: RuleRow, general: RuleRow) -> LayerPolicy | None:
    """The first profile set, with what is also allowed; the own one's replaces the general one's, each by itself."""
    row = own if own.profile else general
    if not row.profile:
        return None
    if row.profile not in PROFILES:
        return LayerPolicy(deny=(ANY,), source=f"unknown profile `{row.profile}`", row=row.key)
    also = own if own.also_allow else general
    # A profile without limits stays so: what is also allowed was meant to add.
    return LayerPolicy(
        PROFILES[row.profile], also=also.also_allow, source=f"profile `{row.profile}`", row=row.key, also_row=also.key
    )


def _unlimited_policy(row: RuleRow | None) -> LayerPolicy | None:
    """A row that is asked and refuses nothing is named all the same: it may stand in the place of one that would."""
    return LayerPolicy(row=row.key) if row else None


def _row_policy(row: RuleRow | None, query: PolicyQuery) -> LayerPolicy | None:
    if row is None or not (row.allow or row.deny):
        return _unlimited_policy(row)
    if has_only_plugins(row.allow, query.plugins):
        # Meant to add a plugin; taken at its word it would take every other tool away.
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
