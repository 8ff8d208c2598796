"""Which file a name starts, whether it can be trusted, and which allowlist patterns match it. With real files."""

import os
import shutil
from pathlib import Path

import pytest

from clawsite.infra.reasons import Reason
from tests.unit.exec_gate import SEARCH, verdict
from tools_app.exec.gate import executables as resolve
from tools_app.exec.gate.allowlist import matches, resolve_entry
from tools_app.exec.gate.executables import find_executable
from tools_app.exec.gate.programs.registry import canonical_name
from tools_app.exec.gate.types import AllowEntry, ExecContext, Executable, GateRules
from tools_app.exec.gate.verdict import analyze

LS = os.path.realpath(shutil.which("ls", path="/usr/bin:/bin"))


@pytest.fixture
def place(tmp_path):
    real = Path(os.path.realpath(tmp_path))
    return ExecContext(real, (real,), SEARCH)


def allowing(*patterns):
    return GateRules("allowlist", "on-miss", tuple(resolve_entry(AllowEntry(pattern)) for pattern in patterns))


def here(place):
    return frozenset({str(place.cwd)})


def real_directory(path):
    path.mkdir()
    return Path(os.path.realpath(path))


def a_program(path):
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "pattern", ["ls", LS, "/bin/ls", "/usr/bin/ls", f"{os.path.dirname(LS)}/*", f"{os.path.dirname(LS)}/l?", "/bin/*"]
)
async def test_pattern_matches_ls(place, pattern):
    for line in ("ls", "/bin/ls", "/usr/bin/ls", "/usr/bin/../bin/ls"):
        assert (await verdict(line, place, allowing(pattern))).effect == "allow", line


@pytest.mark.parametrize(
    "pattern",
    ["", " ", "*", "l*", "LS", "/usr/*", "/*", "/usr/**", "/**", "bin/ls", "./ls", "~/ls", "/usr/bin", "/usr/bin/", "/opt/*"],
)
async def test_pattern_does_not_match_ls(place, pattern):
    assert (await verdict("ls", place, allowing(pattern))).effect == "ask"


def test_star_stops_at_slash_and_patterns_reject_dots():
    evil = Executable("x", "/opt/tools/deep/evil", "/opt/tools/deep/evil", "")
    assert not matches("/opt/tools/*", evil)
    assert matches("/opt/tools/*/evil", evil)
    assert not matches("/opt/tools/../tools/deep/evil", evil)
    assert matches("/opt/tools/deep/[a-f]vil", evil)
    assert not matches("/opt/tools/deep[!a]evil", evil)


async def test_path_traversal_under_a_glob_is_resolved(place):
    a_program(place.cwd / "evil")
    assert (await verdict(f"/usr/bin/../..{place.cwd}/evil", place, allowing("/usr/bin/*"))).effect == "ask"


async def test_workspace_program_never_matches(place):
    a_program(place.cwd / "tool")
    judged = await verdict("./tool", place, allowing(str(place.cwd / "tool"), str(place.cwd / "*")))
    assert (judged.effect, judged.reasons[0].code) == ("ask", "gate.not-trusted")


async def test_workspace_symlink_to_allowlisted_program_does_not_match(place):
    (place.cwd / "ls").symlink_to(LS)
    assert (await verdict("./ls", place, allowing("ls", LS))).effect == "ask"


async def test_program_writable_by_others_never_matches(tmp_path):
    tools = real_directory(tmp_path / "tools")
    workspace = real_directory(tmp_path / "workspace")
    place = ExecContext(workspace, (workspace,), (tools,))
    program = a_program(tools / "tool")
    program.chmod(0o775)
    found = find_executable("tool", here(place), place)
    assert found.distrust
    assert len(found.identity.split(":")) == 5
    assert (await verdict("tool", place, allowing("tool", str(tools / "*")))).effect == "ask"
    stamp = program.stat()
    program.write_text("#!/bin/id\n")
    os.utime(program, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert find_executable("tool", here(place), place).identity != found.identity


async def test_program_writable_by_others_matches_without_owner_check(tmp_path, monkeypatch):
    tools = real_directory(tmp_path / "tools")
    a_program(tools / "tool").chmod(0o777)
    place = ExecContext(Path("/nowhere"), (Path("/nowhere"),), (tools,))
    assert (await verdict("tool", place, allowing("tool"))).effect == "ask"
    monkeypatch.setattr(resolve, "why_changeable_by_others", lambda path: None)
    assert (await verdict("tool", place, allowing("tool"))).effect == "allow"


def test_system_program_is_identified_without_reading_it(place):
    found = find_executable("ls", here(place), place)
    assert (found.realpath, found.bare, found.distrust) == (LS, "ls", None)
    assert len(found.identity.split(":")) == 4


def test_relative_program_is_resolved_from_the_working_directory(place):
    a_program(place.cwd / "tool")
    assert find_executable("./tool", here(place), place)
    assert find_executable("./tool", None, place) is None
    assert find_executable("./tool", here(place) | {"/elsewhere"}, place) is None
    assert find_executable("no-such-program", here(place), place) is None


def test_multi_call_binary_matches_by_name_only():
    ls = Executable("ls", "/bin/ls", "/bin/busybox", "", bare="ls")
    assert matches("ls", ls)
    assert not matches("/bin/busybox", ls)
    assert not matches("/bin/*", ls)


async def test_files_are_checked_again_for_a_cached_command(place):
    a_program(place.cwd / "tool")
    assert (await analyze("./tool", place)).executables
    (place.cwd / "tool").unlink()
    assert not (await analyze("./tool", place)).executables


async def test_program_inherits_rules_of_all_its_names(tmp_path):
    tools = real_directory(tmp_path / "tools")
    workspace = real_directory(tmp_path / "workspace")
    place = ExecContext(workspace, (workspace,), (tools,))
    a_program(tools / "texter")
    os.link(tools / "texter", tools / "quill")
    (tools / "pen").symlink_to("texter")

    async def found(line):
        (program,) = (await analyze(line, place)).programs
        return bool(program.doubts), program.never_always

    assert await found("quill -c x f") == (False, None)
    (tools / "vim").symlink_to("texter")
    for name in ("texter", "quill", "pen", "vim", str(tools / "pen")):
        assert await found(f"{name} -c x f") == (True, Reason("never_always.powerful", program="vim")), name


async def test_listed_name_ignores_rules_of_other_names(tmp_path):
    tools = real_directory(tmp_path / "tools")
    workspace = real_directory(tmp_path / "workspace")
    place = ExecContext(workspace, (workspace,), (tools,))
    a_program(tools / "git")
    (tools / "git-shell").symlink_to("git")
    a_program(tools / "pgrep")
    (tools / "pkill").symlink_to("pgrep")
    for line, doubted in (("git status", False), ("git-shell x", True), ("pgrep x", False), ("pkill x", True)):
        (program,) = (await analyze(line, place)).programs
        assert bool(program.doubts) is doubted, line


@pytest.mark.parametrize(
    ("called", "known"),
    [
        ("python3.11", "python"),
        ("perl5.36-x86_64-linux-gnu", "perl"),
        ("x86_64-linux-gnu-gcc-12", "gcc"),
        ("x86_64-linux-gnu-nm", "nm"),
        ("vim.basic", "vim"),
        ("vim.gtk3", "vim"),
        ("nc.openbsd", "nc"),
        ("pip3.11", "pip"),
        ("ld-linux-aarch64.so.1", "ld.so"),
        ("diff3", "diff3"),
        ("git2", "git2"),
        ("base64", "base64"),
    ],
)
def test_versioned_program_name_maps_to_its_base_name(called, known):
    assert canonical_name(called) == known


async def test_scripts_are_identified_by_content(place, monkeypatch):
    async def scripts(line):
        found = (await analyze(line, place)).scripts
        return {str(Path(each.path).relative_to(place.cwd)): each.identity for each in found}

    (place.cwd / "s.py").write_text("one")
    assert set(await scripts("bash -eu -o pipefail s.py x; sh -c y")) == {"s.py"}
    before = await scripts("python3 s.py && make && pytest . /etc/hosts")
    assert set(before) == {"s.py", "GNUmakefile", "makefile", "Makefile"}  # files in the workspace, without directories
    assert (len(before["s.py"]), before["Makefile"]) == (64, "")
    stamp = (place.cwd / "s.py").stat()
    (place.cwd / "s.py").write_text("two")
    os.utime(place.cwd / "s.py", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    changed = await scripts("python3 s.py")
    assert changed["s.py"] not in ("", before["s.py"])
    os.mkfifo(place.cwd / "pipe")
    assert (await scripts("python3 pipe"))["pipe"]
    monkeypatch.setattr(resolve, "MAX_HASHED_BYTES", 2)
    large = await scripts("python3 s.py")
    assert large["s.py"].count(":") == 4
    (place.cwd / "s.py").write_text("one")
    os.utime(place.cwd / "s.py", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert await scripts("python3 s.py") != large
