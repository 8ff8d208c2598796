"""The one door to every tool. Whoever wants a tool to run, from chat, HTTP or a schedule, comes through here.

Only an `AuthorizedCall` can be executed and only `authorize_tool_call` makes one. It decides and stores nothing:
the caller writes the `Authorization`, question, answer and policy version, with the call's row.
"""

import copy
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, replace
from typing import Any, Literal

from sessions_app.rule_words import NOT_OFFERED
from tools_app.definition import CallRef, Tool, ToolResult, text_result
from tools_app.offer import OfferedNow
from tools_app.policy.chain import evaluate
from tools_app.policy.rules import PolicyRules
from tools_app.toolset import Toolset

_DOOR = object()
NOTHING: Mapping[str, str] = {}
NAME_SHOWN = 128  # characters of a name that the model made up


@dataclass(frozen=True, slots=True)
class AuthorizedCall:
    """A permit for exactly this call of exactly this tool."""

    ref: CallRef
    tool: Tool
    door: InitVar[object]

    def __post_init__(self, door: object) -> None:
        if door is not _DOOR:
            raise TypeError("an AuthorizedCall is made by authorize_tool_call only")


@dataclass(frozen=True, slots=True)
class Authorization:
    """The decision about one call, with all that is needed to ask years later why it was made."""

    effect: Literal["allow", "deny"]
    layer: str  # that refused; empty when allowed
    rule: str
    reason: str  # in words, as the model is told when refused
    query: dict[str, Any]
    verdict: dict[str, Any]
    policy_version: int
    permit: AuthorizedCall | None

    @property
    def refusal(self) -> ToolResult:
        """The result of a refused call, in place of the tool's."""
        return text_result(self.reason, details={"code": "tool_not_allowed", "layer": self.layer, "rule": self.rule}, is_error=True)


def authorize_tool_call(call: CallRef, *, toolset: Toolset, rules: PolicyRules, now: OfferedNow | None = None) -> Authorization:
    """Judge a call by the rules and the plugins of this moment, which may be others than those the tool set was built with."""
    asked = [facts for facts in toolset.query.tools if facts.name == call.name]
    query = replace(toolset.query, plugins=now.plugins) if now else toolset.query
    query, gone = query.about(asked), now.gone if now else NOTHING
    verdict = evaluate(query, rules)
    tool = toolset.get(call.name)
    layer = rule = ""
    if not asked:
        layer, rule = NOT_OFFERED, "there is no such tool in this run"
    elif refused := verdict.refused_by(call.name):
        layer, rule = refused.layer, refused.rule
    elif call.name in gone:
        layer, rule = NOT_OFFERED, gone[call.name]
    elif call.name in toolset.declined:
        layer, rule = NOT_OFFERED, toolset.declined[call.name]
    elif tool is None:
        # Allowed since the run began. The model was not shown it, so it acts on a guess.
        layer, rule = NOT_OFFERED, "the policy refused it when this run began"
    permit = None
    if tool and not layer:
        # A copy: what runs is what was judged, whatever happens to the caller's dict meanwhile.
        permit = AuthorizedCall(CallRef(call.id, call.name, copy.deepcopy(call.arguments)), tool, _DOOR)
    return Authorization(
        effect="deny" if layer else "allow",
        layer=layer,
        rule=rule,
        reason=_refusal(call, layer, rule, toolset, gone) if layer else "allowed: no layer refuses it",
        query=query.to_json(),
        # No layer has said it, so the trace does not hold it.
        verdict=verdict.to_json() | ({"not_offered": rule} if layer == NOT_OFFERED else {}),
        policy_version=rules.version,
        permit=permit,
    )


def _refusal(call: CallRef, layer: str, rule: str, toolset: Toolset, gone: Mapping[str, str]) -> str:
    offered = ", ".join(f"`{name}`" for name in toolset.tools if name not in gone) or "none"
    refused = "is not offered in this run" if layer == NOT_OFFERED else f"was refused by layer {layer}"
    return f"tool_not_allowed: `{call.name[:NAME_SHOWN]}` {refused}: {rule}. It did not run. Tools you may use: {offered}."
