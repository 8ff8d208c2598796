"""Evaluate the nine policy layers. A tool is allowed if no layer denies it; the trace has the result of every layer. Pure.

Runs started with a limited access token have one more step after the nine.

The same `evaluate` filters the tools a model sees, authorizes calls, explains denials and replays history.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clawsite.infra.reasons import Reason, register_reasons
from clawsite.infra.reasons import gettext_noop as _
from tools_app.policy.layers import LAYERS, token_policy
from tools_app.policy.matcher import LayerPolicy, PolicyStep
from tools_app.policy.query import PolicyQuery, ToolFacts
from tools_app.policy.rules import PolicyRules

OWNER_LAYER = "owner"  # checked before the layers; no rule can override it
TOKEN_LAYER = "key"  # noqa: S105  # checked after the layers; not a rule, and can only restrict
NOT_OFFERED = "toolset"  # replaces the layer's name if no layer denied the tool but the run doesn't have it

register_reasons(
    {
        "policy.no_rule": _("no rule"),
        "policy.open": _("available to everyone"),
        "policy.owner_only": _("owner only"),
    }
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The steps of every tool in order: owner gate, nine layers, access token if limited. A denial doesn't end the list."""

    trace: dict[str, tuple[PolicyStep, ...]]

    @property
    def kept(self) -> tuple[str, ...]:
        return tuple(tool for tool, steps in self.trace.items() if "deny" not in [step.effect for step in steps])

    def refused_by(self, tool: str) -> PolicyStep | None:
        """Return the first step that denies the tool."""
        return next((step for step in self.trace[tool] if step.effect == "deny"), None)

    def explain(self, tool: str) -> Reason:
        step = self.refused_by(tool)
        return Reason("call.denied_by", layer=step.layer, rule=step.rule) if step else Reason("call.allowed")

    def to_json(self) -> dict[str, Any]:
        return {"kept": list(self.kept), "trace": {tool: [step.to_json() for step in steps] for tool, steps in self.trace.items()}}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Verdict":
        return cls({tool: tuple(PolicyStep.from_json(step) for step in steps) for tool, steps in data["trace"].items()})


def evaluate(query: PolicyQuery, rules: PolicyRules) -> Verdict:
    """Evaluate the owner gate and every layer for every tool."""
    gate = [_OWNER_STEPS[query.is_owner] if tool.owner_only else _OPEN_STEP for tool in query.tools]
    layers = [_layer_steps(layer.name, layer.resolve(query, rules), query.tools) for layer in LAYERS]
    if query.key:
        layers.append(_layer_steps(TOKEN_LAYER, token_policy(query), query.tools))
    names = [tool.name for tool in query.tools]
    return Verdict(dict(zip(names, zip(gate, *layers, strict=True), strict=True)))


def _layer_steps(layer: str, policy: LayerPolicy | None, tools: Sequence[ToolFacts]) -> list[PolicyStep]:
    return list(policy.judge(layer, tools)) if policy else [PolicyStep(layer, "none", _NO_RULE)] * len(tools)


_NO_RULE = Reason("policy.no_rule")
_OWNER_ONLY = Reason("policy.owner_only")
_OPEN_STEP = PolicyStep(OWNER_LAYER, "none", Reason("policy.open"))
_OWNER_STEPS = {True: PolicyStep(OWNER_LAYER, "allow", _OWNER_ONLY), False: PolicyStep(OWNER_LAYER, "deny", _OWNER_ONLY)}
