"""The nine layers: which tools are allowed, which layer denies the others, and replay from JSON."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawsite.infra.reasons import Reason
from sessions_app.origin import Sender
from tests.unit.test_policy_matcher import lists, tools
from tools_app.policy.catalog import GROUP_BY_TOOL, NATIVE_NAMES, PROFILES, SUBAGENT_DENY
from tools_app.policy.evaluation import Verdict, evaluate
from tools_app.policy.layers import LAYERS
from tools_app.policy.query import PolicyQuery, ToolFacts
from tools_app.policy.rules import PolicyRules, RuleRow

NINE = ["profile", "provider_profile", "global", "global_provider", "agent", "agent_provider", "group", "sandbox", "subagent"]
EVERYTHING = tuple(
    ToolFacts(name, (GROUP_BY_TOOL[name], "openclaw"), owner_only=name == "whatsapp_login") for name in sorted(NATIVE_NAMES)
)
FULL = RuleRow("global", profile="full")

profiles = st.sampled_from(["", "nope", *PROFILES])
queries = st.builds(
    PolicyQuery,
    agent=st.sampled_from(["main", "other"]),
    is_owner=st.booleans(),
    is_subagent=st.booleans(),
    tools=st.lists(tools, max_size=6, unique_by=lambda tool: tool.name).map(tuple),
)
global_rows = st.builds(RuleRow, st.just("global"), st.just(""), profiles, lists, lists, lists)
agent_rows = st.builds(RuleRow, st.just("agent"), st.just("main"), profiles, lists, lists, lists)
rule_sets = st.builds(PolicyRules, st.integers(1, 99), st.tuples(global_rows, agent_rows) | st.just(()))


def kept(*rows, agent="main", **who):
    return set(evaluate(PolicyQuery(agent, tools=EVERYTHING, **who), PolicyRules(1, rows)).kept)


def test_layers_are_in_documented_order():
    assert [layer.name for layer in LAYERS] == NINE


def test_agent_without_rules_has_minimal_profile():
    assert kept() == {"session_status"}


def test_coding_agent_has_files_commands_sessions_memory_and_images():
    found = kept(RuleRow("global", profile="minimal"), RuleRow("agent", "main", profile="coding"))
    assert {"read", "write", "edit", "apply_patch", "glob", "grep", "exec", "process", "sessions_spawn", "subagents"} <= found
    assert {"memory_get", "image"} <= found
    assert not {"web_fetch", "browser", "message", "cron", "gateway", "nodes", "agents_list", "whatsapp_login"} & found


def test_messaging_profile_allows_mainly_message_tools():
    assert kept(RuleRow("agent", "main", profile="messaging")) == {"message", "sessions_list", "sessions_send", "session_status"}


def test_full_profile_does_not_limit():
    assert kept(FULL, is_owner=True) == NATIVE_NAMES


def test_agent_profile_replaces_global_profile():
    rows = RuleRow("global", profile="full"), RuleRow("agent", "main", profile="minimal")
    assert kept(*rows) == {"session_status"}
    assert "exec" in kept(*rows, agent="other")


def test_also_allow_adds_to_the_profile():
    assert kept(RuleRow("global", profile="minimal", also_allow=("group:web",))) == {"session_status", "web_fetch", "web_search"}


def test_agent_also_allow_replaces_global_also_allow():
    rows = RuleRow("global", profile="minimal", also_allow=("web_search",)), RuleRow("agent", "main", also_allow=("read",))
    assert kept(*rows) == {"session_status", "read"}
    assert kept(*rows, agent="other") == {"session_status", "web_search"}


def test_also_allow_does_not_limit_unlimited_profile():
    assert kept(RuleRow("global", profile="full", also_allow=("read",)), is_owner=True) == NATIVE_NAMES


def test_also_allow_does_not_override_deny_of_other_layer():
    assert kept(RuleRow("global", profile="minimal", also_allow=("read",), deny=("read",))) == {"session_status"}


def test_every_layer_must_allow_tool():
    assert kept(RuleRow("global", profile="full", allow=("group:fs",)), RuleRow("agent", "main", allow=("read", "exec"))) == {
        "read"
    }


def test_unknown_profile_denies_everything():
    verdict = evaluate(
        PolicyQuery("main", tools=EVERYTHING), PolicyRules(1, (RuleRow("global", profile="codng", also_allow=("*",)),))
    )
    assert verdict.kept == ()
    rule = Reason("policy.deny_entry_in", entry="*", source=Reason("policy.unknown_profile", name="codng"))
    assert verdict.explain("read") == Reason("call.denied_by", layer="profile", rule=rule)


def test_denial_names_layer_and_entry():
    verdict = evaluate(PolicyQuery("main", tools=EVERYTHING), PolicyRules(1, (FULL, RuleRow("agent", "main", deny=("write",)))))
    assert verdict.explain("write") == Reason("call.denied_by", layer="agent", rule=Reason("policy.deny_entry", entry="write"))
    assert verdict.explain("write").text == "denied by layer agent: deny entry `write`"
    assert verdict.explain("read") == Reason("call.allowed")


def test_layers_after_denial_are_evaluated():
    rows = RuleRow("global", profile="minimal", deny=("exec",)), RuleRow("agent", "main", deny=("group:runtime",))
    steps = evaluate(PolicyQuery("main", tools=EVERYTHING), PolicyRules(1, rows)).trace["exec"]
    assert [step.layer for step in steps if step.effect == "deny"] == ["profile", "global", "agent"]


def test_owner_gate_is_checked_before_layers():
    assert "whatsapp_login" in kept(FULL, is_owner=True)
    verdict = evaluate(PolicyQuery("main", tools=EVERYTHING), PolicyRules(1, (FULL,)))
    assert verdict.explain("whatsapp_login") == Reason("call.denied_by", layer="owner", rule=Reason("policy.owner_only"))
    assert len(verdict.trace["whatsapp_login"]) == 10


def test_subagents_do_not_get_coordination_tools():
    assert kept(FULL, is_owner=True, is_subagent=True) == NATIVE_NAMES - set(SUBAGENT_DENY)


@settings(deadline=None)
@given(queries, rule_sets)
def test_trace_has_owner_gate_and_nine_layers(query, rules):
    verdict = evaluate(query, rules)
    assert set(verdict.trace) == {tool.name for tool in query.tools}
    for steps in verdict.trace.values():
        assert [step.layer for step in steps] == ["owner", *NINE]
        assert all(step.effect in ("allow", "deny", "none") and step.rule for step in steps)


@settings(deadline=None)
@given(queries, rule_sets)
def test_kept_tools_are_not_denied_by_any_step(query, rules):
    verdict = evaluate(query, rules)
    for name, steps in verdict.trace.items():
        refused = any(step.effect == "deny" for step in steps)
        assert (name in verdict.kept) == (not refused) == (verdict.refused_by(name) is None)


@settings(deadline=None)
@given(queries, global_rows, agent_rows, st.text(max_size=8) | st.sampled_from(["*", "read", "group:fs"]), st.booleans())
def test_deny_entry_never_adds_tool(query, everyone, agent, entry, in_agent):
    before = evaluate(query, PolicyRules(1, (everyone, agent))).kept
    row = agent if in_agent else everyone
    changed = RuleRow(row.scope, row.subject, row.profile, row.allow, (*row.deny, entry), row.also_allow)
    rows = (everyone, changed) if in_agent else (changed, agent)
    assert set(evaluate(query, PolicyRules(1, rows)).kept) <= set(before)


@settings(deadline=None)
@given(queries, rule_sets)
def test_query_verdict_and_rules_round_trip_through_json(query, rules):
    def stored(value):
        return json.loads(json.dumps(value))

    verdict = evaluate(query, rules)
    again = PolicyQuery.from_json(stored(query.to_json()))
    rules_again = PolicyRules.from_snapshot(rules.version, stored(rules.snapshot()))
    assert (again, rules_again) == (query, rules)
    assert evaluate(again, rules_again) == verdict == Verdict.from_json(stored(verdict.to_json()))


@pytest.mark.parametrize(
    "name", ["fs", "runtime", "memory", "web", "sessions", "messaging", "ui", "automation", "nodes", "openclaw"]
)
def test_every_documented_group_can_be_denied(name):
    members = {tool.name for tool in EVERYTHING if name in tool.groups}
    assert members
    assert kept(FULL, RuleRow("agent", "main", deny=(f"group:{name}",)), is_owner=True) == NATIVE_NAMES - members


parts = st.text(alphabet="a#/%@:2", min_size=1, max_size=4)
group_places = st.builds(RuleRow, st.just("group"), channel=st.just("irc"), group=parts, sender=st.one_of(st.just(""), parts))


@given(group_places, group_places)
def test_different_scopes_have_different_keys(one, other):
    assert (one.key == other.key) == (one.scope_values == other.scope_values)


def test_group_id_that_looks_like_sender_is_escaped():
    assert RuleRow("group", channel="irc", group="#go").key == "group:irc/%23go"
    assert RuleRow("group", channel="telegram", group="-100", sender="anna").key == "group:telegram/-100#anna"


@pytest.mark.parametrize(
    ("rows", "asked", "layer", "named"),
    [
        (
            (RuleRow("global", provider="openai", deny=("exec",)), RuleRow("global", provider="openai/gpt-5", profile="full")),
            {"provider": "openai", "model": "gpt-5"},
            "global_provider",
            "global@openai/gpt-5",
        ),
        (
            (
                RuleRow("global", provider="openai", profile="minimal"),
                RuleRow("global", provider="openai/gpt-5", deny=("cron",)),
            ),
            {"provider": "openai", "model": "gpt-5"},
            "provider_profile",
            "global@openai/gpt-5",
        ),
        (
            (RuleRow("agent", "main", provider="openai", deny=("exec",)), RuleRow("agent", "main", provider="openai/gpt-5")),
            {"provider": "openai", "model": "gpt-5"},
            "agent_provider",
            "agent:main@openai/gpt-5",
        ),
        (
            (
                RuleRow("group", channel="telegram", group="-1", deny=("exec",)),
                RuleRow("group", channel="telegram", group="-1", sender="anna"),
            ),
            {"channel": "telegram", "group": "-1", "sender": Sender(username="Anna")},
            "group",
            "group:telegram/-1#anna",
        ),
    ],
)
def test_replacing_row_without_limits_is_named_in_trace(rows, asked, layer, named):
    query = PolicyQuery("main", tools=EVERYTHING, **asked)
    step = next(step for step in evaluate(query, PolicyRules(1, (FULL, *rows))).trace["exec"] if step.layer == layer)
    assert (step.effect, step.rule, step.row) == ("none", Reason("policy.no_limit"), named)
    nobody = next(step for step in evaluate(query, PolicyRules(1, (FULL,))).trace["exec"] if step.layer == layer)
    assert (nobody.effect, nobody.rule, nobody.row) == ("none", Reason("policy.no_rule"), "")
