"""The verdict about a tool call, from its stored trace."""

import pytest
from django.utils import translation

from clawsite.infra import reason_texts
from clawsite.infra.reasons import Reason
from sessions_app.verdicts import build_trace, build_verdict, translate_verdict
from tools_app.policy.evaluation import NOT_OFFERED
from tools_app.policy.matcher import PolicyStep
from tools_app.policy.query import ToolFacts
from tools_app.sources.offered import MCP_SERVER, PLUGIN, OfferedTools

NONE = PolicyStep("profile", "none", Reason("policy.no_rule")).to_json()
ALLOW = PolicyStep("agent", "allow", Reason("policy.allow_entry", entry="group:fs")).to_json()
NARROWER = PolicyStep("sandbox", "allow", Reason("policy.allow_entry", entry="read")).to_json()
DENY = PolicyStep("global", "deny", Reason("policy.deny_entry", entry="read"), row="global").to_json()
NO_WORKSPACE = Reason("tool.no_workspace")


def verdict_of(status, **stored):
    return build_verdict({"name": "read", "status": status, "refused_by": NOT_OFFERED, "verdict": {"trace": {"read": []}} | stored})


def test_unavailable_tool_verdict_gives_missing_requirement():
    verdict = verdict_of("refused", trace={"read": [ALLOW]}, not_offered=NO_WORKSPACE.to_json())
    assert verdict == {
        "allowed": False,
        "layer": "toolset",
        "rule": "there is no workspace",
        "why": "unavailable in this run: there is no workspace",
        **Reason("call.unavailable_because", rule=NO_WORKSPACE).to_json(),
    }
    with translation.override("en"):
        assert translate_verdict(verdict) == verdict["why"]


@pytest.mark.parametrize(
    ("source", "state", "code"),
    [
        (PLUGIN, {"ids": {"x"}}, "source.plugin_dropped_it"),
        (PLUGIN, {"problems": {"x": ["broken"]}}, "source.plugin_failed"),
        (PLUGIN, {}, "source.plugin_disabled"),
        (MCP_SERVER, {"ids": {"x"}}, "source.server_dropped_it"),
        (MCP_SERVER, {"problems": {"x": ["broken"]}}, "source.server_failed"),
        (MCP_SERVER, {}, "source.server_disabled"),
    ],
)
def test_missing_tool_of_known_source_has_reason(source, state, code):
    tools = OfferedTools({}, sources={"x": source}, **state)
    assert tools.why_unavailable(ToolFacts("tool", ("plugins",), "x")) == Reason(code, name="x")


def test_missing_tool_of_removed_source_has_reason():
    assert OfferedTools({}).why_unavailable(ToolFacts("tool", ("plugins",), "gone")) == Reason("source.removed", name="gone")


@pytest.mark.parametrize(
    ("status", "steps", "expected"),
    [
        ("finished", [NONE], {"allowed": True, "code": "call.allowed", "why": "allowed by all layers"}),
        (
            "finished",
            [NONE, ALLOW, NARROWER, NONE],
            {"allowed": True, "layer": "sandbox", "rule": "allow entry `read`", "code": "call.allowed_by"},
        ),
        ("started", [ALLOW, NONE], {"allowed": True, "why": "allowed by layer agent: allow entry `group:fs`"}),
        (
            "refused",
            [ALLOW, DENY],
            {"allowed": False, "layer": "global", "code": "call.denied_by", "why": "denied by layer global: deny entry `read`"},
        ),
        ("refused", [], {"allowed": False, "layer": "toolset", "code": "call.unavailable", "why": "unavailable in this run"}),
    ],
)
def test_verdict_names_deciding_layer(status, steps, expected):
    assert verdict_of(status, trace={"read": steps}).items() >= expected.items()


def test_exec_denial_includes_its_reason():
    verdict = verdict_of("refused", exec="nobody approved it")
    assert (verdict["allowed"], verdict["why"]) == (False, "denied by layer toolset: nobody approved it")
    assert verdict["params"]["rule"] == Reason("legacy", text="nobody approved it").to_json()
    with translation.override("en"):
        assert translate_verdict(verdict) == verdict["why"]


def test_trace_for_clients_has_text_and_code_of_each_rule():
    assert build_trace({"trace": {"read": [DENY]}}, "read") == [
        {
            "layer": "global",
            "effect": "deny",
            "rule": "deny entry `read`",
            "code": "policy.deny_entry",
            "params": {"entry": "read"},
            "row": "global",
        }
    ]


def test_rule_stored_as_text_is_shown_as_it_is():
    steps = [{"layer": "agent", "effect": "deny", "rule": "deny entry `read`"}]
    assert verdict_of("refused", trace={"read": steps})["why"] == "denied by layer agent: deny entry `read`"
    assert build_trace({"trace": {"read": steps}}, "read")[0]["rule"] == "deny entry `read`"


def test_verdict_is_translated_with_its_rule(monkeypatch):
    catalog = {"denied by layer {layer}: {rule}": "{layer} 拒绝：{rule}", "deny entry `{entry}`": "拒绝项 `{entry}`"}
    monkeypatch.setattr(reason_texts, "gettext", catalog.__getitem__)
    assert translate_verdict(verdict_of("refused", trace={"read": [DENY]})) == "global 拒绝：拒绝项 `read`"
