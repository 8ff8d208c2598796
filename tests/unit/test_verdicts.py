"""The sentence about a tool call, from its stored trace."""

import re
from pathlib import Path
from unittest.mock import patch

import pytest
from sessions_app.labels.rules import NOT_OFFERED, PLAIN_RULES, RULES_WITH_NAME, SOURCE_REASONS, translate_decision, translate_rule

from sessions_app.verdicts import build_verdict
from tools_app.policy.query import ToolFacts
from tools_app.sources.offered import OfferedTools

PROJECT = Path(__file__).parents[2]

NONE = {"layer": "profile", "effect": "none", "rule": "no rule"}
ALLOW = {"layer": "agent", "effect": "allow", "rule": "allow entry `group:fs`"}
NARROWER = {"layer": "sandbox", "effect": "allow", "rule": "allow entry `read`"}
DENY = {"layer": "global", "effect": "deny", "rule": "deny entry `read`"}


def test_unoffered_tool_call_verdict_gives_missing_requirement():
    verdict = {"trace": {"read": [ALLOW]}, "not_offered": "there is no workspace"}
    told = build_verdict({"name": "read", "status": "refused", "refused_by": NOT_OFFERED, "verdict": verdict})
    assert told == {
        "allowed": False,
        "layer": "toolset",
        "rule": "there is no workspace",
        "why": "not offered in this run: there is no workspace",
    }
    assert translate_decision(told) == told["why"]


# As their factories write them; a reader of another language gets them part by part.
REASONS = [
    "there is no workspace",
    "commands need a workspace",
    "there is nowhere to speak from outside of a run",
    "notes are read for the owner of the session only",
    "no search engine is configured: set CLAWSITE_SEARXNG_URL or BRAVE_API_KEY",
    "CLAWSITE_SEARCH_PROVIDER names an unknown search engine: `x`",
    "CLAWSITE_SEARCH_PROVIDER names a search engine that is not configured: `x`",
    "images cannot be shown to the model `x`",
    "made for models of OpenAI, and this one is `x`",
    "it could not be made, see the log: `x`",
    "its factory returns nothing that could be called",
    "its factory makes no plan of what it would do",
    "this version does not have it yet",
]


def test_every_builtin_unavailability_reason_is_translatable():
    known = {*PLAIN_RULES, *RULES_WITH_NAME, ""}
    for reason in REASONS:
        assert {part.split(" `")[0] for part in reason.removesuffix(": `x`").split(": ")} <= known, reason
        assert translate_rule(reason) == reason


def test_reason_list_covers_all_reasons_in_code():
    """A new reason also needs its translation in sessions_app.labels.rules."""
    files = [*(PROJECT / "tools_app").rglob("*.py"), *(PROJECT / "agents").rglob("*.py")]
    raised = [match for file in files for match in re.findall(r'ToolUnavailable\(f?"([^"{]+)', file.read_text())]
    assert raised
    assert {found for found in raised if not any(reason.startswith(found.rstrip("` ")) for reason in REASONS)} == set()


def test_every_missing_source_reason_is_translatable():
    """Whatever became of its source, rule_words knows the sentence; a new one is added there."""
    told = {OfferedTools({}).why_unavailable(ToolFacts("tool", ("plugins",), "gone"))}
    for source, kind in {"x": "plugin", "y": "MCP server"}.items():
        tool = ToolFacts("tool", ("plugins",), source)
        for state in ({"ids": {source}}, {"problems": {source: ["broken"]}}, {}):
            told.add(OfferedTools({}, kinds={source: kind}, **state).why_unavailable(tool))
    pattern = re.compile(r"(.+) `.+` (.+)")
    assert {pattern.fullmatch(words).groups() for words in told} == set(SOURCE_REASONS)
    for words in told:
        assert translate_rule(words) == words
    with patch.dict(SOURCE_REASONS, {("plugin", "was switched off"): "off: %s"}):
        assert translate_rule("plugin `x` was switched off") == "off: x"


@pytest.mark.parametrize(
    ("status", "steps", "expected"),
    [
        ("finished", [NONE], {"allowed": True, "why": "allowed: no layer refuses it"}),
        ("finished", [NONE, ALLOW, NARROWER, NONE], {"allowed": True, "layer": "sandbox", "rule": NARROWER["rule"]}),
        ("started", [ALLOW, NONE], {"allowed": True, "why": "allowed by layer agent: allow entry `group:fs`"}),
        ("refused", [ALLOW, DENY], {"allowed": False, "layer": "global", "why": "refused by layer global: deny entry `read`"}),
        ("refused", [], {"allowed": False, "layer": "toolset", "why": "not offered in this run"}),
    ],
)
def test_verdict_names_deciding_layer(status, steps, expected):
    call = {"name": "read", "status": status, "refused_by": "toolset", "verdict": {"trace": {"read": steps}}}
    assert build_verdict(call).items() >= expected.items()


def test_exec_denial_includes_its_reason():
    call = {
        "name": "exec",
        "status": "refused",
        "refused_by": "exec",
        "verdict": {"trace": {"exec": []}, "exec": "nobody approved it"},
    }
    told = build_verdict(call)
    assert (told["allowed"], told["layer"], told["why"]) == (False, "exec", "refused by layer exec: nobody approved it")
    assert translate_decision(told) == "refused by layer exec: nobody approved it"
