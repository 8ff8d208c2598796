"""The one door to every tool. Whoever wants a tool to run, from chat, HTTP or a schedule, comes through here.

Only an `AuthorizedCall` can be executed and only `authorize_tool_call` makes one. It decides and stores nothing:
the caller writes the `Authorization`, question, answer and policy version, with the call's row.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, replace
from typing import Any, Literal

from sessions_app.labels.rules import NOT_OFFERED
from tools_app.core.definition import CallRef, Tool, ToolResult, text_result
from tools_app.core.supervision import Plan, Supervision
from tools_app.policy.chain import Verdict, evaluate
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules
from tools_app.sources.offered import CurrentOffer
from tools_app.toolset import Toolset

_PERMIT_KEY = object()
NO_TOOLS_GONE: Mapping[str, str] = {}
EXEC = "exec"  # the layer behind the nine: what a supervised tool would do is judged by itself
MAX_NAME_SHOWN = 128  # characters of a name that the model made up


@dataclass(frozen=True, slots=True)
class AuthorizedCall:
    """A permit for exactly this call of exactly this tool; of a supervised one, for exactly this plan."""

    ref: CallRef
    tool: Tool
    permit_key: InitVar[object]
    plan: Plan | None = None

    def __post_init__(self, door: object) -> None:
        if door is not _PERMIT_KEY:
            raise TypeError("an AuthorizedCall is made by authorize_tool_call only")


@dataclass(frozen=True, slots=True)
class Authorization:
    """The decision about one call, with all that is needed to ask years later why it was made."""

    effect: Literal["allow", "ask", "deny", "hand_over"]
    layer: str  # that refused; empty when allowed
    rule: str
    reason: str  # in words, as the model is told when refused
    query: dict[str, Any]
    verdict: dict[str, Any]
    policy_version: int
    permit: AuthorizedCall | None
    code: str = "tool_not_allowed"
    supervision: Supervision | None = None

    @property
    def refusal(self) -> ToolResult:
        """The result of a refused call, in place of the tool's."""
        return text_result(self.reason, details={"code": self.code, "layer": self.layer, "rule": self.rule}, is_error=True)


def authorize_tool_call(
    call: CallRef,
    *,
    toolset: Toolset,
    rules: PolicyRules,
    now: CurrentOffer | None = None,
    supervise: Callable[[], Supervision] | None = None,
) -> Authorization:
    """Judge a call by the rules and the plugins of this moment, which may be others than those the tool set was built with.

    What no layer refuses and is supervised is judged by its plan too: `supervise` is asked then, and only then.
    """
    if call.name in toolset.client_tools:
        return _hand_over(call, toolset, rules)
    query, verdict, layer, rule = _evaluate_layers(call, toolset, rules, now)
    tool = toolset.get(call.name)
    reason = (
        _describe_denial(call, layer, rule, toolset, now.gone if now else NO_TOOLS_GONE)
        if layer
        else "allowed: no layer refuses it"
    )
    supervision = None
    if tool and tool.plan and not layer:
        supervision = (
            supervise() if supervise else Supervision("deny", "exec_denied: nobody has looked at what it would do. It did not run.")
        )
        if supervision.effect == "deny":
            layer, rule, reason = EXEC, supervision.code, supervision.words
    permit = None
    if tool and not layer and (supervision is None or supervision.effect == "allow"):
        # A copy: what runs is what was judged, whatever happens to the caller's dict meanwhile.
        ref = CallRef(call.id, call.name, copy.deepcopy(call.arguments))
        permit = AuthorizedCall(ref, tool, _PERMIT_KEY, supervision.plan if supervision else None)
    return Authorization(
        effect="deny" if layer else supervision.effect if supervision else "allow",
        layer=layer,
        rule=rule,
        reason=reason,
        query=query.to_json(),
        # No layer has said these, so the trace does not hold them.
        verdict=verdict.to_json() | ({"not_offered": rule} if layer == NOT_OFFERED else {EXEC: reason} if layer == EXEC else {}),
        policy_version=rules.version,
        permit=permit,
        code=supervision.code if supervision and layer == EXEC else "tool_not_allowed",
        supervision=supervision,
    )


def _hand_over(call: CallRef, toolset: Toolset, rules: PolicyRules) -> Authorization:
    """A tool of whoever asked. There is no permit, so nothing here can run it; no layer is asked, for it is not ours to allow."""
    query = toolset.query.about(())
    return Authorization(
        effect="hand_over",
        layer="",
        rule="",
        reason=f"`{call.name}` is a tool of the caller: the call is returned to it and not run here",
        query=query.to_json(),
        verdict=evaluate(query, rules).to_json() | {"caller": call.name},
        policy_version=rules.version,
        permit=None,
    )


def find_current_denial(call: CallRef, *, toolset: Toolset, rules: PolicyRules, now: CurrentOffer | None = None) -> str:
    """The words of the layer that refuses a call in this moment; empty when none does."""
    _query, _verdict, layer, rule = _evaluate_layers(call, toolset, rules, now)
    return _describe_denial(call, layer, rule, toolset, now.gone if now else NO_TOOLS_GONE) if layer else ""


def _evaluate_layers(
    call: CallRef, toolset: Toolset, rules: PolicyRules, now: CurrentOffer | None
) -> tuple[PolicyQuery, Verdict, str, str]:
    """The question, every layer's answer, and the first that refuses with its rule."""
    asked = [facts for facts in toolset.query.tools if facts.name == call.name]
    query = replace(toolset.query, plugins=now.plugins) if now else toolset.query
    query, gone = query.about(asked), now.gone if now else NO_TOOLS_GONE
    verdict = evaluate(query, rules)
    layer = rule = ""
    if not asked:
        layer, rule = NOT_OFFERED, "there is no such tool in this run"
    elif refused := verdict.refused_by(call.name):
        layer, rule = refused.layer, refused.rule
    elif call.name in gone:
        layer, rule = NOT_OFFERED, gone[call.name]
    elif call.name in toolset.unavailable:
        layer, rule = NOT_OFFERED, toolset.unavailable[call.name]
    elif toolset.get(call.name) is None:
        # Allowed since the run began. The model was not shown it, so it acts on a guess.
        layer, rule = NOT_OFFERED, "the policy refused it when this run began"
    return query, verdict, layer, rule


def _describe_denial(call: CallRef, layer: str, rule: str, toolset: Toolset, gone: Mapping[str, str]) -> str:
    offered = ", ".join(f"`{name}`" for name in toolset.tools if name not in gone) or "none"
    refused = "is not offered in this run" if layer == NOT_OFFERED else f"was refused by layer {layer}"
    return f"tool_not_allowed: `{call.name[:MAX_NAME_SHOWN]}` {refused}: {rule}. It did not run. Tools you may use: {offered}."
