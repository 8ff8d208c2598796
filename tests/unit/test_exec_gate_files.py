"""Which file a name starts, whether it can be trusted, and which patterns of the allowlist mean it. On real files."""

import os
import shutil
from pathlib import Path

import pytest

from tests.unit.exec_gate import SEARCH, verdict
from tools_app.execution import resolve
from tools_app.execution.allowlist import matches, settled
from tools_app.execution.gate import analyse
from tools_app.execution.resolve import find_executable
from tools_app.execution.terms import AllowEntry, Executable, GateRules, Place

LS = os.path.realpath(shutil.which("ls", path="/usr/bin:/bin"))


@pytest.fixture
def place(tmp_path):
    real = Path(os.path.realpath(tmp_path))
    return Place(real, (real,), SEARCH)


def allowing(*patterns):
    return GateRules("allowlist", "on-miss", tuple(settled(AllowEntry(pattern)) for pattern in patterns))


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
async def test_a_pattern_means_ls(place, pattern):
    for line in ("ls", "/bin/ls", "/usr/bin/ls", "/usr/bin/../bin/ls"):
        assert (await verdict(line, place, allowing(pattern))).effect == "allow", line


@pytest.mark.parametrize(
    "pattern",
    ["", " ", "*", "l*", "LS", "/usr/*", "/*", "/usr/**", "/**", "bin/ls", "./ls", "~/ls", "/usr/bin", "/usr/bin/", "/opt/*"],
)
async def test_a_pattern_does_not_mean_ls(place, pattern):
    assert (await verdict("ls", place, allowing(pattern))).effect == "ask"


def test_a_star_does_not_cross_a_slash_and_dots_do_not_climb():
    evil = Executable("x", "/opt/tools/deep/evil", "/opt/tools/deep/evil", "")
    assert not matches("/opt/tools/*", evil)
    assert matches("/opt/tools/*/evil", evil)
    assert not matches("/opt/tools/../tools/deep/evil", evil)
    assert matches("/opt/tools/deep/[a-f]vil", evil)
    assert not matches("/opt/tools/deep[!a]evil", evil)


async def test_traversal_under_a_glob_is_seen_through(place):
    a_program(place.cwd / "evil")
    assert (await verdict(f"/usr/bin/../..{place.cwd}/evil", place, allowing("/usr/bin/*"))).effect == "ask"


async def test_a_program_in_the_workspace_never_matches(place):
    a_program(place.cwd / "tool")
    judged = await verdict("./tool", place, allowing(str(place.cwd / "tool"), str(place.cwd / "*")))
    assert (judged.effect, judged.reasons[0].code) == ("ask", "not-trusted")


async def test_a_link_in_the_workspace_to_an_allowlisted_program_does_not_match(place):
    (place.cwd / "ls").symlink_to(LS)
    assert (await verdict("./ls", place, allowing("ls", LS))).effect == "ask"


async def test_a_program_that_others_could_change_never_matches_and_is_identified_by_its_content(tmp_path):
    tools = real_directory(tmp_path / "tools")
    workspace = real_directory(tmp_path / "workspace")
    place = Place(workspace, (workspace,), (tools,))
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


async def test_without_the_check_of_owners_such_a_program_would_match(tmp_path, monkeypatch):
    tools = real_directory(tmp_path / "tools")
    a_program(tools / "tool").chmod(0o777)
    place = Place(Path("/nowhere"), (Path("/nowhere"),), (tools,))
    assert (await verdict("tool", place, allowing("tool"))).effect == "ask"
    monkeypatch.setattr(resolve, "changeable_by_others", lambda path: "")
    assert (await verdict("tool", place, allowing("tool"))).effect == "allow"


def test_a_program_of_the_system_is_identified_without_reading_it(place):
    found = find_executable("ls", here(place), place)
    assert (found.realpath, found.bare, found.distrust) == (LS, "ls", "")
    assert len(found.identity.split(":")) == 4


def test_where_it_would_be_found_depends_on_where_the_line_is(place):
    a_program(place.cwd / "tool")
    assert find_executable("./tool", here(place), place)
    assert find_executable("./tool", None, place) is None
    assert find_executable("./tool", here(place) | {"/elsewhere"}, place) is None
    assert find_executable("no-such-program", here(place), place) is None


def test_many_programs_in_one_file_are_meant_by_name_only():
    ls = Executable("ls", "/bin/ls", "/bin/busybox", "", bare="ls")
    assert matches("ls", ls)
    assert not matches("/bin/busybox", ls)
    assert not matches("/bin/*", ls)


async def test_files_are_looked_at_anew_for_a_line_that_was_read_before(place):
    a_program(place.cwd / "tool")
    assert (await analyse("./tool", place)).executables
    (place.cwd / "tool").unlink()
    assert not (await analyse("./tool", place)).executables
