"""The nine layers asked about every tool: a tool is kept if none refuses it, and the trace says who thought what. Pure.

Runs that were started with a limited access token have one step more, behind the nine.

The same `evaluate` filters what the model sees, decides at call time, explains a refusal and replays history.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tools_app.policy.layers import LAYERS, token_policy
from tools_app.policy.matcher import Effect, LayerMatch, LayerPolicy
from tools_app.policy.query import PolicyQuery, ToolFacts
from tools_app.policy.rules import PolicyRules

OWNER_LAYER = "owner"  # stands before the layers: no row can open it
TOKEN_LAYER = "key"  # noqa: S105  # comes after the layers: not a row, and can only restrict


@dataclass(frozen=True, slots=True)
class PolicyStep:
    layer: str
    effect: Effect
    rule: str
    row: str = ""  # key of the operator's row behind it; empty where the rule is ours

    def to_json(self) -> dict[str, str]:
        told = {"layer": self.layer, "effect": self.effect, "rule": self.rule}
        return {**told, "row": self.row} if self.row else told

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "PolicyStep":
        return cls(data["layer"], data["effect"], data["rule"], data.get("row", ""))


@dataclass(frozen=True, slots=True)
class Verdict:
    """For every tool asked about the owner gate, all nine layers and perhaps the key, in order, also those after a refusal."""

    trace: dict[str, tuple[PolicyStep, ...]]

    @property
    def kept(self) -> tuple[str, ...]:
        return tuple(tool for tool, steps in self.trace.items() if not any(step.effect == "deny" for step in steps))

    def refused_by(self, tool: str) -> PolicyStep | None:
        """The first step that refuses the tool."""
        return next((step for step in self.trace[tool] if step.effect == "deny"), None)

    def explain(self, tool: str) -> str:
        step = self.refused_by(tool)
        return f"refused by layer {step.layer}: {step.rule}" if step else "allowed: no layer refuses it"

    def to_json(self) -> dict[str, Any]:
        return {"kept": list(self.kept), "trace": {tool: [step.to_json() for step in steps] for tool, steps in self.trace.items()}}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Verdict":
        return cls({tool: tuple(PolicyStep.from_json(step) for step in steps) for tool, steps in data["trace"].items()})


def evaluate(query: PolicyQuery, rules: PolicyRules) -> Verdict:
    """Ask the owner gate and every layer about every tool."""
    gate = [_OWNER_STEPS[query.is_owner] if tool.owner_only else _OPEN_STEP for tool in query.tools]
    layers = [_layer_steps(layer.name, layer.resolve(query, rules), query.tools) for layer in LAYERS]
    if query.key:
        layers.append(_layer_steps(TOKEN_LAYER, token_policy(query), query.tools))
    names = [tool.name for tool in query.tools]
    return Verdict(dict(zip(names, zip(gate, *layers, strict=True), strict=True)))


def _layer_steps(layer: str, opinion: LayerPolicy | None, tools: Sequence[ToolFacts]) -> list[PolicyStep]:
    """The layer's step for each tool. Tools that fare alike share one: making 540 of them took a fifth of the time."""
    if opinion is None:
        return [PolicyStep(layer, "none", "no rule")] * len(tools)
    made: dict[LayerMatch, PolicyStep] = {}
    steps = []
    for judgement in opinion.judge(tools):
        step = made.get(judgement)
        if step is None:
            step = made[judgement] = PolicyStep(layer, *judgement)
        steps.append(step)
    return steps


_OPEN_STEP = PolicyStep(OWNER_LAYER, "none", "open to everybody")
_OWNER_STEPS = {
    True: PolicyStep(OWNER_LAYER, "allow", "only for the owner"),
    False: PolicyStep(OWNER_LAYER, "deny", "only for the owner"),
}
