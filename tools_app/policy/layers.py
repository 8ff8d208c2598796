"""The nine layers in their order. Each turns the question and the rows into an opinion, or None for "no opinion". Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from tools_app.policy.catalog import DEFAULT_PROFILE, PROFILES, SUBAGENT_DENY
from tools_app.policy.matcher import Opinion
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules, RuleRow


@dataclass(frozen=True, slots=True)
class Layer:
    name: str
    resolve: Callable[[PolicyQuery, PolicyRules], Opinion | None]


def profile_policy(query: PolicyQuery, rules: PolicyRules) -> Opinion:
    """The agent's profile, else the global one, else minimal; also-allow adds to it, the agent's replacing the global one."""
    agent, everyone = rules.row("agent", query.agent), rules.row("global")
    name = agent.profile or everyone.profile or DEFAULT_PROFILE
    if name not in PROFILES:
        return Opinion(deny=("*",), source=f"unknown profile `{name}`")
    allow = PROFILES[name]
    if allow:  # a profile without limits must not get one from an entry that was meant to add
        allow += agent.also_allow or everyone.also_allow
    return Opinion(allow=allow, source=f"profile `{name}`")


def global_policy(query: PolicyQuery, rules: PolicyRules) -> Opinion | None:
    return _lists_of(rules.row("global"))


def agent_policy(query: PolicyQuery, rules: PolicyRules) -> Opinion | None:
    return _lists_of(rules.row("agent", query.agent))


def subagent_policy(query: PolicyQuery, rules: PolicyRules) -> Opinion | None:
    """A subagent leaves coordination to the agent that started it."""
    return Opinion(deny=SUBAGENT_DENY, source="subagent list") if query.is_subagent else None


def no_rows(query: PolicyQuery, rules: PolicyRules) -> None:
    """A layer for which no rows can be written yet. It is asked all the same, so that every trace has nine steps."""


def _lists_of(row: RuleRow) -> Opinion | None:
    return Opinion(allow=row.allow, deny=row.deny) if row.allow or row.deny else None


LAYERS = (
    Layer("profile", profile_policy),
    Layer("provider_profile", no_rows),
    Layer("global", global_policy),
    Layer("global_provider", no_rows),
    Layer("agent", agent_policy),
    Layer("agent_provider", no_rows),
    Layer("group", no_rows),
    Layer("sandbox", no_rows),
    Layer("subagent", subagent_policy),
)
