"""Explain why a tool call was allowed or denied, from the trace stored with it. For programs; pages translate it for the reader."""

from collections.abc import Mapping
from typing import Any

from sessions_app.models import ToolCall

# For commands: after the nine layers, a person, a grant or the exec rules allowed it (tools_app.approvals).
ADMISSION_KEY = "admission"


def build_verdict(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return {allowed, layer?, rule?, admission?, why} from the columns name, status, refused_by and verdict."""
    if call["status"] != ToolCall.Status.REFUSED:
        if call["verdict"].get("caller"):
            return {"allowed": True, "why": "a tool of the caller: the call was returned to it and not run here"}
        allowed = _build_layer_verdict(call)
        if admission := call["verdict"].get(ADMISSION_KEY):
            return {**allowed, ADMISSION_KEY: admission, "why": f"{_describe_admission(admission)}; {allowed['why']}"}
        return allowed
    if rule_text := call["verdict"].get("exec"):  # after the nine layers, the command itself was evaluated
        return {"allowed": False, "layer": call["refused_by"], "rule": rule_text, "why": f"refused by layer exec: {rule_text}"}
    refused = next((step for step in _read_steps(call["verdict"], call["name"]) if step["effect"] == "deny"), None)
    if refused is None:
        rule = call["verdict"].get("not_offered", "")  # calls older than this field have no value
        why = f"not offered in this run: {rule}" if rule else "not offered in this run"
        return {"allowed": False, "layer": call["refused_by"], **({"rule": rule} if rule else {}), "why": why}
    why = f"refused by layer {refused['layer']}: {refused['rule']}"
    return {"allowed": False, "layer": refused["layer"], "rule": refused["rule"], "why": why}


def _build_layer_verdict(call: Mapping[str, Any]) -> dict[str, Any]:
    allowed = find_allowing_step(call["verdict"], call["name"])
    if allowed is None:
        return {"allowed": True, "why": "allowed: no layer refuses it"}
    why = f"allowed by layer {allowed['layer']}: {allowed['rule']}"
    return {"allowed": True, "layer": allowed["layer"], "rule": allowed["rule"], "why": why}


def _describe_admission(admission: Mapping[str, Any]) -> str:
    if admission["by"] == "answer":
        return f"approved by {admission['person']} ({admission['decision']})"
    if admission["by"] == "grant":
        return "allowed by " + ", ".join(f"grant {each['id']} of {each['person'] or 'nobody'}" for each in admission["grants"])
    return "allowed by the exec rules"


def find_allowing_step(verdict: Mapping[str, Any], name: str) -> dict[str, str] | None:
    """Return the narrowest layer that names the tool; None if no layer limits it."""
    return next((step for step in reversed(_read_steps(verdict, name)) if step["effect"] == "allow"), None)


def _read_steps(verdict: Mapping[str, Any], name: str) -> list[dict[str, str]]:
    steps: list[dict[str, str]] = verdict.get("trace", {}).get(name, [])
    return steps
