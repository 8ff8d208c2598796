"""Explain why a tool call was allowed or denied, from the trace stored with it."""

from collections.abc import Mapping
from typing import Any

from clawsite.infra.reason_texts import translate_reason
from clawsite.infra.reasons import Reason
from sessions_app.admissions import format_admission
from sessions_app.models import ToolCall

# For commands: after the nine layers, a person, a grant or the exec rules allowed it (tools_app.approvals).
ADMISSION_KEY = "admission"


def build_verdict(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return {allowed, layer?, rule?, admission?, why, code, params?} from the columns name, status, refused_by and verdict.

    `rule` and `why` are English text; `code` and `params` are `why` as data, without the admission.
    """
    verdict = call["verdict"]
    if call["status"] == ToolCall.Status.REFUSED:
        return {"allowed": False, **_build_denial(call)}
    if verdict.get("caller"):
        return {"allowed": True, **_explain(Reason("call.handed_over"))}
    allowed = {"allowed": True, **_build_layer_verdict(verdict, call["name"])}
    if admission := verdict.get(ADMISSION_KEY):
        return {**allowed, ADMISSION_KEY: admission, "why": f"{_describe_admission(admission)}; {allowed['why']}"}
    return allowed


def translate_verdict(verdict: Mapping[str, Any]) -> str:
    """Describe the result of `build_verdict` in the reader's language."""
    if admission := verdict.get(ADMISSION_KEY):
        return format_admission(admission)
    return translate_reason(Reason.from_json(verdict))


def _build_denial(call: Mapping[str, Any]) -> dict[str, Any]:
    verdict = call["verdict"]
    if denial := verdict.get("exec"):  # after the nine layers, the command itself was evaluated
        return _explain_denial(call["refused_by"], Reason.from_json(denial))
    if step := next((step for step in _read_steps(verdict, call["name"]) if step["effect"] == "deny"), None):
        return _explain_denial(step["layer"], Reason.from_json(step["rule"]))
    if stored := verdict.get("not_offered"):
        rule = Reason.from_json(stored)
        return {"layer": call["refused_by"], "rule": rule.text, **_explain(Reason("call.unavailable_because", rule=rule))}
    return {"layer": call["refused_by"], **_explain(Reason("call.unavailable"))}  # a call older than the stored reason


def _explain_denial(layer: str, rule: Reason) -> dict[str, Any]:
    return {"layer": layer, "rule": rule.text, **_explain(Reason("call.denied_by", layer=layer, rule=rule))}


def _build_layer_verdict(verdict: Mapping[str, Any], name: str) -> dict[str, Any]:
    step = find_allowing_step(verdict, name)
    if step is None:
        return _explain(Reason("call.allowed"))
    layer, rule = step["layer"], Reason.from_json(step["rule"])
    return {"layer": layer, "rule": rule.text, **_explain(Reason("call.allowed_by", layer=layer, rule=rule))}


def _explain(reason: Reason) -> dict[str, Any]:
    return {"why": reason.text, **reason.to_json()}


def _describe_admission(admission: Mapping[str, Any]) -> str:
    if admission["by"] == "answer":
        return f"approved by {admission['person']} ({admission['decision']})"
    if admission["by"] == "grant":
        return "allowed by " + ", ".join(f"grant {each['id']} of {each['person'] or 'nobody'}" for each in admission["grants"])
    return "allowed by the exec rules"


def find_allowing_step(verdict: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return the narrowest layer that names the tool; None if no layer limits it."""
    return next((step for step in reversed(_read_steps(verdict, name)) if step["effect"] == "allow"), None)


def build_trace(verdict: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the steps of the tool for clients: {layer, effect, rule, code, params?, row?}, with `rule` as English text."""
    steps = [(step, Reason.from_json(step["rule"])) for step in _read_steps(verdict, name)]
    return [{**step, "rule": rule.text, **rule.to_json()} for step, rule in steps]


def _read_steps(verdict: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = verdict.get("trace", {}).get(name, [])
    return steps
