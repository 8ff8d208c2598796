"""The manual of the tool policy, sentence by sentence: each case quotes a sentence and checks it.

Chapters 2.2 groups, 2.3 lists of plugins only, 3.1 to 3.3 one policy and nine layers, 5 the order.
The rest is in test_policy_seed_layers.py and test_policy_seed_groups.py.
Where the manual leaves something open, the case says what was decided.
"""

import itertools

import pytest

from clawsite.infra.errors import InvalidRequest
from tests.unit.policy_cases import (
    ALL,
    ANYWHERE,
    FULL,
    GROUPS,
    PLUGIN_TOOLS,
    TOOLS,
    Case,
    agent_row,
    check_case,
    evaluate_rows,
    global_row,
    group_row,
    parametrize_cases,
    validated_row,
)
from tools_app.core.definition import ToolArgs, ToolEnv, text_result, tool
from tools_app.policy.matcher import ONLY_PLUGINS, LayerPolicy
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.sources.registry import ToolRegistry
from tools_app.toolset import build_toolset

# 2.2


@pytest.mark.parametrize("name", GROUPS)
def test_group_matches_all_its_tools(name):
    core = ("canvas",)  # so that no list names only plugins
    check_case(Case(f"{name} in allow", (global_row(allow=(name, *core)),), exactly=GROUPS[name] | {*core}))
    check_case(Case(f"{name} in deny", (global_row(deny=(name,)),), exactly=ALL - GROUPS[name]))


@pytest.mark.parametrize("name", GROUPS)
def test_group_equals_listing_its_tools(name):
    listed = evaluate_rows([global_row(allow=("canvas", *sorted(GROUPS[name])), deny=("message",))])
    assert evaluate_rows([global_row(allow=("canvas", name), deny=("message",))]).kept == listed.kept


@parametrize_cases(
    Case(
        "2.2 `allow: [msteams]` lets through every tool of the plugin msteams",
        (global_row(allow=("msteams", "read")),),
        exactly={"msteams_post", "msteams_read", "read"},
    ),
    Case(
        "2.2 `allow: [group:plugins]` lets through the tools of all plugins",
        (global_row(allow=("group:plugins", "read")),),
        exactly={*PLUGIN_TOOLS, "read"},
    ),
    Case(
        "2.2 a plugin's id in deny refuses all its tools",
        (global_row(deny=("msteams",)),),
        refused=["msteams_post", "msteams_read"],
    ),
    Case("2.2 one plugin's id says nothing about another's tools", (global_row(deny=("msteams",)),), kept=["weather_today"]),
)
def test_plugins_are_groups_defined_at_runtime(case):
    check_case(case)


# 2.3

PLUGIN_ONLY = {
    "global": global_row(allow=("msteams",)),
    "global_provider": RuleRow("global", provider="openai", allow=("msteams",)),
    "agent": agent_row(allow=("msteams",)),
    "agent_provider": agent_row(provider="openai", allow=("msteams",)),
    "group": group_row("-1", allow=("msteams",)),
}


@pytest.mark.parametrize("layer", PLUGIN_ONLY)
def test_allowlist_with_only_plugin_tools_is_dropped(layer):
    verdict = evaluate_rows([FULL, PLUGIN_ONLY[layer]], **ANYWHERE)
    assert set(verdict.kept) == ALL
    (step,) = [step for step in verdict.trace["read"] if step.layer == layer]
    assert (step.effect, step.rule.code) == ("none", ONLY_PLUGINS)


@parametrize_cases(
    Case(
        "2.3 only the allow list goes: `{...policy, allow: undefined}`",
        (global_row(allow=("msteams",), deny=("exec",)),),
        kept=["read", "msteams_post"],
        refused=["exec"],
        by="global",
    ),
    Case(
        "2.3 with one core entry the list stands",
        (global_row(allow=("msteams", "exec")),),
        exactly={"msteams_post", "msteams_read", "exec"},
    ),
    Case(
        "2.3 tools of plugins, each by its name, are a list of plugins",
        (global_row(allow=("msteams_post", "weather")),),
        exactly=ALL,
    ),
    Case("2.3 `group:plugins` alone is a list of plugins", (global_row(allow=("group:plugins",)),), exactly=ALL),
    Case(
        "2.3 use alsoAllow to add a plugin's tools",
        (RuleRow("global", profile="minimal", also_allow=("msteams",)),),
        exactly={"session_status", "msteams_post", "msteams_read"},
    ),
    Case("2.3 decided: `*` is a core entry", (global_row(allow=("*", "msteams")),), exactly=ALL),
    Case(
        "2.3 decided: a pattern that fits a core tool is a core entry",
        (global_row(allow=("m*",)),),
        exactly={"memory_search", "memory_get", "message", "msteams_post", "msteams_read"},
    ),
    Case("2.3 decided: a pattern that fits plugin tools only is not", (global_row(allow=("msteams_*",)),), exactly=ALL),
    Case(
        "2.3 decided: a typo never opens a layer",
        (global_row(allow=("msteams", "msteems")),),
        exactly={"msteams_post", "msteams_read"},
    ),
    Case(
        "2.3 decided: nor does a plugin that is not enabled",
        (global_row(allow=("msteams",)),),
        exactly=(),
        ask={"plugins": (), "tools": ToolRegistry.build([]).nameable},
    ),
)
def test_plugin_only_lists_match_manual(case):
    check_case(case)


# 3.1 and 3.2


@parametrize_cases(
    Case("3.1 allow takes exact names", (global_row(allow=("exec",)),), exactly={"exec"}),
    Case("3.1 allow takes groups", (global_row(allow=("group:runtime",)),), exactly={"exec", "process"}),
    Case("3.1 allow takes wildcards", (global_row(allow=("web_*",)),), exactly={"web_search", "web_fetch"}),
    Case(
        "3.1 deny is stronger than allow",
        (global_row(allow=("exec", "read"), deny=("exec",)),),
        exactly={"read"},
        refused=["exec"],
        by="global",
    ),
    Case("3.2 deny matches: refused", (global_row(deny=("exec",)),), refused=["exec"], by="global"),
    Case("3.2 allow is empty: let through, no list is no limit", (global_row(deny=("exec",)),), exactly=ALL - {"exec"}),
    Case("3.2 allow matches: let through", (global_row(allow=("read",)),), kept=["read"]),
    Case("3.2 there is a list and it does not match: refused", (global_row(allow=("read",)),), refused=ALL - {"read"}, by="global"),
    Case("3.2 pattern `*` matches everything", (global_row(allow=("*",)),), exactly=ALL),
    Case("3.2 … also in deny", (global_row(deny=("*",)),), exactly=()),
    Case("3.2 pattern `exec` matches exec alone", (global_row(deny=("exec",)),), exactly=ALL - {"exec"}),
    Case(
        "3.2 pattern `sessions_*` matches sessions_list, sessions_send and so on",
        (global_row(allow=("sessions_*",)),),
        exactly={"sessions_list", "sessions_history", "sessions_send", "sessions_spawn"},
    ),
    Case(
        "3.2 groups are expanded before matching",
        (global_row(deny=("group:fs",)),),
        refused=["read", "write", "edit", "apply_patch"],
        by="global",
    ),
    Case(
        "3.2 … so deny of a group is stronger than allow of its tool",
        (global_row(allow=("read", "exec"), deny=("group:fs",)),),
        exactly={"exec"},
    ),
    Case(
        "3.2 decided: names are compared in lower case, without blanks",
        (global_row(allow=(" Exec ", "GROUP:WEB")),),
        exactly={"exec", "web_search", "web_fetch"},
    ),
    Case(
        "3.2 decided: `bash` is exec, `apply-patch` apply_patch",
        (global_row(allow=("bash", "apply-patch")),),
        exactly={"exec", "apply_patch"},
    ),
)
def test_single_policy_is_applied_to_single_tool(case):
    check_case(case)


# 3.3

NINE = ("profile", "provider_profile", "global", "global_provider", "agent", "agent_provider", "group", "sandbox", "subagent")
NO_EXEC = {
    "profile": [RuleRow("global", profile="messaging")],
    "provider_profile": [FULL, RuleRow("global", provider="openai", profile="messaging")],
    "global": [global_row(deny=("exec",))],
    "global_provider": [FULL, RuleRow("global", provider="openai", deny=("exec",))],
    "agent": [FULL, agent_row(deny=("exec",))],
    "agent_provider": [FULL, agent_row(provider="openai", deny=("exec",))],
    "group": [FULL, group_row("-1", deny=("exec",))],
    "sandbox": [FULL, RuleRow("sandbox", allow=("read",))],
    "subagent": [FULL, RuleRow("subagent", deny=("exec",))],
}
IN_ALL_LAYERS = {**ANYWHERE, "sandboxed": True, "is_subagent": True}


@pytest.mark.parametrize("layer", NINE)
def test_tool_must_pass_every_layer(layer):
    verdict = evaluate_rows(NO_EXEC[layer], **IN_ALL_LAYERS)
    assert verdict.refused_by("exec").layer == layer
    assert [step.layer for step in verdict.trace["exec"] if step.effect == "deny"] == [layer]


def test_layers_are_evaluated_in_documented_order():
    verdict = evaluate_rows([FULL], **IN_ALL_LAYERS)
    assert all(tuple(step.layer for step in steps[1:]) == NINE for steps in verdict.trace.values())


@pytest.mark.parametrize(("earlier", "later"), list(itertools.pairwise(NINE)))
def test_first_denying_layer_is_reported(earlier, later):
    rows = [row for row in (*NO_EXEC[earlier], *NO_EXEC[later]) if row != FULL]
    verdict = evaluate_rows([FULL, *rows], **IN_ALL_LAYERS)
    assert [step.layer for step in verdict.trace["exec"] if step.effect == "deny"] == [earlier, later]
    assert verdict.refused_by("exec").layer == earlier


def test_later_layer_cannot_restore_denied_tool():
    rows = [
        RuleRow("global", profile="minimal"),
        agent_row(allow=("*",)),
        group_row("-1", allow=("*",)),
        RuleRow("sandbox", allow=("*",)),
    ]
    assert evaluate_rows(rows, **ANYWHERE).kept == ("session_status",)


# 5


class NoArgs(ToolArgs):
    pass


def factory(name, **options):
    @tool(name, args=NoArgs, **options)
    def make(env):
        """A tool."""

        async def run(args, call):
            return text_result("done")

        return run

    return make


KNOWN = ToolRegistry.build(
    [(factory("image"), ""), (factory("whatsapp_login"), ""), (factory("agents_list"), ""), (factory("msteams_post"), "msteams")]
)


def offered(rows, **who):
    env = ToolEnv(None, "main", 1, "s", "agent:main:main")
    return build_toolset(env, PolicyQuery("main", **who), PolicyRules(1, tuple(rows)), KNOWN)


def test_owner_gate_precedes_nine_layers():
    verdict = evaluate_rows([global_row(deny=("*",))], is_owner=False)
    assert all(steps[0].layer == "owner" for steps in verdict.trace.values())
    assert verdict.refused_by("whatsapp_login").layer == "owner"


def test_plugins_are_resolved_before_layers_are_evaluated():
    assert set(offered([global_row(allow=("msteams",))], is_owner=True).tools) == set(KNOWN.tools)
    assert set(offered([global_row(allow=("msteams", "image"))]).tools) == {"msteams_post", "image"}


def test_model_sees_only_remaining_tools():
    found = offered([global_row(deny=("agents_list",))])
    assert [spec["name"] for spec in found.specs()] == ["image", "msteams_post"]
    assert found.verdict.refused_by("whatsapp_login").layer == "owner"
    assert found.verdict.refused_by("agents_list").layer == "global"


# What the manual leaves open: an entry that can't have its intended effect is rejected on save, and allows nothing if stored.

SENSELESS = {
    "an unknown profile": {"scope": "global", "profile": "codng"},
    "an unknown tool": {"scope": "global", "allow": ["reed"]},
    "an unknown group": {"scope": "global", "allow": ["group:files"]},
    "a pattern of groups": {"scope": "global", "allow": ["group:*"]},
    "a plugin that is not there": {"scope": "global", "allow": ["msteems"]},
    "a blank entry": {"scope": "global", "allow": [""]},
    "an entry of blanks": {"scope": "global", "allow": ["   "]},
    "a star that is not at the end": {"scope": "global", "allow": ["*d"]},
}


@pytest.mark.parametrize("fields", SENSELESS.values(), ids=SENSELESS)
def test_meaningless_row_is_rejected_and_allows_no_tools(fields):
    with pytest.raises(InvalidRequest):
        validated_row(**fields)
    lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    row = RuleRow(**{"profile": "full"} | fields | lists)
    assert evaluate_rows([row]).kept == ()


@pytest.mark.parametrize("entry", ["reed", "group:files", "group:*", "", "*d"])
def test_unknown_deny_entry_has_no_effect(entry):
    with pytest.raises(InvalidRequest):
        validated_row(scope="global", deny=[entry])
    assert set(evaluate_rows([global_row(deny=(entry,))]).kept) == ALL
    assert [step.effect for step in LayerPolicy(allow=("read",), deny=(entry,)).judge("agent", TOOLS[:1])] == ["allow"]
