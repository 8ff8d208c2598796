"""The nine layers asked about every tool: a tool is kept if none refuses it, and the trace says who thought what. Pure.

The same `evaluate` filters what the model sees, decides at call time, explains a refusal and replays history.
"""

from dataclasses import dataclass
from typing import Any

from tools_app.policy.layers import LAYERS
from tools_app.policy.matcher import Effect
from tools_app.policy.query import PolicyQuery, ToolFacts
from tools_app.policy.rules import PolicyRules

OWNER_GATE = "owner"  # stands before the layers: no row can open it


@dataclass(frozen=True, slots=True)
class Step:
    layer: str
    effect: Effect
    rule: str
    row: str = ""  # key of the operator's row behind it; empty where the rule is ours

    def to_json(self) -> dict[str, str]:
        told = {"layer": self.layer, "effect": self.effect, "rule": self.rule}
        return {**told, "row": self.row} if self.row else told

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Step":
        return cls(data["layer"], data["effect"], data["rule"], data.get("row", ""))


@dataclass(frozen=True, slots=True)
class Verdict:
    """For every tool asked about the owner gate and then all nine layers, in order, also those after a refusal."""

    trace: dict[str, tuple[Step, ...]]

    @property
    def kept(self) -> tuple[str, ...]:
        return tuple(tool for tool in self.trace if self.refused_by(tool) is None)

    def refused_by(self, tool: str) -> Step | None:
        """The first step that refuses the tool."""
        return next((step for step in self.trace[tool] if step.effect == "deny"), None)

    def explain(self, tool: str) -> str:
        step = self.refused_by(tool)
        return f"refused by layer {step.layer}: {step.rule}" if step else "allowed: no layer refuses it"

    def to_json(self) -> dict[str, Any]:
        return {"kept": list(self.kept), "trace": {tool: [step.to_json() for step in steps] for tool, steps in self.trace.items()}}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Verdict":
        return cls({tool: tuple(Step.from_json(step) for step in steps) for tool, steps in data["trace"].items()})


def evaluate(query: PolicyQuery, rules: PolicyRules) -> Verdict:
    """Ask the owner gate and every layer about every tool."""
    opinions = [(layer.name, layer.resolve(query, rules)) for layer in LAYERS]
    trace = {}
    for tool in query.tools:
        steps = [Step(name, *opinion.judge(tool)) if opinion else Step(name, "none", "no rule") for name, opinion in opinions]
        trace[tool.name] = (_owner_gate(query, tool), *steps)
    return Verdict(trace)


def _owner_gate(query: PolicyQuery, tool: ToolFacts) -> Step:
    if not tool.owner_only:
        return Step(OWNER_GATE, "none", "open to everybody")
    return Step(OWNER_GATE, "allow" if query.is_owner else "deny", "only for the owner")
