"""The tools of one run, on one page: create → owner gate → nine layers → adapt. What is refused, the model never sees."""

from dataclasses import dataclass, replace
from typing import Any

from tools_app.adapter.profiles import adapt
from tools_app.definition import Tool, ToolEnv
from tools_app.policy.chain import Verdict, evaluate
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules
from tools_app.registry import Registry


@dataclass(frozen=True, slots=True)
class Toolset:
    """`query` names every tool that was created, `verdict` says why some are not among `tools`."""

    tools: dict[str, Tool]
    query: PolicyQuery
    verdict: Verdict

    def get(self, name: str) -> Tool | None:
        return self.tools.get(name)

    def specs(self) -> list[dict[str, Any]]:
        """What the model is told: name, description and parameters of each tool."""
        return [tool.spec() for tool in self.tools.values()]


def build_toolset(env: ToolEnv, query: PolicyQuery, rules: PolicyRules, known: Registry) -> Toolset:
    """Make every tool that has a place in this run, and keep those that no layer refuses."""
    created = {name: made for name, each in known.tools.items() if (made := each.factory.create(env))}
    query = replace(query, tools=tuple(known.tools[name].facts for name in created), plugins=known.plugin_names)
    verdict = evaluate(query, rules)
    kept = {name: _adapted(created[name], query) for name in verdict.kept}
    return Toolset(kept, query, verdict)


def _adapted(tool: Tool, query: PolicyQuery) -> Tool:
    """With the parameters as the model's provider takes them; its arguments are checked against the tool's own."""
    return replace(tool, parameters=adapt(tool.parameters, query.provider, query.model))
