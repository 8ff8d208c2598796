"""Properties that hold for all rows and queries, and for each property a mutation that it must detect."""

import json
from dataclasses import replace

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from tests.harness import reference_policy
from tests.unit.policy_strategies import PLUGIN_NAMES, PLUGINS, TOOLS, queries, rows, rule_sets
from tools_app import authorize
from tools_app.authorize import authorize_tool_call
from tools_app.core.definition import CallRef, ToolArgs, ToolEnv, text_result, tool
from tools_app.policy import evaluation, expectations, layers, matcher
from tools_app.policy.catalog import GROUP_BY_TOOL, GROUPS, NATIVE_NAMES
from tools_app.policy.evaluation import Verdict, evaluate
from tools_app.policy.expectations import Expectation, find_broken
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.sources.registry import ToolRegistry
from tools_app.toolset import build_toolset

FULL = RuleRow("global", profile="full")


def kept(query, rules):
    return set(evaluate(query, rules).kept)


# The properties: functions of values that hypothesis generates.


def agrees_with_the_plain_version(query, rules):
    assert kept(query, rules) == reference_policy.kept(query, rules)


def deny_always_wins(query, rules):
    """A tool that a deny entry names, in any rule that applies, is denied, whatever is allowed elsewhere."""
    passed = kept(query, rules)
    for row in reference_policy.applicable_rows(query, rules):
        for facts in query.tools:
            if any(reference_policy.names(entry, facts) for entry in row.deny):
                assert facts.name not in passed


def a_new_layer_never_adds_a_tool(query, rules, row):
    """A row with lists, in a layer that had no rule before, only removes tools or changes nothing.

    This excludes rows that replace something: a profile or also-allow (the default or global one), a model's row (its
    provider's), a sender's or group's row (a more general one), a sandbox row (the fixed list).
    """
    row = replace(row, profile="", also_allow=())
    assume(all(each.scope_values != row.scope_values for each in rules.rows))
    if row.scope == "sandbox":
        assume(not query.sandboxed)
    if row.scope == "group":
        assume(reference_policy.in_group(query, rules) is reference_policy.NOTHING)
    if row.provider:
        assume(reference_policy.for_provider(query, rules, row.scope, row.subject) is reference_policy.NOTHING)
    assert kept(query, rules.with_row(row)) <= kept(query, rules)


def being_somewhere_narrower_never_adds_a_tool(query, rules):
    """An isolated workspace, a subagent, a guest and a group each have at most the tools there are without it."""
    at_most = kept(replace(query, sandboxed=False, is_subagent=False, is_owner=True, group=""), rules)
    for narrower in (
        replace(query, sandboxed=True),
        replace(query, is_subagent=True),
        replace(query, is_owner=False),
        replace(query, group="-1"),
    ):
        assert kept(narrower, rules) <= at_most
    assert kept(replace(query, sandboxed=True), rules) <= kept(replace(query, sandboxed=False), rules)
    assert kept(replace(query, is_subagent=True), rules) <= kept(replace(query, is_subagent=False), rules)


def order_does_not_matter(query, rules, random):
    def mixed(values):
        return tuple(random.sample(values, len(values)))

    shuffled = [replace(row, allow=mixed(row.allow), deny=mixed(row.deny), also_allow=mixed(row.also_allow)) for row in rules.rows]
    one, other = evaluate(query, rules), evaluate(query, replace(rules, rows=mixed(shuffled)))
    assert one.kept == other.kept
    for name in one.trace:
        assert [(step.effect, step.row) for step in one.trace[name]] == [(step.effect, step.row) for step in other.trace[name]]


def explanation_agrees_with_enforcement(query, rules):
    """The tools shown to the model, the authorized calls and the stored verdict agree."""
    toolset = build_toolset(ToolEnv(None, query.agent, 1, "s", "k"), query, rules, EVERY_TOOL)
    verdict = evaluate(toolset.query, rules)
    assert tuple(toolset.tools) == verdict.kept
    for name in EVERY_TOOL.tools:
        decided = authorize_tool_call(CallRef("c1", name, {}), toolset=toolset, rules=rules)
        assert (decided.permit is not None) == (decided.effect == "allow") == (name in toolset.tools)
        stored = Verdict.from_json(json.loads(json.dumps(decided.verdict)))
        refused = stored.refused_by(name)
        assert (decided.layer, decided.rule) == ((refused.layer, refused.rule) if refused else ("", None))
        assert stored.explain(name) == verdict.explain(name)


def groups_are_the_same_everywhere(group, facts):
    """A group has the same members in the list of names, the layers, policy tests and the check for known entries."""
    member = group in facts.groups
    if not facts.plugin:
        assert member == (group == "openclaw" or GROUP_BY_TOOL[facts.name] == group)
    entry = f"group:{group}"
    query = PolicyQuery("main", is_owner=True, tools=(facts,), plugins=PLUGIN_NAMES)
    assert (facts.name not in kept(query, PolicyRules(1, (replace(FULL, deny=(entry,)),)))) == member
    only_this = PolicyRules(1, (replace(FULL, deny=tuple({tool.name for tool in TOOLS} - {facts.name})),))
    found = find_broken([Expectation("t", "never", entry)], only_this, TOOLS, PLUGIN_NAMES)
    assert [fault.tool for fault in found] == [facts.name] * member
    assert EVERY_TOOL.knows(entry)
    assert matcher.classify_entry(entry, frozenset(PLUGIN_NAMES)) == ("plugin" if group == "plugins" else "core")


def all_survives_json(query, rules):
    def stored(value):
        return json.loads(json.dumps(value))

    again = PolicyQuery.from_json(stored(query.to_json()))
    rules_again = PolicyRules.from_snapshot(rules.version, stored(rules.snapshot()))
    assert (again, rules_again) == (query, rules)
    verdict = evaluate(query, rules)
    assert evaluate(again, rules_again) == verdict == Verdict.from_json(stored(verdict.to_json()))


def a_kept_promise_of_never_is_kept(expectation, rules, query):
    """If a `never` test passes, no query it covers allows the tool."""
    promise = replace(expectation, expected="never")
    if find_broken([promise], rules, TOOLS, PLUGIN_NAMES):
        return
    asked = fitting(promise, query)
    named = {facts.name for facts in TOOLS if reference_policy.names(promise.tool, facts)}
    assert not named & kept(asked.about(TOOLS), rules)


def a_kept_promise_of_allowed_is_kept(expectation, rules, query):
    """If an `allowed` test passes, every query of the owner that it covers allows the tool."""
    promise = replace(expectation, expected="allowed")
    if find_broken([promise], rules, TOOLS, PLUGIN_NAMES):
        return
    asked = replace(
        fitting(promise, query),
        is_owner=True,
        is_subagent=promise.subagent,
        sandboxed=promise.sandboxed,
        group=promise.group and (query.group or "-3") if promise.group == "*" else promise.group,
    )
    named = {facts.name for facts in TOOLS if reference_policy.names(promise.tool, facts)}
    assert named <= kept(asked.about(TOOLS), rules)


def fitting(expectation, query):
    """The query with the fields that the expectation names."""
    provider, _, model = expectation.provider.partition("/")
    if not expectation.provider:
        provider, model = query.provider, query.model
    return replace(
        query,
        agent=expectation.agent or query.agent,
        provider=provider,
        model=model or query.model,
        channel=expectation.channel or query.channel,
        group=(query.group or "-3") if expectation.group == "*" else expectation.group or query.group,
        sender=type(query.sender)(username=expectation.sender) if expectation.sender else query.sender,
        is_subagent=expectation.subagent or query.is_subagent,
        sandboxed=expectation.sandboxed or query.sandboxed,
        plugins=PLUGIN_NAMES,
    )


class NoArgs(ToolArgs):
    pass


def factory(name):
    @tool(name, args=NoArgs, group=GROUP_BY_TOOL.get(name, ""))
    def make(env):
        """A tool."""

        async def run(args, call):
            return text_result("done")

        return run

    return make


EVERY_TOOL = ToolRegistry.build(
    [(factory(name), "") for name in sorted(NATIVE_NAMES)]
    + [(factory(name), plugin) for plugin, names in PLUGINS.items() for name in names]
)

expectation_words = st.builds(
    Expectation,
    st.just("a test"),
    st.just("never"),
    st.sampled_from(["exec", "exec", "read", "group:fs", "sessions_*", "acme"]),
    agent=st.sampled_from(["", "", "main", "other"]),
    provider=st.sampled_from(["", "", "openai", "openai/gpt-5", "google"]),
    channel=st.sampled_from(["", "telegram"]),
    group=st.sampled_from(["", "", "-1", "*"]),
    sender=st.sampled_from(["", "", "anna"]),
    sandboxed=st.booleans(),
    subagent=st.booleans(),
)
# Rules about the tools in the expectations; otherwise few expectations would pass and there would be little to check.
PLACES = [
    *(RuleRow("global", provider=key) for key in ("openai", "openai/gpt-5")),
    *(RuleRow("agent", "main", provider=key) for key in ("", "openai", "openai/gpt-5")),
    *(RuleRow("group", channel="telegram", group=group, sender=sender) for group in ("-1", "*") for sender in ("", "anna")),
    RuleRow("sandbox"),
]
plain_rules = st.tuples(*(st.sampled_from([None, ("cron",), ("exec", "group:fs")]) for _ in PLACES)).map(
    lambda found: PolicyRules(1, (FULL, *(replace(row, deny=deny) for row, deny in zip(PLACES, found, strict=True) if deny)))
)
promised = (expectation_words, plain_rules | rule_sets, queries)
GIVEN = {
    agrees_with_the_plain_version: (queries, rule_sets),
    deny_always_wins: (queries, rule_sets),
    a_new_layer_never_adds_a_tool: (queries, rule_sets, rows),
    being_somewhere_narrower_never_adds_a_tool: (queries, rule_sets),
    order_does_not_matter: (queries, rule_sets, st.randoms(use_true_random=False)),
    explanation_agrees_with_enforcement: (queries, rule_sets),
    groups_are_the_same_everywhere: (st.sampled_from(sorted(GROUPS)), st.sampled_from(TOOLS)),
    all_survives_json: (queries, rule_sets),
    a_kept_promise_of_never_is_kept: promised,
    a_kept_promise_of_allowed_is_kept: promised,
}


def look(check, **options):
    """Let hypothesis search for a counterexample."""
    found = settings(deadline=None, report_multiple_bugs=False, database=None, **options)
    found(given(*GIVEN[check])(check))()


@pytest.mark.parametrize("check", GIVEN, ids=lambda check: check.__name__)
def test_property_holds(check):
    look(check, max_examples=100)


# One mutation per property.


def allow_is_asked_before_deny(monkeypatch):
    judge = matcher.LayerPolicy.judge

    def swapped(self, layer, tools):
        allowed = matcher.compile_entries(self.allow)
        for facts, step in zip(tools, judge(self, layer, tools), strict=True):
            yield replace(step, effect="allow") if allowed.find(facts) else step

    monkeypatch.setattr(matcher.LayerPolicy, "judge", swapped)


def the_provider_comes_before_the_model(monkeypatch):
    monkeypatch.setattr(
        layers,
        "_find_provider_row",
        lambda scope, subject, query, rules: rules.find(scope, subject, provider=query.provider.lower()),
    )


def a_layer_speaks_only_where_the_one_before_is_silent(monkeypatch):
    profile = layers.profile_policy

    def instead(query, rules):
        return profile(query, rules) if rules.row("agent", query.agent).is_empty else None

    _instead_of(monkeypatch, "profile", instead)


def a_sandbox_is_a_place_of_its_own(monkeypatch):
    profile = layers.profile_policy
    _instead_of(monkeypatch, "profile", lambda query, rules: None if query.sandboxed else profile(query, rules))


def only_the_first_two_entries_are_read(monkeypatch):
    ready = matcher.compile_entries
    monkeypatch.setattr(matcher, "compile_entries", lambda entries: ready(entries[:2]))


def the_door_knows_no_subagents(monkeypatch):
    monkeypatch.setattr(authorize, "evaluate", lambda query, rules: evaluate(replace(query, is_subagent=False), rules))


def groups_are_patterns(monkeypatch):
    """`group:sessions` as everything that begins with `sessions`: almost right."""
    find = matcher.EntryMatcher.find

    def by_name(self, facts):
        return find(self, replace(facts, groups=())) or next(
            (self.exact[entry] for entry in self.exact if facts.name.startswith(entry.removeprefix("group:"))), None
        )

    monkeypatch.setattr(matcher.EntryMatcher, "find", by_name)


def the_sandbox_is_not_stored(monkeypatch):
    to_json = PolicyQuery.to_json
    monkeypatch.setattr(PolicyQuery, "to_json", lambda self: {k: v for k, v in to_json(self).items() if k != "sandboxed"})


def tests_look_at_no_model(monkeypatch):
    monkeypatch.setattr(expectations, "_models", lambda expectation, rules, agent: [expectation.provider])


def tests_look_at_no_group(monkeypatch):
    monkeypatch.setattr(
        expectations, "_group_contexts", lambda expectation, rules: [(expectation.channel, expectation.group, expectation.sender)]
    )


def one_plugin_in_a_list_is_enough_to_drop_it(monkeypatch):
    def some(entries, plugins):
        return any(matcher.classify_entry(entry, frozenset(plugins)) == "plugin" for entry in entries)

    monkeypatch.setattr(layers, "has_only_plugins", some)


def _instead_of(monkeypatch, name, resolve):
    changed = tuple(layers.Layer(layer.name, resolve) if layer.name == name else layer for layer in layers.LAYERS)
    monkeypatch.setattr(evaluation, "LAYERS", changed)


FAULTS = [
    (allow_is_asked_before_deny, deny_always_wins),
    (the_provider_comes_before_the_model, agrees_with_the_plain_version),
    (one_plugin_in_a_list_is_enough_to_drop_it, agrees_with_the_plain_version),
    (a_layer_speaks_only_where_the_one_before_is_silent, a_new_layer_never_adds_a_tool),
    (a_sandbox_is_a_place_of_its_own, being_somewhere_narrower_never_adds_a_tool),
    (only_the_first_two_entries_are_read, order_does_not_matter),
    (the_door_knows_no_subagents, explanation_agrees_with_enforcement),
    (groups_are_patterns, groups_are_the_same_everywhere),
    (the_sandbox_is_not_stored, all_survives_json),
    (tests_look_at_no_model, a_kept_promise_of_never_is_kept),
    (tests_look_at_no_group, a_kept_promise_of_never_is_kept),
    (tests_look_at_no_group, a_kept_promise_of_allowed_is_kept),
]


@pytest.mark.parametrize(("fault", "check"), FAULTS, ids=lambda value: value.__name__)
def test_mutation_breaks_property(monkeypatch, fault, check):
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        # Always the same cases and no shrinking: it only matters that the mutation is detected.
        look(check, max_examples=10_000, derandomize=True, phases=[Phase.generate])
