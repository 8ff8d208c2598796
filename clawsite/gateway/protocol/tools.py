"""The tools of a session on the wire, and the reasons why others are denied or unavailable."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from agents.prepare.effective_tools import EffectiveTools
from clawsite.gateway.protocol.reasons import ReasonCode, to_code
from tools_app.policy.catalog import DEFAULT_PROFILE, OPENCLAW_GROUP
from tools_app.policy.matcher import ONLY_PLUGINS
from tools_app.policy.query import ToolFacts
from tools_app.sources.registry import RegisteredTool

CatalogSource = Literal["core", "plugin"]

EffectiveSource = Literal["core", "plugin", "mcp"]

SOURCE_LABELS: dict[EffectiveSource, str] = {"core": "Core", "plugin": "Plugin", "mcp": "MCP"}


class Refused(ReasonCode):
    """A denied tool: the first policy layer that denies it, and the rule as text and code."""

    id: str
    layer: str
    rule: str


class NotOffered(ReasonCode):
    """A tool that is allowed but unavailable, and the reason as text and code."""

    id: str
    reason: str


class EffectiveTool(TypedDict):
    """A tool. `group` is its group in policies, without `group:`; `mcpToolName` is its name on the MCP server."""

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
    """The built-in tools, those of plugins, or those of MCP servers."""

    id: EffectiveSource
    label: str
    source: EffectiveSource
    tools: list[EffectiveTool]


class Notice(TypedDict):
    id: str
    severity: Literal["info", "warning"]
    message: str


class EffectiveAnswer(TypedDict):
    """The tools of the next run, and why others are missing. `notices` are shown to people, such as that a rule is ignored."""

    agentId: str
    profile: str
    policyVersion: int
    groups: list[EffectiveGroup]
    refused: list[Refused]
    notOffered: list[NotOffered]
    notices: list[Notice]


def build_effective_answer(effective: EffectiveTools) -> EffectiveAnswer:
    verdict = effective.toolset.verdict
    denied = {name: step for name in verdict.trace if (step := verdict.refused_by(name))}
    return EffectiveAnswer(
        agentId=effective.agent.slug,
        profile=_find_profile(effective),
        policyVersion=effective.rules.version,
        groups=_group_by_source([effective.registry.tools[name] for name in effective.toolset.tools]),
        refused=[Refused(id=name, layer=each.layer, rule=each.rule.text, **to_code(each.rule)) for name, each in denied.items()],
        notOffered=[NotOffered(id=name, reason=why.text, **to_code(why)) for name, why in effective.toolset.unavailable.items()],
        notices=_build_notices(effective),
    )


def _find_profile(effective: EffectiveTools) -> str:
    """Return the tool profile that the first policy layer uses."""
    return effective.rules.row("agent", effective.agent.slug).profile or effective.rules.row("global").profile or DEFAULT_PROFILE


def _build_notices(effective: EffectiveTools) -> list[Notice]:
    steps = [step for steps in effective.toolset.verdict.trace.values() for step in steps if step.rule.code == ONLY_PLUGINS]
    texts = dict.fromkeys(f"layer {step.layer}, row {step.row}: {step.rule}; use “also allow” to add plugins" for step in steps)
    return [Notice(id=f"ignored-rule-{number}", severity="warning", message=text) for number, text in enumerate(texts, 1)]


def _group_by_source(tools: list[RegisteredTool]) -> list[EffectiveGroup]:
    groups: dict[EffectiveSource, EffectiveGroup] = {}
    for each in tools:
        facts, mcp_tool, description = each.facts, each.factory.mcp_tool, each.factory.description
        source: EffectiveSource = "mcp" if mcp_tool else source_of_tool(facts)
        group = groups.setdefault(source, EffectiveGroup(id=source, label=SOURCE_LABELS[source], source=source, tools=[]))
        row = EffectiveTool(
            id=facts.name,
            label=each.factory.label,
            description=description,
            rawDescription=description,
            source=source,
            group=group_of_tool(facts),
        )
        if mcp_tool:
            row["mcpServer"], row["mcpToolName"] = mcp_tool
        elif facts.plugin:
            row["pluginId"] = facts.plugin
        group["tools"].append(row)
    return [groups[source] for source in sorted(groups)]


def source_of_tool(facts: ToolFacts) -> CatalogSource:
    return "plugin" if facts.plugin else "core"


def group_of_tool(facts: ToolFacts) -> str:
    own = [group for group in facts.groups if group != OPENCLAW_GROUP]
    return facts.plugin or (own[0] if own else OPENCLAW_GROUP)
