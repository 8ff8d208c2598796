"""Policy tests: what an operator expects to stay true, such as "support-bot never gets exec". Checked with `evaluate`. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from clawsite.infra.reasons import Reason, register_reasons
from clawsite.infra.reasons import gettext_noop as _
from sessions_app.origin import Sender
from tools_app.policy.evaluation import evaluate
from tools_app.policy.layers import ANY, group_policy
from tools_app.policy.matcher import compile_entries
from tools_app.policy.query import PolicyQuery, ToolFacts
from tools_app.policy.rules import GROUP, PolicyRules, RuleRow

ANY_OTHER_AGENT = "any-other-agent"  # stands for all agents that no rule names
ANY_OTHER_GROUP = "any-other-group"

register_reasons({"policy.no_such_tool": _("not a known tool")})


@dataclass(frozen=True, slots=True)
class Expectation:
    """`never`: the tool is denied for every agent, model, group and sender that the test leaves open; `allowed`: allowed for each.

    `provider` without a model leaves the model open, and group `*` leaves the group open. A test without a group is about direct
    chats, which group rules don't limit: a tool that is never allowed there is never allowed anywhere. `sender` is assumed to be
    the only name the channel knows the sender by.
    """

    name: str
    expected: str  # never or allowed
    tool: str
    agent: str = ""
    provider: str = ""
    channel: str = ""
    group: str = ""
    sender: str = ""
    sandboxed: bool = False
    subagent: bool = False

    TEXT_FIELDS: ClassVar = ("name", "expected", "tool", "agent", "provider", "channel", "group", "sender")
    FLAG_FIELDS: ClassVar = ("sandboxed", "subagent")

    def to_compact_json(self) -> dict[str, Any]:
        """Omit empty fields, for storage and files."""
        return {name: value for name in (*self.TEXT_FIELDS, *self.FLAG_FIELDS) if (value := getattr(self, name))}


@dataclass(frozen=True, slots=True)
class BrokenExpectation:
    """A failing policy test, with the first case in which it fails."""

    expectation: Expectation
    tool: str
    agent: str
    provider: str
    why: Reason
    where: str = ""  # the group chat and its sender, if any


def find_broken(
    expectations: Iterable[Expectation], rules: PolicyRules, tools: Iterable[ToolFacts], plugins: tuple[str, ...]
) -> list[BrokenExpectation]:
    known = tuple(tools)
    failures = (_find_first_failure(each, rules, known, plugins) for each in expectations)
    return [failure for failure in failures if failure]


def _find_first_failure(
    expectation: Expectation, rules: PolicyRules, known: tuple[ToolFacts, ...], plugins: tuple[str, ...]
) -> BrokenExpectation | None:
    entries = compile_entries((expectation.tool,))
    named = [facts for facts in known if entries.find(facts) is not None]
    if not named:
        agent = expectation.agent or ANY_OTHER_AGENT
        return BrokenExpectation(expectation, expectation.tool, agent, expectation.provider, Reason("policy.no_such_tool"))
    for query in _cases(expectation, rules, plugins):
        verdict = evaluate(query.about(named), rules)
        for facts in named:
            is_allowed = verdict.refused_by(facts.name) is None
            if is_allowed != (expectation.expected == "allowed"):
                return BrokenExpectation(
                    expectation, facts.name, query.agent, query.model_label, verdict.explain(facts.name), _describe_context(query)
                )
    return None


def _cases(expectation: Expectation, rules: PolicyRules, plugins: tuple[str, ...]) -> Iterator[PolicyQuery]:
    """Yield one query for each way in which the rules can give a different result."""
    contexts = _distinct_contexts(_group_contexts(expectation, rules), rules, plugins)
    for agent in _agents(expectation, rules):
        for model_label in _models(expectation, rules, agent):
            provider, _, model = model_label.partition("/")
            for channel, group, sender in contexts:
                yield PolicyQuery(
                    agent,
                    is_owner=True,  # guests never get more
                    is_subagent=expectation.subagent,
                    provider=provider,
                    model=model,
                    channel=channel,
                    group=group,
                    sender=Sender(id=sender),
                    sandboxed=expectation.sandboxed,
                    plugins=plugins,
                )


def _agents(expectation: Expectation, rules: PolicyRules) -> Iterable[str]:
    """Return the agent the test names; else one agent for each distinct set of rules, and one without rules."""
    if agent := expectation.agent.strip().lower():
        return [agent]
    rows_by_agent: dict[str, set[RuleRow]] = {ANY_OTHER_AGENT: set()}
    for row in rules.rows:
        if row.subject:
            rows_by_agent.setdefault(row.subject, set()).add(replace(row, subject=""))
    return {frozenset(rows): agent for agent, rows in rows_by_agent.items()}.values()


def _models(expectation: Expectation, rules: PolicyRules, agent: str) -> list[str]:
    """Return the model or provider the test names and, if it leaves the model open, each one that a rule names."""
    wanted = expectation.provider.strip().lower()
    named = {row.provider for row in rules.rows if row.provider and row.subject in ("", agent)}
    if "/" in wanted:
        return [wanted]
    return [wanted, *sorted(key for key in named if not wanted or key.startswith(f"{wanted}/"))]


def _group_contexts(expectation: Expectation, rules: PolicyRules) -> Iterator[tuple[str, str, str]]:
    """Yield channel, group and sender: the test's or, if it leaves them open, those that rules name and one that no rule names."""
    channel, group, sender = expectation.channel.strip().lower(), expectation.group.strip(), expectation.sender.strip()
    yield channel, ANY_OTHER_GROUP if group == ANY else group, sender
    if not group:
        return
    for row in rules.rows:
        if row.scope == GROUP and channel in ("", row.channel) and (group == ANY or row.group in (group, ANY)):
            named = ANY_OTHER_GROUP if row.group == ANY else row.group
            yield row.channel, named if group == ANY else group, sender or ("" if row.sender == ANY else row.sender)


def _distinct_contexts(
    contexts: Iterable[tuple[str, str, str]], rules: PolicyRules, plugins: tuple[str, ...]
) -> Iterable[tuple[str, str, str]]:
    """Return one context per distinct result of the group layer. The layer ignores agents, so the others would add nothing."""
    distinct: dict[tuple[tuple[str, ...], tuple[str, ...]] | None, tuple[str, str, str]] = {}
    for channel, group, sender in contexts:
        query = PolicyQuery("", channel=channel, group=group, sender=Sender(id=sender), plugins=plugins)
        policy = group_policy(query, rules)
        distinct.setdefault((policy.allow, policy.deny) if policy else None, (channel, group, sender))
    return distinct.values()


def _describe_context(query: PolicyQuery) -> str:
    if not query.group:
        return ""
    return f"{query.channel}/{query.group}" + (f"#{query.sender.id}" if query.sender.id else "")
