"""`claw exec check`: a line in, a verdict out."""

import io
import json
import subprocess
import sys

import pytest

from clawsite.cli.command import CommandFailed, run_command
from clawsite.cli.commands import exec as exec_command
from tools_app.exec.gate.shell import shfmt


@pytest.fixture
def check(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(shfmt, "TIMEOUT_SECONDS", 30)

    def check(text, *options):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text if isinstance(text, bytes) else text.encode())))
        assert run_command(exec_command, "exec", ["check", "--cwd", str(tmp_path), *options]) == 0
        return capsys.readouterr().out

    return check


def test_verdict_is_printed_as_json(check):
    told = json.loads(check("ls | wc -l\n", "--allow", "ls", "--allow", "/bin/wc", "--json"))
    assert (told["verdict"], told["reasons"]) == ("allow", [])
    assert [each["name"] for each in told["executables"]] == ["ls", "wc"]


def test_command_off_the_allowlist_needs_approval_by_default(check):
    told = json.loads(check("ls", "--json"))
    assert (told["verdict"], told["reasons"][0]["code"]) == ("ask", "not-allowlisted")


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--security", "deny"], "deny"),
        (["--security", "full"], "allow"),
        (["--ask", "off"], "deny"),
        (["--ask", "always", "--allow", "ls"], "ask"),
    ],
)
def test_security_and_ask_can_be_set_by_options(check, options, wanted):
    assert json.loads(check("ls", "--json", *options))["verdict"] == wanted


def test_directory_option_sets_the_workspace(check, tmp_path):
    assert json.loads(check(f"echo x > {tmp_path}/y", "--json"))["verdict"] == "allow"
    assert json.loads(check(f"echo x > {tmp_path}-other", "--json"))["verdict"] == "ask"


def test_whole_stdin_is_one_command(check):
    assert json.loads(check("ls\nid\n", "--allow", "ls", "--json"))["verdict"] == "ask"


def test_invalid_utf8_is_denied(check):
    assert json.loads(check(b"ls \xff", "--allow", "ls", "--json"))["verdict"] == "deny"


def test_default_output_is_human_readable(check):
    said = check("ls; frobnicate", "--allow", "ls")
    assert said.startswith("ask\n")
    assert "frobnicate" in said


def test_batch_input_is_evaluated_with_per_command_allowlists(check):
    asked = [
        {"id": "a", "command": "ls", "allowlist": ["ls"]},
        {"id": 2, "command": "ls", "allowlist": []},
        {"id": None, "command": "rm -rf /", "allowlist": ["rm"]},
        {"command": "ls\u202e"},
        {"id": "no command"},
    ]
    lines = check("\n".join([*map(json.dumps, asked), "no json", ""]), "--jsonl", "--allow", "ls").splitlines()
    told = [json.loads(line) for line in lines]
    assert [(each["id"], each["verdict"]) for each in told] == [
        ("a", "allow"),
        (2, "ask"),
        (None, "deny"),
        (None, "deny"),
        ("no command", "deny"),
        (None, "deny"),
    ]


def test_missing_directory_is_a_usage_error(check):
    with pytest.raises(CommandFailed):
        check("ls", "--cwd", "/no/such/place")


def test_cli_starts_without_django_and_litellm():
    """Loading them would take ten times as long as the check."""
    code = """
import sys
from clawsite.cli.commands import exec as exec_command
import tools_app.exec.gate.verdict
print([name for name in ("django", "litellm") if name in sys.modules])
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
