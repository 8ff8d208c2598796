"""The limits of an access token after the policy layers: one more step, which can only deny."""

import pytest

from clawsite.infra.reasons import Reason
from sessions_app.origin import TokenLimits
from tools_app.policy.evaluation import evaluate
from tools_app.policy.query import PolicyQuery, ToolFacts
from tools_app.policy.rules import PolicyRules, RuleRow

TOOLS = (
    ToolFacts("read", ("fs",)),
    ToolFacts("exec", ("runtime",)),
    ToolFacts("sessions_send", ("sessions",)),
    ToolFacts("say", plugin="talk"),
)
OPEN = PolicyRules(1, (RuleRow("global", profile="full"),))


def kept(allow=(), deny=(), rules=OPEN):
    key = TokenLimits("3f9c21aa", tuple(allow), tuple(deny))
    return set(evaluate(PolicyQuery("main", tools=TOOLS, plugins=("talk", "say"), key=key), rules).kept)


@pytest.mark.parametrize(
    ("allow", "deny", "left"),
    [
        ([], ["exec"], {"read", "sessions_send", "say"}),
        (["read", "exec"], ["group:runtime"], {"read"}),
        (["sessions_*"], [], {"sessions_send"}),
        (["no_such_tool"], [], set()),
        (["talk"], [], {"say"}),  # other layers would treat this as an addition; a token's list applies literally
        ([], ["*"], set()),
    ],
)
def test_access_token_limits_the_available_tools(allow, deny, left):
    assert kept(allow, deny) == left


def test_access_token_never_allows_tools_denied_by_policy():
    assert kept(["*"], rules=PolicyRules(1, (RuleRow("global", profile="full", deny=("exec",)),))) == {
        "read",
        "sessions_send",
        "say",
    }


def test_policy_trace_names_the_access_token_layer_last():
    query = PolicyQuery("main", tools=TOOLS, key=TokenLimits("3f9c21aa", ("read",)))
    trace = evaluate(query, OPEN).trace["exec"]
    rule = Reason("policy.not_listed_in", source=Reason("policy.access_token", name="3f9c21aa"))
    assert (len(trace), trace[-1].layer, trace[-1].rule) == (11, "key", rule)
    assert PolicyQuery.from_json(query.to_json()) == query
    without = PolicyQuery("main", tools=TOOLS)
    assert len(evaluate(without, OPEN).trace["exec"]) == 10
    assert "key" not in without.to_json()
