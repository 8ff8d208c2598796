"""Authorize tool calls. Every tool call, from chat, HTTP or a schedule, goes through here.

Only an `AuthorizedCall` can be executed and only `authorize_tool_call` creates one. It decides but stores nothing: the caller
saves the `Authorization` (query, verdict and policy version) with the call's row.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, replace
from typing import Any, Literal

from clawsite.infra.reasons import Reason
from tools_app.core.definition import CallRef, Tool, ToolResult, text_result
from tools_app.core.supervision import Plan, Supervision
from tools_app.policy.evaluation import NOT_OFFERED, Verdict, evaluate
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules
from tools_app.sources.offered import CurrentOffer
from tools_app.toolset import Toolset

_PERMIT_KEY = object()
NO_TOOLS_GONE: Mapping[str, Reason] = {}
EXEC = "exec"  # the layer after the nine policy layers: it judges the plan of a supervised tool
DENIAL_KEYS = {NOT_OFFERED: "not_offered", EXEC: EXEC}  # stored keys of denials that no policy layer decided
MAX_NAME_SHOWN = 128  # characters; the model may have invented the name


@dataclass(frozen=True, slots=True)
class AuthorizedCall:
    """A permit for exactly this call of this tool and, if the tool is supervised, for exactly this plan."""

    ref: CallRef
    tool: Tool
    permit_key: InitVar[object]
    plan: Plan | None = None

    def __post_init__(self, permit_key: object) -> None:
        if permit_key is not _PERMIT_KEY:
            raise TypeError("only authorize_tool_call can create an AuthorizedCall")


@dataclass(frozen=True, slots=True)
class Authorization:
    """The decision about one call, with everything needed to explain it years later."""

    effect: Literal["allow", "ask", "deny", "hand_over"]
    layer: str  # the layer that denied the call; empty when allowed
    rule: Reason | None  # why the layer denied it
    message: str  # English text; sent to the model when denied
    query: dict[str, Any]
    verdict: dict[str, Any]
    policy_version: int
    permit: AuthorizedCall | None
    code: str = "tool_not_allowed"
    supervision: Supervision | None = None

    @property
    def denial(self) -> ToolResult:
        """The result the model gets instead of the tool's when the call is denied."""
        details = {"code": self.code, "layer": self.layer, "rule": str(self.rule)}
        return text_result(self.message, details=details, is_error=True)


def authorize_tool_call(
    call: CallRef,
    *,
    toolset: Toolset,
    rules: PolicyRules,
    now: CurrentOffer | None = None,
    supervise: Callable[[], Supervision] | None = None,
) -> Authorization:
    """Evaluate a call against the current rules and plugins, which may differ from those the toolset was built with.

    If no layer denies a supervised call, its plan is judged too. `supervise` is called only in that case.
    """
    if call.name in toolset.client_tools:
        return _hand_over(call, toolset, rules)
    query, verdict, layer, rule = _evaluate_layers(call, toolset, rules, now)
    tool = toolset.get(call.name)
    message = _describe_denial(call, layer, rule, toolset, now.unavailable if now else NO_TOOLS_GONE) if layer else ""
    supervision = None
    if tool and tool.supervisor and not layer:
        supervision = supervise() if supervise else Supervision("deny", Reason("exec.not_reviewed"))
        if supervision.effect == "deny":
            layer, rule, message = EXEC, supervision.reason, supervision.message
    permit = None
    if tool and not layer and (supervision is None or supervision.effect == "allow"):
        # A copy, so that later changes to the caller's dict can't change what was judged.
        ref = CallRef(call.id, call.name, copy.deepcopy(call.arguments))
        permit = AuthorizedCall(ref, tool, _PERMIT_KEY, supervision.plan if supervision else None)
    return Authorization(
        effect="deny" if layer else supervision.effect if supervision else "allow",
        layer=layer,
        rule=rule,
        message=message,
        query=query.to_json(),
        # These reasons don't come from a layer, so they aren't in the trace.
        verdict=verdict.to_json() | ({DENIAL_KEYS[layer]: rule.to_json()} if rule and layer in DENIAL_KEYS else {}),
        policy_version=rules.version,
        permit=permit,
        code=supervision.code if supervision and layer == EXEC else "tool_not_allowed",
        supervision=supervision,
    )


def _hand_over(call: CallRef, toolset: Toolset, rules: PolicyRules) -> Authorization:
    """Hand a call to a client's own tool back to the client. Without a permit it can't run here, and no layer is evaluated."""
    query = toolset.query.about(())
    return Authorization(
        effect="hand_over",
        layer="",
        rule=None,
        message="",
        query=query.to_json(),
        verdict=evaluate(query, rules).to_json() | {"caller": call.name},
        policy_version=rules.version,
        permit=None,
    )


def find_current_denial(call: CallRef, *, toolset: Toolset, rules: PolicyRules, now: CurrentOffer | None = None) -> str:
    """Return why a layer currently denies the call; empty if none does."""
    _query, _verdict, layer, rule = _evaluate_layers(call, toolset, rules, now)
    return _describe_denial(call, layer, rule, toolset, now.unavailable if now else NO_TOOLS_GONE) if layer else ""


def _evaluate_layers(
    call: CallRef, toolset: Toolset, rules: PolicyRules, now: CurrentOffer | None
) -> tuple[PolicyQuery, Verdict, str, Reason | None]:
    """Return the query, the verdict of all layers, and the first layer that denies the call, with its rule."""
    matching = [facts for facts in toolset.query.tools if facts.name == call.name]
    query = replace(toolset.query, plugins=now.plugins) if now else toolset.query
    query, gone = query.about(matching), now.unavailable if now else NO_TOOLS_GONE
    verdict = evaluate(query, rules)
    layer, rule = "", None
    if not matching:
        layer, rule = NOT_OFFERED, Reason("tool.unknown")
    elif step := verdict.refused_by(call.name):
        layer, rule = step.layer, step.rule
    elif call.name in gone:
        layer, rule = NOT_OFFERED, gone[call.name]
    elif call.name in toolset.unavailable:
        layer, rule = NOT_OFFERED, toolset.unavailable[call.name]
    elif toolset.get(call.name) is None:
        # The tool became allowed after the run began. The model was never shown it, so the call is a guess.
        layer, rule = NOT_OFFERED, Reason("tool.denied_at_start")
    return query, verdict, layer, rule


def _describe_denial(call: CallRef, layer: str, rule: Reason | None, toolset: Toolset, gone: Mapping[str, Reason]) -> str:
    available = ", ".join(f"`{name}`" for name in toolset.tools if name not in gone) or "none"
    status = "is unavailable in this run" if layer == NOT_OFFERED else f"was denied by layer {layer}"
    return f"tool_not_allowed: `{call.name[:MAX_NAME_SHOWN]}` {status}: {rule}. It did not run. Tools you can use: {available}."
