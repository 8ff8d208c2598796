"""Deliberate faults in the exec gate, at least one per lesson: each allows what its lesson forbids, and nothing else.

The lines are those in the table of tests/unit/test_exec_gate_lines.py, here sorted by lesson. Nothing is run.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.exec_gate import SEARCH, make_place, verdict
from tests.unit.exec_gate_hostile import DANGEROUS, HOSTILE
from tools_app.exec.gate import allowlist, blocklist, examine, executables
from tools_app.exec.gate import verdict as gate
from tools_app.exec.gate.programs import code as rules_code
from tools_app.exec.gate.programs import invocation, registry, wrappers
from tools_app.exec.gate.shell import line, variables
from tools_app.exec.gate.types import AllowEntry, ExecContext, GateRules
from tools_app.exec.gate.verdict import analyze, make_grant_entries

EVERYTHING = GateRules("full", "off")
UNSEEN = ["ls \u202e x", "ls \u200bx", "ls\u00a0x", "ls \u2066x", "ls \u3164", "ls \U000e0041"]
OWN_GUARD = ["claw approvals approve 1", "claw policy restore 1"]
LINES = {
    "L3": [
        "env evil",
        "env LANG=C evil",
        "timeout 5 evil",
        "nice -n 5 evil",
        "flock f evil",
        "xargs evil",
        "find . -exec evil {} +",
    ],
    "L4": [
        "bash -c ls",
        "sh -c 'ls' a b",
        "ls | sh",
        "python3 -c 'import os'",
        "python3 <<< 'x'",
        "perl -e x",
        "node -e x",
        "python3 /usr/lib/python3.11/pdb.py -c x s.py",
        "make -C /tmp",
        "cd /tmp && make",
        "echo 'all: ; evil' > Makefile && make",
        "echo x > json.py; python3 s.py",
        "cp a conftest.py; python3 -m pytest",
        "git apply x.patch && make",
    ],
    "L5": ["sort --compress-program=evil f", "sort --compress-prog=evil f", "sort --comp=evil f", "rg --pre=evil x"],
    "L6": ["ls # comment \\\nevil", 'ls "$\\\n(evil)"', "ls ${x:-$\\\n(evil)}", "cat <<E\nx\\\nE\nevil\nE"],
    "L7": ["PATH=/tmp ls", "IFS=x ls", "GIT_PAGER=evil git log", "GIT_SSH_COMMAND=x git fetch origin"],
}
# L3: they could run anything.
NEVER_ALWAYS = ["bash f", "python3 script.py", "env ls", "busybox ls", "find . -name x", "make test", "vim f"]


async def allowed_against(place: ExecContext) -> AsyncIterator[tuple[str, str]]:
    """(lesson, what was allowed)."""
    for each in UNSEEN:
        if (await verdict(each, place, EVERYTHING)).effect != "deny":
            yield "L2", each
    for lesson, lines in LINES.items():
        for each in lines:
            if (await verdict(each, place)).effect == "allow":
                yield lesson, each
    for each in NEVER_ALWAYS:
        if isinstance(make_grant_entries(await analyze(each, place)), tuple):
            yield "L3", each
    async for what in untrusted_programs(place):
        yield "L8", what
    for each in OWN_GUARD:
        if (await verdict(each, place, EVERYTHING)).effect != "deny":
            yield "L10", each


async def untrusted_programs(place: ExecContext) -> AsyncIterator[str]:
    """Files that some interpretation of the list would allow, and that must not be allowed."""
    changeable = place.cwd.parent / "tools" / "tool"
    changeable.parent.mkdir(exist_ok=True)
    changeable.write_text("#!/bin/sh\n")
    changeable.chmod(0o777)
    in_workspace = ExecContext(
        Path("/usr/bin"), (Path("/usr/bin"),), SEARCH
    )  # a file owned by root, so that only its location matters
    for where, name, pattern in (
        (place, str(changeable), str(changeable)),
        (place, "/usr/bin/ls", "/usr/*"),
        (in_workspace, "/usr/bin/ls", "/usr/bin/ls"),
    ):
        if (await verdict(name, where, GateRules("allowlist", "on-miss", (AllowEntry(pattern),)))).effect == "allow":
            yield f"{name} by {pattern}"


def treats_every_character_as_visible(monkeypatch) -> None:
    monkeypatch.setattr(line, "_is_hidden", lambda character: False)


def treats_wrapper_as_ordinary_program(monkeypatch) -> None:
    for name in (*wrappers.SIMPLE_WRAPPERS, "env", "xargs", "find"):
        monkeypatch.delitem(registry.RULES, name)


def always_allows_anything(monkeypatch) -> None:
    monkeypatch.setattr(examine, "why_never_granted", lambda *bases: None)


def ignores_inline_code(monkeypatch) -> None:
    for name in [name for name, rule in registry.RULES.items() if rule in (rules_code.check_shell, rules_code.check_interpreter)]:
        monkeypatch.setitem(registry.RULES, name, lambda call: None)


def treats_any_file_as_workspace_file(monkeypatch) -> None:
    monkeypatch.setattr(invocation, "why_outside_workspace", lambda target, cwds, place: None)


def checks_each_command_alone(monkeypatch) -> None:
    monkeypatch.setattr(examine, "find_combined_doubts", lambda walked, started: ())


def uses_option_blocklist(monkeypatch) -> None:
    """A blocklist of options does not recognize abbreviated ones."""
    read = invocation.parse_arguments

    def only_the_known_bad(*arguments, **more):
        found = read(*arguments, **more)
        if found.unknown and found.unknown.text.startswith("the option --") and "--compress-program" not in found.unknown.text:
            found.unknown = None
        return found

    monkeypatch.setattr(invocation, "parse_arguments", only_the_known_bad)


def trusts_parsers(monkeypatch) -> None:
    monkeypatch.setattr(gate, "find_spelling_doubts", lambda line: ())


def uses_variable_blocklist(monkeypatch) -> None:
    for module in (variables, wrappers):
        monkeypatch.setattr(module, "HARMLESS_NAME", re.compile(r"(?!PATH$|LD_PRELOAD$|BASH_ENV$)\w+"))


def trusts_files_of_any_owner(monkeypatch) -> None:
    monkeypatch.setattr(executables, "why_changeable_by_others", lambda path: None)


def lets_star_match_slash(monkeypatch) -> None:
    monkeypatch.setattr(allowlist, "_compile_glob", lambda glob: re.compile(re.escape(glob).replace(r"\*", ".*")))


def trusts_workspace_programs(monkeypatch) -> None:
    monkeypatch.setattr(executables, "_why_inside_writable", lambda path, real, place: None)


def lets_agent_run_claw(monkeypatch) -> None:
    kept = tuple(danger for danger in blocklist.BLOCK_RULES if danger.code != "gate.own-guard")
    monkeypatch.setattr(blocklist, "BLOCK_RULES", kept)


MUTANTS = [
    ("L2", treats_every_character_as_visible),
    ("L3", treats_wrapper_as_ordinary_program),
    ("L3", always_allows_anything),
    ("L4", ignores_inline_code),
    ("L4", treats_any_file_as_workspace_file),
    ("L4", checks_each_command_alone),
    ("L5", uses_option_blocklist),
    ("L6", trusts_parsers),
    ("L7", uses_variable_blocklist),
    ("L8", trusts_files_of_any_owner),
    ("L8", lets_star_match_slash),
    ("L8", trusts_workspace_programs),
    ("L10", lets_agent_run_claw),
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    return make_place(tmp_path, monkeypatch)


async def test_unmodified_gate_allows_no_hostile_command(place):
    assert [found async for found in allowed_against(place)] == []


@pytest.mark.parametrize(("lesson", "mutate"), MUTANTS, ids=[f"{lesson}-{mutate.__name__}" for lesson, mutate in MUTANTS])
async def test_gate_mutation_violates_only_its_invariant(lesson, mutate, place, monkeypatch):
    mutate(monkeypatch)
    through = [found async for found in allowed_against(place)]
    assert {broken for broken, _ in through} == {lesson}, through


def test_mutation_commands_are_in_the_gate_test_set():
    assert {each for lines in (UNSEEN, *LINES.values()) for each in lines} <= set(HOSTILE)
    assert set(OWN_GUARD) <= set(DANGEROUS)
