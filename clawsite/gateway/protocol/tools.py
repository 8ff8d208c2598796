"""The tools of a session on the wire, and why it does not have the others."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from agents.prepare.effective_tools import EffectiveTools
from tools_app.policy.catalog import DEFAULT_PROFILE, OPENCLAW_GROUP
from tools_app.policy.query import ToolFacts
from tools_app.sources.registry import RegisteredTool

CatalogSource = Literal["core", "plugin"]

EffectiveSource = Literal["core", "plugin", "mcp"]

SOURCE_LABELS: dict[EffectiveSource, str] = {"core": "Core", "plugin": "Plugin", "mcp": "MCP"}


class Refused(TypedDict):
    """A tool that the session does not have: the first layer that refuses it, and by which rule."""

    id: str
    layer: str
    rule: str


class NotOffered(TypedDict):
    """A tool that no layer refuses and that has no place in the run all the same: what it lacks."""

    id: str
    reason: str


class EffectiveTool(TypedDict):
    """`group` is its name in a policy, without `group:`. `mcpToolName` is what its server calls it."""

    id: str
    label: str
    description: str
    rawDescription: str
    source: EffectiveSource
    pluginId: NotRequired[str]
    mcpServer: NotRequired[str]
    mcpToolName: NotRequired[str]
    group: str


class EffectiveGroup(TypedDict):
    """Our own tools, those of plugins, or those of MCP servers."""

    id: EffectiveSource
    label: str
    source: EffectiveSource
    tools: list[EffectiveTool]


class Notice(TypedDict):
    id: str
    severity: Literal["info", "warning"]
    message: str


class EffectiveAnswer(TypedDict):
    """What the next run is offered, and why not the others. `notices` are for people, such as a rule that is ignored."""

    agentId: str
    profile: str
    policyVersion: int
    groups: list[EffectiveGroup]
    refused: list[Refused]
    notOffered: list[NotOffered]
    notices: list[Notice]


def build_effective_answer(seen: EffectiveTools) -> EffectiveAnswer:
    verdict = seen.toolset.verdict
    refused = {name: step for name in verdict.trace if (step := verdict.refused_by(name))}
    return EffectiveAnswer(
        agentId=seen.agent.slug,
        profile=_find_profile(seen),
        policyVersion=seen.rules.version,
        groups=_group_by_source([seen.registry.tools[name] for name in seen.toolset.tools]),
        refused=[Refused(id=name, layer=step.layer, rule=step.rule) for name, step in refused.items()],
        notOffered=[NotOffered(id=name, reason=reason) for name, reason in seen.toolset.unavailable.items()],
        notices=_build_notices(seen),
    )


def _find_profile(seen: EffectiveTools) -> str:
    """The one that the first layer goes by."""
    return seen.rules.row("agent", seen.agent.slug).profile or seen.rules.row("global").profile or DEFAULT_PROFILE


def _build_notices(seen: EffectiveTools) -> list[Notice]:
    steps = [step for steps in seen.toolset.verdict.trace.values() for step in steps if step.rule.startswith("allow list ignored")]
    words = dict.fromkeys(f"layer {step.layer}, row {step.row}: {step.rule}; use also allow to add plugins" for step in steps)
    return [Notice(id=f"ignored-rule-{number}", severity="warning", message=text) for number, text in enumerate(words, 1)]


def _group_by_source(tools: list[RegisteredTool]) -> list[EffectiveGroup]:
    groups: dict[EffectiveSource, EffectiveGroup] = {}
    for each in tools:
        facts, served, words = each.facts, each.factory.mcp_tool, each.factory.description
        source: EffectiveSource = "mcp" if served else source_of_tool(facts)
        group = groups.setdefault(source, EffectiveGroup(id=source, label=SOURCE_LABELS[source], source=source, tools=[]))
        row = EffectiveTool(
            id=facts.name,
            label=each.factory.label,
            description=words,
            rawDescription=words,
            source=source,
            group=group_of_tool(facts),
        )
        if served:
            row["mcpServer"], row["mcpToolName"] = served
        elif facts.plugin:
            row["pluginId"] = facts.plugin
        group["tools"].append(row)
    return [groups[source] for source in sorted(groups)]


def source_of_tool(facts: ToolFacts) -> CatalogSource:
    return "plugin" if facts.plugin else "core"


def group_of_tool(facts: ToolFacts) -> str:
    own = [group for group in facts.groups if group != OPENCLAW_GROUP]
    return facts.plugin or (own[0] if own else OPENCLAW_GROUP)
