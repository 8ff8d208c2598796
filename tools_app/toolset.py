"""Build the toolset of a run: owner gate → nine layers → create → adapt. The model never sees tools left out here."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clawsite.infra.reasons import Reason
from sessions_app.run_request import ClientTool
from tools_app.core.definition import Tool, ToolEnv
from tools_app.policy.evaluation import Verdict, evaluate
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules
from tools_app.schemas.provider_profiles import adapt_parameters
from tools_app.sources.registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class Toolset:
    """`query` lists every tool. If one is not in `tools`, `verdict` says why or, if the policy allows it, `unavailable` does."""

    tools: dict[str, Tool]
    query: PolicyQuery
    verdict: Verdict
    unavailable: dict[str, Reason] = field(default_factory=dict)
    client_tools: dict[str, dict[str, Any]] = field(default_factory=dict)  # specs of the client's own tools: never run here

    def get(self, name: str) -> Tool | None:
        return self.tools.get(name)

    def specs(self) -> list[dict[str, Any]]:
        """The specs for the model: name, description and parameters of each tool."""
        return [*(tool.spec() for tool in self.tools.values()), *self.client_tools.values()]

    def with_client_tools(self, specs: Sequence[ClientTool]) -> "Toolset":
        """Add the client's own tools. If a name is also one of our tools, ours wins, even if it is denied."""
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
    """Evaluate the policy for every tool, and create those that no layer denies."""
    query = replace(query, tools=tuple(each.facts for each in known.tools.values()), plugins=known.plugin_names)
    verdict = evaluate(query, rules)
    kept = verdict.kept
    created, unavailable = known.create(kept, replace(env, tools=frozenset(kept)))
    return Toolset({name: _adapt_tool(tool, query) for name, tool in created.items()}, query, verdict, unavailable)


def _adapt_tool(tool: Tool, query: PolicyQuery) -> Tool:
    """Adapt the parameters for the model's provider; arguments are still validated against the tool's own schema."""
    return replace(tool, parameters=adapt_parameters(tool.parameters, query.provider, query.model))
