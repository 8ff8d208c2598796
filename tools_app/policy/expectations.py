"""What an operator wants to stay true: "support-bot never gets exec". Judged by the same `evaluate` as everything else. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tools_app.policy.chain import evaluate
from tools_app.policy.layers import ANY, group_policy
from tools_app.policy.matcher import compile_entries
from tools_app.policy.query import PolicyQuery, Sender, ToolFacts
from tools_app.policy.rules import GROUP, PolicyRules, RuleRow

ANY_OTHER_AGENT = "any-other-agent"  # stands for the agents that no row names
ANY_OTHER_GROUP = "any-other-group"


@dataclass(frozen=True, slots=True)
class Expectation:
    """`never`: with no agent, model, group or person that the words leave open; `allowed`: with each of them.

    `provider` without a model leaves the model open, `group` as `*` the group. Where no group is named a direct chat is meant,
    which no group rule limits: what never passes there passes nowhere. A sender is somebody whom the channel knows by this name
    alone.
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

    WORDS: ClassVar = ("name", "expected", "tool", "agent", "provider", "channel", "group", "sender")
    FLAGS: ClassVar = ("sandboxed", "subagent")

    def to_compact_json(self) -> dict[str, Any]:
        """Without what says nothing, for keeping and for files."""
        return {name: value for name in (*self.WORDS, *self.FLAGS) if (value := getattr(self, name))}


@dataclass(frozen=True, slots=True)
class BrokenExpectation:
    """An expectation that does not hold, with the first case that shows it."""

    expectation: Expectation
    tool: str
    agent: str
    provider: str
    why: str
    where: str = ""  # the group chat and the person in it


def find_broken(
    expectations: Iterable[Expectation], rules: PolicyRules, tools: Iterable[ToolFacts], plugins: tuple[str, ...]
) -> list[BrokenExpectation]:
    known = tuple(tools)
    found = (_find_first_failure(each, rules, known, plugins) for each in expectations)
    return [fault for fault in found if fault]


def _find_first_failure(
    expectation: Expectation, rules: PolicyRules, known: tuple[ToolFacts, ...], plugins: tuple[str, ...]
) -> BrokenExpectation | None:
    entries = compile_entries((expectation.tool,))
    named = [facts for facts in known if entries.find(facts) is not None]
    if not named:
        agent = expectation.agent or ANY_OTHER_AGENT
        return BrokenExpectation(expectation, expectation.tool, agent, expectation.provider, "not there: no tool has such a name")
    for query in _cases(expectation, rules, plugins):
        verdict = evaluate(query.about(named), rules)
        for facts in named:
            kept = verdict.refused_by(facts.name) is None
            if kept != (expectation.expected == "allowed"):
                return BrokenExpectation(
                    expectation, facts.name, query.agent, query.model_label, verdict.explain(facts.name), _describe_context(query)
                )
    return None


def _cases(expectation: Expectation, rules: PolicyRules, plugins: tuple[str, ...]) -> Iterator[PolicyQuery]:
    """One question for each way in which the rows can answer differently."""
    places = _distinct_contexts(_group_contexts(expectation, rules), rules, plugins)
    for who in _agents(expectation, rules):
        for key in _models(expectation, rules, who):
            provider, _, model = key.partition("/")
            for channel, group, sender in places:
                yield PolicyQuery(
                    who,
                    is_owner=True,  # others get less
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
    """The agent that the words name; else one of those whose rows say the same, and one without rows."""
    if agent := expectation.agent.strip().lower():
        return [agent]
    said: dict[str, set[RuleRow]] = {ANY_OTHER_AGENT: set()}
    for row in rules.rows:
        if row.subject:
            said.setdefault(row.subject, set()).add(replace(row, subject=""))
    return {frozenset(rows): agent for agent, rows in said.items()}.values()


def _models(expectation: Expectation, rules: PolicyRules, agent: str) -> list[str]:
    """The model or provider that the words name and, as far as they leave it open, each that a row names."""
    wanted = expectation.provider.strip().lower()
    named = {row.provider for row in rules.rows if row.provider and row.subject in ("", agent)}
    if "/" in wanted:
        return [wanted]
    return [wanted, *sorted(key for key in named if not wanted or key.startswith(f"{wanted}/"))]


def _group_contexts(expectation: Expectation, rules: PolicyRules) -> Iterator[tuple[str, str, str]]:
    """Channel, group and sender; as far as the words leave them open, those that a row names and one that none does."""
    channel, group, sender = expectation.channel.strip().lower(), expectation.group.strip(), expectation.sender.strip()
    yield channel, ANY_OTHER_GROUP if group == ANY else group, sender
    if not group:
        return
    for row in rules.rows:
        if row.scope == GROUP and channel in ("", row.channel) and (group == ANY or row.group in (group, ANY)):
            here = ANY_OTHER_GROUP if row.group == ANY else row.group
            yield row.channel, here if group == ANY else group, sender or ("" if row.sender == ANY else row.sender)


def _distinct_contexts(
    places: Iterable[tuple[str, str, str]], rules: PolicyRules, plugins: tuple[str, ...]
) -> Iterable[tuple[str, str, str]]:
    """One place of those where the group layer thinks the same. It knows no agents, so the others would tell nothing new."""
    found: dict[tuple[tuple[str, ...], tuple[str, ...]] | None, tuple[str, str, str]] = {}
    for channel, group, sender in places:
        query = PolicyQuery("", channel=channel, group=group, sender=Sender(id=sender), plugins=plugins)
        opinion = group_policy(query, rules)
        found.setdefault((opinion.allow, opinion.deny) if opinion else None, (channel, group, sender))
    return found.values()


def _describe_context(query: PolicyQuery) -> str:
    if not query.group:
        return ""
    return f"{query.channel}/{query.group}" + (f"#{query.sender.id}" if query.sender.id else "")
