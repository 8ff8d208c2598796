"""What an operator wants to stay true: "support-bot never gets exec". Judged by the same `evaluate` as everything else. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from tools_app.policy.chain import evaluate
from tools_app.policy.matcher import ready
from tools_app.policy.query import PolicyQuery, Sender, ToolFacts
from tools_app.policy.rules import PolicyRules

ANY_OTHER = "any-other-agent"  # stands for the agents that no row names


@dataclass(frozen=True, slots=True)
class Expectation:
    """`never`: with no agent, model or person that the words leave open; `allowed`: with each of them.

    Where no group is named a direct chat is meant, which no group rule limits, so nothing passes elsewhere that does not there.
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


@dataclass(frozen=True, slots=True)
class Broken:
    """An expectation that does not hold, with the first case that shows it."""

    expectation: Expectation
    tool: str
    agent: str
    provider: str
    why: str


def broken(
    expectations: Iterable[Expectation], rules: PolicyRules, tools: Iterable[ToolFacts], plugins: tuple[str, ...]
) -> list[Broken]:
    known = tuple(tools)
    found = (_first_fault(each, rules, known, plugins) for each in expectations)
    return [fault for fault in found if fault]


def _first_fault(
    expectation: Expectation, rules: PolicyRules, known: tuple[ToolFacts, ...], plugins: tuple[str, ...]
) -> Broken | None:
    entries = ready((expectation.tool,))
    named = [facts for facts in known if entries.find(facts) is not None]
    if not named:
        return Broken(expectation, expectation.tool, expectation.agent, expectation.provider, "there is no such tool any more")
    for query in _cases(expectation, rules, plugins):
        verdict = evaluate(query.about(named), rules)
        for facts in named:
            kept = verdict.refused_by(facts.name) is None
            if kept != (expectation.expected == "allowed"):
                provider = "/".join(filter(None, (query.provider, query.model)))
                return Broken(expectation, facts.name, query.agent, provider, verdict.explain(facts.name))
    return None


def _cases(expectation: Expectation, rules: PolicyRules, plugins: tuple[str, ...]) -> Iterator[PolicyQuery]:
    agents = [expectation.agent] if expectation.agent else [*_named(rules, "subject"), ANY_OTHER]
    providers = [expectation.provider] if expectation.provider else [*_named(rules, "provider"), ""]
    for agent in agents:
        for key in providers:
            provider, _, model = key.partition("/")
            yield PolicyQuery(
                agent,
                is_owner=True,  # others get less
                is_subagent=expectation.subagent,
                provider=provider,
                model=model,
                channel=expectation.channel,
                group=expectation.group,
                sender=Sender(id=expectation.sender),
                sandboxed=expectation.sandboxed,
                plugins=plugins,
            )


def _named(rules: PolicyRules, field: str) -> list[str]:
    return sorted({value for row in rules.rows if (value := getattr(row, field))})
