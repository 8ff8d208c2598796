"""From an analysis and the rules to allow, ask or deny; and what "always allow" would store."""

import subprocess

import pytest

from clawsite.infra.reasons import Reason
from tests.unit.exec_gate import ALL, make_place, verdict
from tools_app.exec.environment import build_environment
from tools_app.exec.gate.types import AllowEntry, GateRules, public_code
from tools_app.exec.gate.verdict import analyze, judge, make_grant_entries


@pytest.fixture
def place(tmp_path, monkeypatch):
    return make_place(tmp_path, monkeypatch)


def rules(security="allowlist", ask="on-miss", *allow):
    return GateRules(security, ask, tuple(each if isinstance(each, AllowEntry) else AllowEntry(each) for each in allow))


@pytest.mark.parametrize(
    ("security", "ask", "known", "unknown", "dangerous"),
    [
        ("deny", "off", "deny", "deny", "deny"),
        ("deny", "always", "deny", "deny", "deny"),
        ("allowlist", "off", "allow", "deny", "deny"),
        ("allowlist", "on-miss", "allow", "ask", "deny"),
        ("allowlist", "always", "ask", "ask", "deny"),
        ("full", "off", "allow", "allow", "deny"),
        ("full", "on-miss", "allow", "allow", "deny"),
        ("full", "always", "ask", "ask", "deny"),
    ],
)
async def test_security_and_ask_determine_the_verdict(place, security, ask, known, unknown, dangerous):
    given = rules(security, ask, "ls")
    assert (await verdict("ls -la", place, given)).effect == known
    assert (await verdict("ls; cat f", place, given)).effect == unknown
    assert (await verdict("rm -rf /", place, given)).effect == dangerous


@pytest.mark.parametrize("line", ["ls\x00", "ls \u202e", "", "ls '", "if then"])
async def test_unreadable_commands_are_denied_even_with_full_security(place, line):
    assert (await verdict(line, place, rules("full", "off"))).effect == "deny"


async def test_reason_names_the_part_needing_approval(place):
    judged = await verdict("ls | frobnicate > /etc/x", place)
    assert {public_code(reason) for reason in judged.reasons} == {"write", "not-found"}
    assert any("frobnicate" in reason.text for reason in judged.reasons)
    assert any("/etc/x" in reason.text for reason in judged.reasons)


async def test_byte_and_command_count_limits_are_enforced(place):
    assert (await verdict("echo " + "a" * 16_379, place)).effect == "allow"
    too_long = await verdict("echo " + "a" * 16_380, place)
    assert (too_long.effect, too_long.reasons[0].code) == ("deny", "gate.size")
    assert (await verdict("ls;" * 200, place)).effect == "allow"
    too_many = await verdict("ls;" * 201, place)
    assert (too_many.effect, too_many.reasons[0].code) == ("ask", "gate.too-many")


async def test_argv_is_set_for_one_literal_command_only(place):
    assert (await analyze("grep -n 'a b' f", place)).argv == ("grep", "-n", "a b", "f")
    for line in (
        "grep $x f",
        "grep a *",
        "grep a f | wc",
        "grep a f > out",
        "LANG=C grep a f",
        "! grep a f",
        "grep a f &",
        "echo a",
        "(grep a f)",
    ):
        assert (await analyze(line, place)).argv is None, line


async def test_part_offsets_are_counted_in_characters(place):
    line = "echo 'ä€😀' | grep é > out.txt"
    analysis = await analyze(line, place)
    texts = {line[part.begin : part.end]: part.kind for part in analysis.parts}
    assert texts == {"echo": "builtin", "'ä€😀'": "argument", "grep": "program", "é": "argument", "> out.txt": "redirect"}
    assert analysis.writes == ("out.txt",)


async def test_allow_always_stores_program_path_and_exact_arguments(place):
    stored = make_grant_entries(await analyze("rm -rf build && git push origin main", place))
    assert stored == (AllowEntry("/programs/rm", ("-rf", "build")), AllowEntry("/programs/git", ("push", "origin", "main")))
    given = rules("allowlist", "on-miss", *stored)
    assert (await verdict("git push origin main && rm -rf build", place, given)).effect == "allow"
    for line in ("rm -rf src", "rm", "rm -rf build src", "git push origin other", "git push", "rm -rf build; cat f"):
        assert (await verdict(line, place, given)).effect == "ask", line


async def test_stored_grant_covers_arguments_but_not_side_effects(place):
    given = rules("allowlist", "on-miss", *make_grant_entries(await analyze("curl -T f https://example.com", place)))
    assert (await verdict("curl -T f https://example.com", place, given)).effect == "allow"
    assert (await verdict("curl -T f https://example.com > /etc/x", place, given)).effect == "ask"
    assert (await verdict("PATH=/tmp curl -T f https://example.com", place, given)).effect == "ask"


async def test_grant_for_read_only_program_allows_any_operands(place):
    given = rules("allowlist", "on-miss", *make_grant_entries(await analyze("grep -n foo f", place)))
    assert (await verdict("grep -n bar notes.txt", place, given)).effect == "allow"
    assert (await verdict("grep -rn bar notes.txt", place, given)).effect == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "bash f",
        "sh -c ls",
        "python3 script.py",
        "env ls",
        "timeout 5 ls",
        "find . -name x",
        "ls | xargs wc",
        "busybox ls",
        "node a.js",
        "ls $(id)",
        "ls; evil",
        "rm $x",
        "rm -rf /",
        "echo hi",
        "./script.sh",
        "sudo ls",
        "perl f",
        "make test",
        "make CC=clang test",
        "npm test",
        "pip install -r requirements.txt",
        "pytest -q",
        "cargo test",
        "go build ./...",
        "vim f",
        "vim.basic f",
        "less f",
        "docker run x",
        "fakeroot-sysv ls",
        "perl5.36-x86_64-linux-gnu f",
        "diff3 a b c",
        "capsh --print",
    ],
)
async def test_allow_always_is_not_offered_for_dynamic_commands(place, line):
    assert isinstance(make_grant_entries(await analyze(line, place)), Reason)


async def test_sandbox_mount_point_counts_as_workspace(place):
    from dataclasses import replace
    from pathlib import Path

    inside = replace(place, mount_point=Path("/workspace"))
    assert (await verdict("echo x > /workspace/src/y", inside)).effect == "allow"
    assert (await verdict("cd /workspace/src && echo x > y", inside)).effect == "allow"
    assert (await verdict("echo x > /workspace/../etc/y", inside)).effect == "ask"
    assert (await verdict("echo x > /workspace2/y", inside)).effect == "ask"


async def test_git_settings_and_hooks_are_inspected(place):
    repository = place.cwd / ".git"
    (repository / "hooks").mkdir(parents=True)
    (repository / "config").write_text('[core]\n\tbare = false\n[remote "origin"]\n\turl = https://example.com/x\n')
    assert judge(await analyze("git status && git commit -m x", place), ALL).effect == "allow"
    hook = repository / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    assert judge(await analyze("git commit -m x", place), ALL).effect == "ask"
    assert judge(await analyze("git status", place), ALL).effect == "allow"
    for setting in (
        "[core]\nfsmonitor = evil",
        "[core] fsMonitor=evil",
        "[Core]\n\tPager = evil",
        '[filter "x"]\nclean = evil',
        "[include]\npath = x",
        '[remote "origin"]\nurl = ext::sh',
    ):
        (repository / "config").write_text(setting)
        assert judge(await analyze("git status", place), ALL).effect == "ask", setting


async def test_symlink_out_of_the_workspace_is_resolved_before_writing(place):
    (place.cwd / "out").symlink_to("/etc")
    assert (await verdict("echo x > out/y", place)).effect == "ask"
    assert (await verdict("cd out && echo x > y", place)).effect == "ask"
    assert (await verdict("rm -rf out/y", place)).effect == "ask"


async def test_file_named_like_an_option_makes_glob_need_approval(place):
    assert (await verdict("sort *", place)).effect == "allow"
    (place.cwd / "--compress-program=evil").write_text("")
    assert (await verdict("sort *", place)).effect == "ask"
    assert (await verdict("sort ./*", place)).effect == "allow"
    assert (await verdict("wc -l *", place)).effect == "allow"


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("curl -s https://example.com/x", ".curlrc"),
        ("curl -s https://example.com/x", ".config/curlrc"),
        ("rsync -a src build", ".popt"),
    ],
)
async def test_settings_in_agent_writable_home_need_approval(place, monkeypatch, line, settings):
    monkeypatch.setattr("tools_app.exec.gate.programs.invocation.SHARED_HOME", "/nonexistent")
    assert (await verdict(line, place)).effect == "allow"
    assert (await verdict(f"mkdir -p .config && echo x > {settings} && {line}", place)).effect == "ask"
    (place.cwd / ".config").mkdir()
    (place.cwd / settings).write_text("")
    assert (await verdict(line, place)).effect == "ask"


def test_git_ignores_settings_in_the_home_directory(tmp_path):
    (tmp_path / ".gitconfig").write_text("[alias]\n\tpwn = !echo followed\n")
    env = build_environment(tmp_path)
    tried = subprocess.run(["git", "pwn"], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert tried.returncode
    assert "followed" not in tried.stdout
    del env["GIT_CONFIG_GLOBAL"]
    tried = subprocess.run(["git", "pwn"], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert tried.stdout == "followed\n"
