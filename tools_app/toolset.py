"""The tools of one run, on one page: owner gate → nine layers → create → adapt. What is left out, the model never sees."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tools_app.core.definition import Tool, ToolEnv
from tools_app.policy.chain import Verdict, evaluate
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules
from tools_app.schemas.provider_profiles import adapt_parameters
from tools_app.sources.registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class Toolset:
    """`query` names every tool there is. Why one is not among `tools` is said by `verdict`, or, if that keeps it, by `declined`."""

    tools: dict[str, Tool]
    query: PolicyQuery
    verdict: Verdict
    unavailable: dict[str, str] = field(default_factory=dict)
    client_tools: dict[str, dict[str, Any]] = field(default_factory=dict)  # specs of tools that whoever asked has: never run here

    def get(self, name: str) -> Tool | None:
        return self.tools.get(name)

    def specs(self) -> list[dict[str, Any]]:
        """What the model is told: name, description and parameters of each tool."""
        return [*(tool.spec() for tool in self.tools.values()), *self.client_tools.values()]

    def with_client_tools(self, specs: Sequence[dict[str, Any]]) -> "Toolset":
        """With the caller's own tools beside ours. Under a name of ours it is always ours that is meant, also if it is refused."""
        if not specs:
            return self
        ours = {facts.name for facts in self.query.tools}
        theirs = [spec for spec in specs if spec["name"] not in ours]
        query = self.query
        fitted = {
            spec["name"]: {**spec, "parameters": adapt_parameters(spec["parameters"], query.provider, query.model)}
            for spec in theirs
        }
        return replace(self, client_tools=fitted)


def build_toolset(env: ToolEnv, query: PolicyQuery, rules: PolicyRules, known: ToolRegistry) -> Toolset:
    """Ask the policy about every tool, and make those that no layer refuses."""
    query = replace(query, tools=tuple(each.facts for each in known.tools.values()), plugins=known.plugin_names)
    verdict = evaluate(query, rules)
    made, declined = known.create(verdict.kept, replace(env, tools=frozenset(verdict.kept)))
    return Toolset({name: _adapt_tool(tool, query) for name, tool in made.items()}, query, verdict, declined)


def _adapt_tool(tool: Tool, query: PolicyQuery) -> Tool:
    """With the parameters as the model's provider takes them; its arguments are checked against the tool's own."""
    return replace(tool, parameters=adapt_parameters(tool.parameters, query.provider, query.model))
