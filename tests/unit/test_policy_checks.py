"""Errors that prevent saving a row, and warnings about a row that won't do what it looks like."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from clawsite.infra.errors import InvalidRequest
from tests.unit.policy_strategies import PLUGINS
from tests.unit.test_policy_properties import EVERY_TOOL, factory
from tools_app.models import ToolPolicy
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.policy_store import checks, known_agents
from tools_app.policy_store.checks import find_errors, find_warnings, normalize_row, validate_row
from tools_app.sources.registry import ToolRegistry

NOTHING = PolicyRules(1)


@pytest.fixture(autouse=True)
def agents(monkeypatch):
    """Every agent exists except one."""
    monkeypatch.setattr(known_agents, "_agent_exists", lambda slug: slug != "mian")


def test_rule_for_missing_agent_has_warning():
    assert warnings(scope="agent", subject="mian", deny=["exec"]) == [("subject", "Agent “mian” does not exist.")]
    assert warnings(scope="agent", subject="main", deny=["exec"]) == []


@pytest.fixture(autouse=True)
def with_plugins(monkeypatch):
    """All native tools, and the plugins acme and weather."""
    monkeypatch.setattr(checks, "load_tools", lambda: EVERY_TOOL)
    assert set(PLUGINS) < set(EVERY_TOOL.plugin_names)


def faults(**fields):
    return [(fault.field, fault.message) for fault in find_errors(normalize_row(**fields))]


def warnings(rules=NOTHING, **fields):
    rule = normalize_row(**fields)
    assert faults(**fields) == []
    found = list(find_warnings(rule, rules))
    assert all(each.level == "warning" for each in found)
    return [(each.field, each.message) for each in found]


NO_ENTRY = "Entry “{}” is not a tool, group or plugin. Write a group as `group:fs` and a family of tools as `sessions_*`."
IN_GROUP = {"scope": "group", "channel": "telegram", "group": "-1"}


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"scope": "planet"}, "scope", "Unknown scope “planet”. Use one of: global, agent, group, sandbox, subagent."),
        ({"scope": ""}, "scope", "Unknown scope “”. Use one of: global, agent, group, sandbox, subagent."),
        ({"scope": "global", "subject": "main"}, "subject", "Scope global does not use subject. Leave it blank."),
        ({"scope": "global", "channel": "telegram"}, "channel", "Scope global does not use channel. Leave it blank."),
        ({"scope": "agent", "subject": "main", "group": "-1"}, "group", "Scope agent does not use group. Leave it blank."),
        ({"scope": "agent", "subject": "main", "sender": "anna"}, "sender", "Scope agent does not use sender. Leave it blank."),
        ({**IN_GROUP, "provider": "openai"}, "provider", "Scope group does not use provider. Leave it blank."),
        ({**IN_GROUP, "subject": "main"}, "subject", "Scope group does not use subject. Leave it blank."),
        ({"scope": "sandbox", "provider": "openai"}, "provider", "Scope sandbox does not use provider. Leave it blank."),
        ({"scope": "subagent", "subject": "main"}, "subject", "Scope subagent does not use subject. Leave it blank."),
        (
            {"scope": "agent"},
            "subject",
            "“” is not a valid agent ID. Use lowercase letters, digits, - and _, at most 64 characters.",
        ),
        (
            {"scope": "sandbox", "subject": "no slug"},
            "subject",
            "“no slug” is not a valid agent ID. Use lowercase letters, digits, - and _, at most 64 characters.",
        ),
        (
            {"scope": "global", "provider": "open ai"},
            "provider",
            "“open ai” is neither a provider, such as `openai`, nor a model, such as `openai/gpt-5`.",
        ),
        ({"scope": "global", "provider": "openai/" + "x" * 200}, "provider", "Use at most 200 visible characters."),
        ({**IN_GROUP, "group": "x" * 201}, "group", "Use at most 200 visible characters."),
        ({**IN_GROUP, "sender": "a\x00b"}, "sender", "Use at most 200 visible characters."),
        ({"scope": "group", "group": "-1"}, "channel", "A group rule needs a channel, such as `telegram`."),
        (
            {"scope": "group", "channel": "telegram"},
            "group",
            "A group rule needs a group: its ID, or `*` for all groups in the channel.",
        ),
        (
            {"scope": "global", "profile": "codng"},
            "profile",
            "Unknown tool profile “codng”. Use one of: minimal, coding, messaging, full.",
        ),
        (
            {**IN_GROUP, "profile": "coding"},
            "profile",
            "Only the scopes “everyone” and “agent” can have a tool profile and “also allow”.",
        ),
        (
            {"scope": "sandbox", "also_allow": ["read"]},
            "also_allow",
            "Only the scopes “everyone” and “agent” can have a tool profile and “also allow”.",
        ),
        (
            {"scope": "subagent", "profile": "full"},
            "profile",
            "Only the scopes “everyone” and “agent” can have a tool profile and “also allow”.",
        ),
        ({"scope": "global", "allow": [""]}, "allow", "An entry is blank."),
        ({"scope": "global", "deny": ["  "]}, "deny", "An entry is blank."),
        ({"scope": "global", "deny": ["r*d"]}, "deny", "Entry “r*d”: `*` is only allowed at the end."),
        ({"scope": "global", "deny": ["**"]}, "deny", "Entry “**”: `*` is only allowed at the end."),
        ({"scope": "global", "also_allow": ["reed"]}, "also_allow", NO_ENTRY.format("reed")),
        ({"scope": "global", "deny": ["fs"]}, "deny", NO_ENTRY.format("fs")),
        ({"scope": "global", "deny": ["group:files"]}, "deny", NO_ENTRY.format("group:files")),
        ({"scope": "global", "deny": ["group:f*"]}, "deny", NO_ENTRY.format("group:f*")),
        ({"scope": "global", "deny": ["acne"]}, "deny", NO_ENTRY.format("acne")),
        (
            {"scope": "global", "deny": [f"old_{number}_*" for number in range(501)]},
            "deny",
            "More than 500 entries. Use groups or patterns.",
        ),
    ],
)
def test_error_is_reported_at_its_field(fields, field, words):
    assert faults(**fields) == [(field, words)]
    with pytest.raises(InvalidRequest) as refusal:
        validate_row(**fields)
    assert str(refusal.value) == words


def test_all_errors_are_reported_together():
    found = faults(scope="agent", subject="", profile="codng", deny=["reed", ""])
    assert [field for field, _words in found] == ["subject", "profile", "deny", "deny"]


def test_length_limits_match_database_columns():
    assert {name: ToolPolicy._meta.get_field(name).max_length for name in checks.MAX_LENGTHS} == checks.MAX_LENGTHS


@pytest.mark.parametrize(
    "fields",
    [
        {
            "scope": "global",
            "provider": "openrouter/meta-llama/llama-3.1-8b:free",
            "profile": "coding",
            "also_allow": ["group:web"],
        },
        {"scope": "agent", "subject": "support-bot", "provider": "openai", "deny": ["*"]},
        {"scope": "group", "channel": "telegram", "group": "*", "sender": "*", "deny": ["group:runtime"]},
        {"scope": "group", "channel": "matrix", "group": "!abc:example.org", "sender": "Anna B", "allow": ["acme", "read"]},
        {"scope": "sandbox", "allow": ["acme_post"]},
        {"scope": "sandbox", "subject": "main"},
        {"scope": "subagent", "allow": ["read"]},
        {"scope": "global", "deny": ["not_there_yet_*"]},
    ],
)
def test_every_scope_is_valid(fields):
    assert faults(**fields) == []


def test_row_is_normalized():
    given = {
        "scope": " Group ",
        "channel": " Telegram",
        "group": " -100Ab ",
        "sender": " @Anna",
        "allow": [" Read", "read", "BASH"],
        "deny": ("exec", "apply-patch"),
    }
    assert normalize_row(**given) == RuleRow(
        "group", channel="telegram", group="-100Ab", sender="anna", allow=("read", "exec"), deny=("exec", "apply_patch")
    )


# Warnings.

ONLY_PLUGINS = (
    "This allowlist names only plugins, so it is ignored; otherwise it would remove every other tool. "
    "To add tools, use “also allow”."
)
NO_LISTS = "This rule replaces `{}` and has no lists, so what that rule allows and denies does not apply here."
CODING = PolicyRules(1, (RuleRow("global", profile="coding"),))
FULL = PolicyRules(1, (RuleRow("global", profile="full"),))


@pytest.mark.parametrize(
    ("rules", "fields", "field", "words"),
    [
        (FULL, {"scope": "global", "profile": "full", "deny": ["telegram_*"]}, "deny", "“telegram_*” matches no existing tool."),
        (FULL, {"scope": "agent", "subject": "main", "allow": ["acme"]}, "allow", ONLY_PLUGINS),
        (FULL, {**IN_GROUP, "allow": ["group:plugins", "weather_today"]}, "allow", ONLY_PLUGINS),
        (
            NOTHING,
            {"scope": "global", "profile": "full", "also_allow": ["read"]},
            "also_allow",
            "The full profile already allows everything.",
        ),
        (
            CODING,
            {"scope": "agent", "subject": "main", "allow": ["read", "browser"]},
            "allow",
            "“browser” has no effect: denied by layer profile: not in the `coding` profile",
        ),
        (
            CODING,
            {**IN_GROUP, "allow": ["group:fs", "group:web"]},
            "allow",
            "“group:web” has no effect: denied by layer profile: not in the `coding` profile",
        ),
        (
            FULL,
            {"scope": "subagent", "allow": ["read", "cron"]},
            "allow",
            "“cron” has no effect: denied by layer subagent: deny entry `cron` in the subagent list",
        ),
        (
            PolicyRules(1, (RuleRow("global", profile="full", deny=("exec",)),)),
            {"scope": "sandbox", "allow": ["group:fs", "exec"]},
            "allow",
            "“exec” has no effect: denied by layer global: deny entry `exec`",
        ),
        (
            PolicyRules(
                1, (RuleRow("global", profile="full", provider="openai", deny=("exec",)), RuleRow("global", profile="full"))
            ),
            {"scope": "agent", "subject": "main", "provider": "openai/gpt-5", "allow": ["read", "exec"]},
            "allow",
            "“exec” has no effect: denied by layer global_provider: deny entry `exec`",
        ),
        (
            NOTHING,
            {"scope": "agent", "subject": "main", "profile": "minimal", "also_allow": ["read"], "deny": ["read"]},
            "also_allow",
            "“read” has no effect: denied by layer agent: deny entry `read`",
        ),
        (
            FULL,
            {"scope": "global", "provider": "openai", "also_allow": ["read"]},
            "also_allow",
            "“Also allow” adds to a tool profile, and this model has none.",
        ),
        (
            PolicyRules(1, (*FULL.rows, RuleRow("group", channel="telegram", group="-1", sender="*", deny=("exec",)))),
            {**IN_GROUP, "deny": ["cron"]},
            "group",
            "Never applies: the `*` sender rule of this group takes precedence.",
        ),
        (
            PolicyRules(1, (*FULL.rows, RuleRow("global", provider="openai", deny=("exec",)))),
            {"scope": "global", "provider": "openai/gpt-5", "profile": "full"},
            "provider",
            NO_LISTS.format("global@openai"),
        ),
        (
            PolicyRules(1, (*FULL.rows, RuleRow("agent", "main", provider="openai", profile="minimal"))),
            {"scope": "agent", "subject": "main", "provider": "openai/gpt-5", "deny": ["exec"]},
            "provider",
            "This rule replaces `agent:main@openai` and has no tool profile, so the tool profile of that rule does not apply here.",
        ),
        (
            PolicyRules(1, (*FULL.rows, RuleRow("group", channel="telegram", group="*", deny=("exec",)))),
            {**IN_GROUP, "sender": "anna"},
            "group",
            NO_LISTS.format("group:telegram/*"),
        ),
        (FULL, {"scope": "agent", "subject": "main"}, "scope", "This rule is empty and has no effect."),
        (FULL, {"scope": "subagent"}, "scope", "This rule is empty and has no effect."),
        (
            FULL,
            {"scope": "subagent", "deny": ["cron", "group:web"]},
            "deny",
            "“cron” has no effect: subagents never get it.",
        ),
    ],
)
def test_misleading_row_has_warning(rules, fields, field, words):
    assert warnings(rules, **fields) == [(field, words)]


@pytest.mark.parametrize(
    ("rules", "fields"),
    [
        (CODING, {"scope": "agent", "subject": "main", "allow": ["read"], "deny": ["exec"]}),
        (CODING, {"scope": "agent", "subject": "main", "profile": "coding", "also_allow": ["group:web", "acme"]}),
        (FULL, {**IN_GROUP, "allow": ["acme", "message"]}),
        (FULL, {"scope": "global", "provider": "openai", "profile": "coding", "also_allow": ["web_fetch"]}),
        # The entry has an effect for agents without rules.
        (PolicyRules(1, (RuleRow("agent", "main", also_allow=("read",)),)), {"scope": "global", "also_allow": ["web_fetch"]}),
        # Without effect for main, which can't have it, but not for the agent scout.
        (
            PolicyRules(1, (RuleRow("agent", "main", profile="minimal"), RuleRow("agent", "scout", profile="coding"))),
            {**IN_GROUP, "allow": ["read"]},
        ),
        (FULL, {"scope": "sandbox", "allow": ["group:fs"]}),
        (FULL, {"scope": "sandbox", "allow": ["acme"]}),
        (FULL, {"scope": "subagent", "allow": ["acme"]}),
        (FULL, {**IN_GROUP, "sender": "*", "deny": ["exec"]}),
        (FULL, {"scope": "subagent", "deny": ["group:sessions", "group:web"]}),  # `subagents` is not on the fixed list
        (
            PolicyRules(1, (*FULL.rows, RuleRow("global", provider="google", deny=("browser",)))),
            {"scope": "global", "provider": "google/gemini-3-pro", "allow": ["*"]},
        ),
    ],
)
def test_effective_row_has_no_warning(rules, fields):
    assert warnings(rules, **fields) == []


# Names that plugins can't use, and tools that are not offered yet.


def test_plugin_id_is_case_insensitive():
    known = ToolRegistry.build([(factory("acme_post"), "Acme")])
    assert known.plugin_names == ("acme", "acme_post")
    assert known.knows("ACME")


@pytest.mark.parametrize(("name", "plugin"), [("bash", "acme"), ("acme_post", "bash"), ("exec", "acme"), ("acme_post", "Exec")])
def test_plugin_cannot_use_name_of_native_tool(name, plugin):
    """The entry `bash` means exec, so no entry could deny a plugin's tool of that name."""
    with pytest.raises(ImproperlyConfigured, match="native tool"):
        ToolRegistry.build([(factory(name), plugin)])


def test_owner_only_tool_is_owner_only_before_it_is_offered():
    (facts,) = [facts for facts in ToolRegistry.build([]).nameable if facts.name == "whatsapp_login"]
    assert facts.owner_only
