"""The tool policy of webhooks: untrusted content can't start commands unless a rule for that webhook allows it."""

import pytest

from sessions_app.keys import parse_key
from tools_app.policy.catalog import GROUP_BY_TOOL, OPENCLAW_GROUP, VISITING_WEBHOOK_DENY
from tools_app.policy.evaluation import evaluate
from tools_app.policy.query import PolicyQuery, ToolFacts
from tools_app.policy.rules import PolicyRules, RuleRow

TOOLS = tuple(ToolFacts(name, tuple(filter(None, (group, OPENCLAW_GROUP)))) for name, group in GROUP_BY_TOOL.items())
FULL = RuleRow("agent", "main", profile="full")


def kept(*rows, hook="github", **question):
    query = PolicyQuery(agent="main", channel="hook", group=hook, tools=TOOLS, **question)
    return set(evaluate(query, PolicyRules(1, (FULL, *rows))).kept)


@pytest.mark.parametrize("sandboxed", [True, False])
def test_webhook_without_rule_has_no_commands_or_other_sessions(sandboxed):
    offered = kept(sandboxed=sandboxed)
    assert not offered & {"exec", "process", "sessions_send", "sessions_spawn", "sessions_history", "cron", "gateway", "nodes"}
    assert {"read", "write", "session_status"} <= offered


def test_rule_for_one_webhook_only_affects_that_webhook():
    rule = RuleRow("group", channel="hook", group="github", allow=("read", "exec"))
    assert kept(rule) == {"read", "exec"}
    assert "exec" not in kept(rule, hook="mail")


def test_rule_for_all_webhooks_applies_without_specific_rule():
    everywhere = RuleRow("group", channel="hook", group="*", allow=("read",))
    own = RuleRow("group", channel="hook", group="github", allow=("write",))
    assert kept(everywhere, own, hook="mail") == {"read"}
    assert kept(everywhere, own) == {"write"}


@pytest.mark.parametrize("lists", [{"deny": ("web_fetch",)}, {"allow": ("weather",)}, {}])
def test_rule_without_allowlist_keeps_webhook_limits(lists):
    rule = RuleRow("group", channel="hook", group="*", **lists)
    offered = kept(rule, plugins=("weather",))
    assert not offered & {"exec", "process", "sessions_send"}
    assert "read" in offered
    assert ("web_fetch" in offered) is ("deny" not in lists)


def test_webhook_in_owner_session_has_no_web_tools():
    """The session has no isolated workspace, whose list would exclude the web tools too."""
    at_home, visiting = kept(), kept(visiting=True)
    assert at_home - visiting == {"web_fetch", "web_search"}
    assert not kept(RuleRow("sandbox", allow=("*",)), visiting=True, sandboxed=True) & {"web_fetch", "web_search", "message"}
    rule = RuleRow("group", channel="hook", group="github", allow=("read", "web_fetch"))
    assert kept(rule, visiting=True) == {"read", "web_fetch"}  # the rule for this webhook allows it


def test_every_entry_of_webhook_lists_is_known():
    known = {*GROUP_BY_TOOL, *(f"group:{group}" for group in GROUP_BY_TOOL.values())}
    assert set(VISITING_WEBHOOK_DENY) <= known


def test_query_of_webhook_run_round_trips():
    query = PolicyQuery(agent="main", channel="hook", group="github", visiting=True)
    assert PolicyQuery.from_json(query.to_json()) == query


def test_webhook_key_differs_from_group_of_same_name():
    assert parse_key("agent:main:hook:group:x").kind == "hook"
