"""From factories to a permit: what the model sees, what is authorized, and that nothing runs without a permit."""

import ast
import copy
import dataclasses
from functools import partial
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

import tools_app
from clawsite.infra.reasons import Reason
from tools_app.authorize import AuthorizedCall, authorize_tool_call
from tools_app.builtin.files.grep import make_grep
from tools_app.builtin.files.read_write import make_edit, make_glob, make_read, make_write
from tools_app.core.definition import CallRef, ToolArgs, ToolEnv, text_result, tool
from tools_app.execute import perform_call
from tools_app.policy.evaluation import evaluate
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.sources.offered import CurrentOffer
from tools_app.sources.registry import ToolRegistry
from tools_app.toolset import build_toolset


class NoArgs(ToolArgs):
    pass


@tool("acme_post", args=NoArgs, owner_only=True)
def make_post(env):
    """Post something."""

    async def post(args, call):
        return text_result("posted")

    return post


FILES = ToolRegistry.build(
    [(factory, "") for factory in (make_read, make_write, make_edit, make_glob, make_grep)] + [(make_post, "acme")]
)
CODING = PolicyRules(1, (RuleRow("global", profile="coding"),))


def env(workspace: Path | None) -> ToolEnv:
    return ToolEnv(workspace, agent="main", owner_id=1, session_id="s", session_key="agent:main:main")


def toolset(rules: PolicyRules, workspace: Path | None = Path("/nowhere"), **who):
    return build_toolset(env(workspace), PolicyQuery("main", **who), rules, FILES)


def ask(name: str, rules: PolicyRules, offered=None, **arguments):
    return authorize_tool_call(CallRef("c1", name, arguments), toolset=offered or toolset(rules), rules=rules)


ACME_DISABLED = Reason("source.plugin_disabled", name="acme")


def full(*rows: RuleRow) -> PolicyRules:
    return PolicyRules(7, (RuleRow("global", profile="full"), *rows))


def test_model_sees_only_allowed_tools():
    found = toolset(full(RuleRow("agent", "main", deny=("write", "edit"))))
    assert [spec["name"] for spec in found.specs()] == ["read", "glob", "grep"]
    assert found.get("write") is None
    assert found.verdict.refused_by("write").rule == Reason("policy.deny_entry", entry="write")


def test_model_gets_docstring_and_argument_schema():
    spec = toolset(CODING).get("glob").spec()
    assert "`**/*`" in spec["description"]
    assert set(spec["parameters"]["properties"]) == {"pattern", "path", "limit"}


def test_run_without_workspace_reports_missing_file_tools():
    found = toolset(CODING, workspace=None)
    assert found.specs() == []
    assert found.unavailable == dict.fromkeys(("read", "write", "edit", "glob", "grep"), Reason("tool.no_workspace"))


def test_policy_denial_takes_precedence_over_unavailability():
    found = toolset(full(RuleRow("agent", "main", deny=("read",))), workspace=None)
    assert "read" not in found.unavailable
    assert found.verdict.refused_by("read").layer == "agent"


def test_plugin_tools_are_in_plugins_group_only():
    assert toolset(PolicyRules(1, (RuleRow("global", profile="full", deny=("group:openclaw",)),)), is_owner=True).tools.keys() == {
        "acme_post"
    }
    assert (
        "acme_post"
        not in toolset(PolicyRules(1, (RuleRow("global", profile="full", allow=("group:openclaw",)),)), is_owner=True).tools
    )


def test_owner_only_tools_are_hidden_from_others():
    assert "acme_post" in toolset(full(), is_owner=True).tools
    assert "acme_post" not in toolset(full()).tools


@pytest.mark.parametrize(("name", "plugin"), [("read", "acme"), ("acme_read", "read")])
def test_plugin_cannot_use_native_tool_name(name, plugin):
    with pytest.raises(ImproperlyConfigured):
        ToolRegistry.build([(dataclasses.replace(make_read, name=name), plugin)])


@pytest.mark.parametrize("brought", [[(make_read, ""), (make_read, "")], [(dataclasses.replace(make_read, group="web"), "")]])
def test_duplicate_tool_name_or_invalid_group_raises(brought):
    with pytest.raises(ImproperlyConfigured):
        ToolRegistry.build(brought)


def test_allowed_call_gets_permit_bound_to_arguments():
    arguments = {"path": "a.txt"}
    allowed = authorize_tool_call(CallRef("c1", "read", arguments), toolset=toolset(CODING), rules=CODING)
    arguments["path"] = "/etc/passwd"
    assert (allowed.effect, allowed.layer, allowed.policy_version) == ("allow", "", 1)
    assert allowed.permit.ref == CallRef("c1", "read", {"path": "a.txt"})


def test_denied_call_names_the_layer():
    refused = ask("write", full(RuleRow("agent", "main", deny=("write",))), path="a", content="b")
    assert refused.permit is None
    rule = Reason("policy.deny_entry", entry="write")
    assert (refused.effect, refused.layer, refused.rule, refused.policy_version) == ("deny", "agent", rule, 7)
    assert refused.message.startswith("tool_not_allowed: `write` was denied by layer agent: deny entry `write`.")
    assert refused.denial.is_error
    assert refused.denial.text == refused.message


@pytest.mark.parametrize("name", ["", "rm_rf", "Read", "read ", "x" * 5000, "exec"])
def test_unknown_tool_name_is_denied(name):
    refused = ask(name, full())
    assert (refused.effect, refused.layer, refused.permit) == ("deny", "toolset", None)
    assert "`read`" in refused.message
    assert len(refused.message) < 500


def test_unavailable_tool_call_reports_missing_requirement():
    refused = ask("read", CODING, offered=toolset(CODING, workspace=None), path="a")
    rule = Reason("tool.no_workspace")
    assert (refused.effect, refused.layer, refused.rule, refused.permit) == ("deny", "toolset", rule, None)
    assert refused.message.startswith("tool_not_allowed: `read` is unavailable in this run: there is no workspace. It did not run.")
    assert refused.verdict["not_offered"] == rule.to_json()
    assert evaluate(PolicyQuery.from_json(refused.query), CODING).kept == ("read",)


def test_current_rules_apply_not_those_at_run_start():
    started_with = toolset(full())
    refused = ask("write", full(RuleRow("agent", "main", deny=("write",))), offered=started_with)
    assert refused.layer == "agent"


def test_tool_allowed_after_run_start_is_not_offered():
    started_with = toolset(full(RuleRow("agent", "main", deny=("write",))))
    refused = ask("write", full(), offered=started_with)
    assert (refused.effect, refused.layer, refused.rule) == ("deny", "toolset", Reason("tool.denied_at_start"))


def test_call_is_evaluated_with_current_plugins():
    """An allowlist of plugins only is ignored while they are enabled. Once they are disabled, it matches nothing."""
    rules = PolicyRules(7, (RuleRow("global", profile="full", allow=("acme",)),))
    offered = toolset(rules, is_owner=True)
    judged = partial(authorize_tool_call, CallRef("c1", "write", {}), toolset=offered, rules=rules)
    assert judged(now=CurrentOffer(offered.query.plugins, {})).effect == "allow"
    refused = judged(now=CurrentOffer((), {"acme_post": ACME_DISABLED}))
    assert (refused.effect, refused.layer, refused.permit) == ("deny", "global", None)


def test_tool_whose_source_is_gone_is_denied_and_not_listed():
    offered = toolset(full(), is_owner=True)
    gone = {"acme_post": ACME_DISABLED}
    now = CurrentOffer(offered.query.plugins, gone)
    for name in ("acme_post", "no_such"):
        refused = authorize_tool_call(CallRef("c1", name, {}), toolset=offered, rules=full(), now=now)
        assert (refused.effect, refused.layer, refused.permit) == ("deny", "toolset", None)
        assert "`acme_post`" not in refused.message.partition("Tools you can use")[2]
        if name in gone:
            assert "is unavailable in this run: plugin `acme` is disabled." in refused.message
    assert authorize_tool_call(CallRef("c1", "read", {}), toolset=offered, rules=full(), now=now).permit


def test_stored_query_replays_to_same_result():
    rules = full(RuleRow("agent", "main", deny=("group:fs",)))
    refused = ask("write", rules)
    assert evaluate(PolicyQuery.from_json(refused.query), rules).to_json() == refused.verdict
    assert [tool["name"] for tool in refused.query["tools"]] == ["write"]


def test_permit_cannot_be_created_directly():
    made = toolset(CODING).get("read")
    for forged in (
        lambda: AuthorizedCall(CallRef("c", "read", {}), made, object()),
        lambda: AuthorizedCall(CallRef("c", "read", {}), made),
    ):
        with pytest.raises(TypeError):
            forged()


def test_permit_cannot_be_modified():
    permit = ask("read", CODING, path="a").permit
    with pytest.raises((TypeError, ValueError)):
        dataclasses.replace(permit, ref=CallRef("c1", "read", {"path": "b"}))
    with pytest.raises(dataclasses.FrozenInstanceError):
        permit.ref = CallRef("c1", "read", {"path": "b"})
    assert copy.copy(permit) == permit


async def test_call_without_permit_does_not_run():
    with pytest.raises(TypeError, match="authorized"):
        await perform_call(CallRef("c1", "read", {"path": "a"}), None)


def test_tools_are_performed_in_one_module_only():
    """`.perform` of a tool is called in one module. Checked by reading the source, because Python has no private methods."""
    root = Path(tools_app.__file__).parents[1]
    callers = set()
    for package in ("agents", "clawsite", "sessions_app", "tools_app"):
        for source in (root / package).rglob("*.py"):
            for node in ast.walk(ast.parse(source.read_text())):
                if isinstance(node, ast.Attribute) and node.attr == "perform":
                    callers.add(str(source.relative_to(root)))
    assert callers == {"tools_app/execute.py"}
