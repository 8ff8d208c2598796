"""What the files of a repository make git start: settings, hooks, and nested repositories."""

import subprocess
from dataclasses import replace

import pytest

from clawsite.infra.reasons import Reason
from tests.harness.approvals import build_plan
from tests.unit.exec_gate import make_place, verdict
from tools_app.exec import planning
from tools_app.exec.environment import build_environment, hash_environment
from tools_app.exec.gate.programs import git_repository
from tools_app.exec.gate.types import GateRules, Script
from tools_app.exec.gate.verdict import analyze, hash_analysis, make_grant_entries
from tools_app.exec.plan import ExecPlan

PLAIN = """[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
[user]
\tname = "Ada \\"the first\\""
[remote "origin"]
\turl = https://example.com/x
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
"""
ORDINARY = "git status && git diff && git add -A && git commit -m x && git log --oneline && git fetch && git branch -a && git gc"


@pytest.fixture
def place(tmp_path, monkeypatch):
    place = make_place(tmp_path, monkeypatch)
    (place.cwd / ".git" / "hooks").mkdir(parents=True)
    (place.cwd / ".git" / "config").write_text(PLAIN)
    return place


def add_hook(place, name):
    hook = place.cwd / ".git" / "hooks" / name
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)


async def test_plain_repository_needs_no_approval(place):
    add_hook(place, "post-index-change.sample")
    assert (await verdict(ORDINARY, place)).effect == "allow"
    (place.cwd / ".git" / "config").write_bytes(PLAIN.replace("\n", "\r\n").encode())
    assert (await verdict(ORDINARY, place)).effect == "allow"


@pytest.mark.parametrize("hook", ["post-index-change", "reference-transaction", "pre-auto-gc"])
async def test_frequently_run_hooks_require_approval_for_most_commands(place, hook):
    add_hook(place, hook)
    for line in ("git status", "git add f", "git diff", "git branch new", "git fetch", "git gc", "git -C src rm f"):
        assert (await verdict(line, place)).effect == "ask", line
    assert (await verdict("git --version", place)).effect == "allow"


async def test_hook_missing_from_frequent_hooks_needs_no_approval(place, monkeypatch):
    add_hook(place, "post-index-change")
    monkeypatch.setattr(git_repository, "FREQUENT_HOOKS", frozenset())
    assert (await verdict("git add f", place)).effect == "allow"


@pytest.mark.parametrize(
    "setting",
    [
        "[core]\nhooksPath = elsewhere",
        "[core]\nalternateRefsCommand = evil",
        "[core]\neditor = evil",
        "[core]\nworktree = /",
        "[gc]\nrecentObjectsHook = evil",
        '[hook "x"]\ncommand = evil',
        '[gpg "ssh"]\ndefaultKeyCommand = evil',
        "[sequence]\neditor = evil",
        '[trailer "x"]\ncmd = evil',
        '[mergetool "x"]\ncmd = evil',
        "[alias]\nwhatchanged = !evil",
        # Spellings that a parser other than git's may misread.
        "[user][core]fsmonitor = evil",
        "# a comment \\\n[core]\nfsmonitor = evil",
        "[core]\nx = a\\\n[user]\nfsmonitor = evil",
        "[core]\n# \r[user]\nfsmonitor = evil",
        "[core]\n# \u2028[user]\nfsmonitor = evil",
        "\ufeff[core]\nfsmonitor = evil",
    ],
)
async def test_git_setting_naming_a_program_needs_approval(place, setting):
    (place.cwd / ".git" / "config").write_bytes(setting.encode())
    assert (await verdict("git status", place)).effect == "ask"


async def test_invalid_nested_git_directory_hides_no_outer_settings(place):
    (place.cwd / "src" / ".git").mkdir()
    (place.cwd / ".git" / "config").write_text("[core]\nfsmonitor = evil")
    assert (await verdict("git -C src status", place)).effect == "ask"


@pytest.mark.parametrize("made", [".gitmodules", ".git/modules/x/config"])
async def test_nested_repositories_need_approval_unless_ignored(place, made):
    (place.cwd / made).parent.mkdir(parents=True, exist_ok=True)
    (place.cwd / made).write_text("")
    for line in (
        "git status",
        "git diff",
        "git status -- --ignore-submodules=all",
        "git status --ignore-submodules=all --ignore-submodules=none",
    ):
        assert (await verdict(line, place)).effect == "ask", line
    assert (await verdict("git status --ignore-submodules=all", place)).effect == "allow"


async def test_submodule_in_the_index_counts_as_nested_repository(place):
    def git(*words):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.templateDir=", *words], check=True, cwd=place.cwd
        )

    (place.cwd / ".git" / "hooks").rmdir()
    git("init", "-q", ".")
    git("add", "f", "src")
    assert (await verdict("git status", place)).effect == "allow"
    git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},build")
    assert (await verdict("git status", place)).effect == "ask"


async def test_continuing_a_rebase_needs_approval(place):
    assert (await verdict("git rebase --skip", place)).effect == "ask"


async def test_stored_grant_does_not_override_git_hooks(place):
    line = "git push origin main"
    stored = make_grant_entries(await analyze(line, place))
    given = GateRules("allowlist", "on-miss", stored)
    assert (await verdict(line, place, given)).effect == "allow"
    add_hook(place, "pre-push")
    assert (await verdict(line, place, given)).effect == "ask"
    assert isinstance(make_grant_entries(await analyze(line, place)), Reason)


async def test_stored_grant_does_not_follow_a_new_symlink(place):
    line = "cp f /elsewhere/x"
    given = GateRules("allowlist", "on-miss", make_grant_entries(await analyze(line, place)))
    assert (await verdict(line, place, given)).effect == "allow"  # an approver has seen these arguments
    line = "cp f out/x"
    given = GateRules("allowlist", "on-miss", make_grant_entries(await analyze(line, place)))
    assert (await verdict(line, place, given)).effect == "allow"
    (place.cwd / "out").symlink_to("/etc")
    assert (await verdict(line, place, given)).effect == "ask"
    assert isinstance(make_grant_entries(await analyze(line, place)), Reason)


async def test_analysis_hash_changes_with_the_inspected_files(place):
    before = hash_analysis(await analyze("git status", place))
    assert before == hash_analysis(await analyze("git status", place))
    (place.cwd / ".git" / "config").write_text("[core]\nfsmonitor = evil")
    assert hash_analysis(await analyze("git status", place)) != before


async def test_settings_changed_after_approval_are_detected_at_start(place, monkeypatch):
    monkeypatch.setattr(planning, "SEARCH_PATH", tuple(str(each) for each in place.search))
    line, here = "git status", str(place.cwd)
    analysis = await analyze(line, place)
    plan = build_plan(None, line, call="1", cwd=here, workspace=here, level=0, executables=analysis.executables)
    plan = replace(plan, environment_hash=hash_environment(build_environment(planning.sandbox_from_plan(plan).home)))
    looked_at = replace(plan, analysis_hash=hash_analysis(analysis))
    assert await planning.find_changes(looked_at) is None
    (place.cwd / ".git" / "config").write_text("[core]\nfsmonitor = evil")
    assert await planning.find_changes(looked_at) == Reason("changed.findings")
    assert await planning.find_changes(plan) is None  # without the fingerprint the change would go unnoticed


def test_plan_without_analysis_hash_keeps_its_hash():
    plan = build_plan(None, "git status", call="1")
    stored = plan.to_json()
    assert "analysis_hash" not in stored
    assert ExecPlan.from_json(stored).hash == plan.hash
    looked_at = replace(plan, analysis_hash="1" * 64, scripts=(Script("/home/ada/work/s.py", "2" * 64),))
    assert ExecPlan.from_json(looked_at.to_json()) == looked_at
    assert looked_at.hash != plan.hash
