"""`claw policy`: explain, export, diff, import, test and restore."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.harness.policies import restore_policy
from tests.harness.stack import database_url
from tests.journeys.claw_command import ClawResult, clean_environment, run_claw


@pytest.fixture
def env(database: None, tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """The environment of a process that uses the test database."""
    from django.conf import settings

    with restore_policy():
        yield clean_environment(CLAWSITE_HOME=str(tmp_path), DATABASE_URL=database_url(settings.DATABASES["default"]))


def policy(*arguments: str, env: Mapping[str, str], stdin: str = "") -> ClawResult:
    return run_claw("policy", *arguments, env=env, stdin=stdin)


def test_explain_prints_tool_summaries_or_all_layers_of_one(env: Mapping[str, str]) -> None:
    everything = policy("explain", "--agent", "main", env=env)
    assert everything.code == 0
    lines = {line.split()[0]: line for line in everything.out.splitlines() if line}
    assert lines["read"].split() == ["read", "allowed"]
    assert lines["subagents"].split(None, 1)[1] == "unavailable  not available in this version"
    assert "of them are unavailable" in everything.out
    assert lines["web_fetch"].split(None, 2)[1:] == ["denied", "profile: not in the `coding` profile"]
    one = policy("explain", "--agent", "main", "--tool", "bash", "--subagent", env=env)
    explanation = "exec: allowed by all layers"
    assert one.out.startswith(f"{explanation} (policy version 1, with demo/clawsite, the agent's model)\n")
    assert len(one.out.splitlines()) == 11
    assert policy("explain", "--agent", "main", "--tool", "read", env=env).out.startswith("read: allowed by all layers (")
    wrong = policy("explain", "--agent", "main", "--tool", "wriet", env=env)
    assert (wrong.code, wrong.err) == (1, "claw: there is no tool 'wriet'; did you mean write?\n")


def test_explain_uses_the_agents_model_by_default(env: Mapping[str, str]) -> None:
    from agents.models import Agent
    from tools_app.policy_store.policies import save_policy

    Agent.objects.filter(slug="main").update(model="openai/gpt-5")
    save_policy(scope="global", provider="openai", deny=["read"])
    line = policy("explain", "--agent", "main", "--tool", "read", env=env).out.splitlines()[0]
    why = "read: denied by layer global_provider: deny entry `read`"
    assert line == f"{why} (policy version 2, with openai/gpt-5, the agent's model)"
    other = policy("explain", "--agent", "main", "--tool", "read", "--provider", "demo/clawsite", env=env).out.splitlines()[0]
    assert other == "read: allowed by all layers (policy version 2, with demo/clawsite)"


def test_explain_json_has_the_query_and_trace(env: Mapping[str, str]) -> None:
    from tools_app.policy_store.policies import save_policy

    save_policy(scope="group", channel="telegram", group="-100", sender="anna", deny=["glob"])
    conditions = (
        "--provider",
        "openai/gpt-5",
        "--channel",
        "Telegram",
        "--group=-100",
        "--sender",
        "@Anna",
        "--sandboxed",
        "--not-owner",
    )
    result = json.loads(policy("explain", "--agent", "main", *conditions, "--json", env=env).out)
    assert result["policyVersion"] == 2
    assert result["query"]["provider"] == "openai"
    assert result["query"]["is_owner"] is False
    glob = result["tools"]["glob"]
    assert (glob["kept"], glob["refusedBy"]) == (False, "group")
    code = {"code": "policy.deny_entry", "params": {"entry": "glob"}}
    row = "group:telegram/-100#anna"
    assert glob["trace"][7] == {"layer": "group", "effect": "deny", "rule": "deny entry `glob`", "row": row, **code}
    assert len(glob["trace"]) == 10
    assert (glob["notOffered"], result["tools"]["read"]["notOffered"]) == (None, None)
    search = json.loads(policy("explain", "--agent", "main", "--tool", "memory_get", "--not-owner", "--json", env=env).out)
    assert search["tools"]["memory_get"]["kept"] is True
    assert search["tools"]["memory_get"]["notOffered"] == "notes are only available to the session's owner"


def test_policy_file_is_compared_imported_and_exported(env: Mapping[str, str], tmp_path: Path) -> None:
    from tools_app.policy_store.policies import current_rules

    file = tmp_path / "policy.yaml"
    file.write_text(policy("export", env=env).out)
    same = policy("diff", str(file), env=env)
    assert (same.code, same.out) == (0, "")
    file.write_text(file.read_text().replace("profile: coding", "profile: coding\n  deny: [write]"))
    other = policy("diff", str(file), env=env)
    assert other.code == 1
    assert "+  - write" in other.out
    unasked = policy("import", str(file), env=env)
    assert (unasked.code, "use --yes" in unasked.err) == (1, True)
    assert current_rules().version == 1
    late = policy("import", str(file), "--yes", "--expect-version", "7", env=env)
    assert (late.code, "it is at version 1, not 7" in late.err) == (1, True)
    imported = policy("import", str(file), "--yes", "--expect-version", "1", env=env)
    assert imported.out == "Imported. This is policy version 2.\n"
    assert imported.err == ""
    assert current_rules().row("agent", "main").deny == ("write",)
    assert policy("diff", "-", env=env, stdin=policy("export", env=env).out).code == 0
    assert "write" not in policy("export", "--version", "1", env=env).out
    wrong = policy("import", "-", "--yes", env=env, stdin="policies: [{scope: agent, subject: main, deny: [wriet]}]")
    assert (wrong.code, "is not a tool" in wrong.err) == (1, True)
    assert policy("diff", str(tmp_path / "missing.yaml"), env=env).code == 1
    doubtful = policy("import", "-", "--yes", env=env, stdin="policies: [{scope: subagent, deny: [cron]}]")
    assert (doubtful.code, doubtful.err) == (0, "warning: subagent: “cron” has no effect: subagents never get it.\n")


def test_policy_tests_versions_and_restore(env: Mapping[str, str]) -> None:
    from tools_app.models import McpServer, PolicyTest
    from tools_app.policy_store.policies import current_rules, save_policy
    from tools_app.policy_store.policy_tests import save_test

    assert policy("test", env=env).out == "All 0 hold.\n"
    save_test(name="scout never runs", expected="never", agent="scout", tool="group:runtime")
    assert policy("test", env=env).out == "holds   scout never runs\nAll 1 hold.\n"
    off = McpServer.objects.create(name="weather", command="true")
    idle = PolicyTest.objects.create(name="main may ask", expected="allowed", agent="main", tool="weather__forecast")
    outcome = policy("test", env=env)
    assert outcome.code == 0
    assert outcome.out.splitlines()[:3] == ["idle    main may ask", "holds   scout never runs", "All 1 hold."]
    assert outcome.out.splitlines()[3].startswith("1 idle: ")
    idle.delete()
    off.delete()
    PolicyTest.objects.create(name="main never reads", expected="never", agent="main", tool="read")
    broken = policy("test", env=env)
    assert broken.code == 1
    assert "BROKEN  main never reads" in broken.out
    PolicyTest.objects.filter(name="main never reads").delete()
    save_policy(scope="agent", subject="main", profile="full")
    listed = policy("versions", env=env).out.splitlines()
    assert [line.split()[0] for line in listed] == ["3", "2", "1"]
    assert listed[0].endswith("saved agent:main")
    assert policy("restore", "1", env=env).code == 1
    restored = policy("restore", "1", "--yes", env=env)
    assert restored.out == "Version 1 is restored as policy version 4.\n"
    assert current_rules().row("agent", "main").profile == "coding"
    assert "Policy version 99 does not exist" in policy("restore", "99", "--yes", env=env).err
