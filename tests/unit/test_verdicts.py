"""The sentence about a tool call, from its stored trace."""

import pytest

from sessions_app.verdicts import verdict_of

NONE = {"layer": "profile", "effect": "none", "rule": "no rule"}
ALLOW = {"layer": "agent", "effect": "allow", "rule": "allow entry `group:fs`"}
NARROWER = {"layer": "sandbox", "effect": "allow", "rule": "allow entry `read`"}
DENY = {"layer": "global", "effect": "deny", "rule": "deny entry `read`"}


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
def test_the_verdict_names_the_layer_that_decided(status, steps, expected):
    call = {"name": "read", "status": status, "refused_by": "toolset", "verdict": {"trace": {"read": steps}}}
    assert verdict_of(call).items() >= expected.items()
