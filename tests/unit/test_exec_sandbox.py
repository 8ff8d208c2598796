"""What a command gets in its sandbox, and how the host's sandbox level is determined."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.harness.processes import PROJECT
from tests.harness.sandbox import ISOLATED_LEVELS, Shell
from tools_app.exec.environment import SEARCH_PATH, build_environment, hash_environment
from tools_app.exec.sandbox import available as sandbox
from tools_app.exec.sandbox import bwrap, landlock
from tools_app.exec.sandbox import probe as sandbox_probe
from tools_app.exec.sandbox.types import SandboxLevel, SandboxUnavailable, SpawnFailed

every_level = pytest.mark.parametrize("level", list(SandboxLevel), ids=lambda level: level.label)
levels = pytest.mark.parametrize("level", ISOLATED_LEVELS, ids=lambda level: level.label)


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


@pytest.fixture
def probed_anew():
    sandbox.probe_once.cache_clear()
    yield
    sandbox.probe_once.cache_clear()


@levels
@pytest.mark.parametrize(("access", "read", "written"), [("rw", True, True), ("ro", True, False), ("none", False, False)])
async def test_workspace_access_matches_the_access_level(shell, level, access, read, written):
    (shell.workspace / "file").write_text("mine")
    home = shell.above / "home"
    home.mkdir()
    box = shell.sandbox(level, access=access, private_home=home)
    line = f"cat {shell.workspace}/file; echo x > {shell.workspace}/new; echo kept > ~/note; true"
    result = await shell.run(level, line, sandbox=box, cwd=home)
    assert (result.out == "mine") is read
    assert (shell.workspace / "new").exists() is written
    assert (home / "note").read_text() == "kept\n"


@levels
async def test_command_sees_the_workspace_under_its_real_path(shell, level):
    assert (await shell.run(level, "pwd -P")).out.strip() == str(shell.workspace)


@every_level
async def test_command_gets_only_the_built_environment(shell, level, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("BASH_ENV", str(shell.secret))
    spawn = shell.spawn(level, "")
    result = await shell.run(level, "", argv=("/usr/bin/env",), env={**spawn.env, "ASKED_FOR": "1"})
    got = dict(line.split("=", 1) for line in result.out.splitlines())
    made_by_the_level = {"_"} | ({"TMPDIR", "HOME"} if level == SandboxLevel.LANDLOCK else set())
    assert {name: value for name, value in got.items() if name not in made_by_the_level} == {
        name: value for name, value in {**spawn.env, "ASKED_FOR": "1"}.items() if name not in made_by_the_level
    }


def test_environment_keeps_locale_and_drops_unsafe_variables(tmp_path):
    server = {"LANG": "de_DE.UTF-8", "LC_ALL": "C", "TZ": "../../etc/shadow", "PATH": "/evil", "LD_PRELOAD": "x", "PYTHONPATH": "x"}
    built = build_environment(tmp_path, server=server)
    assert built["LANG"] == "de_DE.UTF-8"
    assert built["LC_ALL"] == "C"
    assert built["PATH"] == ":".join(SEARCH_PATH)
    assert not {"TZ", "LD_PRELOAD", "PYTHONPATH"} & built.keys()
    for name in ("GIT_CONFIG_GLOBAL", "WGETRC", "NPM_CONFIG_USERCONFIG", "PIP_CONFIG_FILE"):
        assert built[name] == "/dev/null"  # no settings from a home that the agent can write to
    assert (built["PYTHONNOUSERSITE"], built["GOENV"], built["CURL_HOME"]) == ("1", "off", "/nonexistent")
    assert hash_environment(built) == hash_environment(dict(reversed(built.items())))
    assert hash_environment(built) != hash_environment(built | {"LC_ALL": "C.UTF-8"})


@levels
async def test_common_tools_work_in_the_sandbox(shell, level):
    line = """set -e; git init -q . ; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first
    git log --oneline | wc -l; python3 -c 'import json, ssl, tempfile; tempfile.TemporaryFile(); print(json.dumps([1]))'
    sort <(echo b; echo a) | head -1; mktemp >/dev/null; seq 3 | xargs -P 2 -n 1 echo | wc -l; date >/dev/null"""
    result = await shell.run(level, line)
    assert (result.out.split(), result.err) == (["1", "[1]", "a", "3"], "")


async def test_landlock_refuses_workspace_exposing_the_state_directory(shell):
    box = shell.sandbox(SandboxLevel.LANDLOCK, hidden=(shell.workspace / "state",))
    with pytest.raises(SandboxUnavailable):
        await shell.run(SandboxLevel.LANDLOCK, "true", sandbox=box)


@levels
async def test_state_directory_is_refused_as_workspace(shell, level):
    with pytest.raises(SandboxUnavailable):
        await shell.run(level, "true", sandbox=shell.sandbox(level, hidden=(shell.workspace,)))


@levels
@pytest.mark.parametrize("path", ["/", "/usr", "/etc", "/tmp", "relative", "/does/not/exist"])
async def test_system_directory_is_refused_as_workspace(shell, level, path):
    with pytest.raises((SandboxUnavailable, SpawnFailed)):
        await shell.run(level, "true", sandbox=shell.sandbox(level, workspace=type(shell.workspace)(path)))


async def test_working_directory_outside_the_workspace_is_refused(shell):
    with pytest.raises(SpawnFailed):
        await shell.run(SandboxLevel.BWRAP, "true", cwd=shell.outside)


@pytest.mark.parametrize("level", [SandboxLevel.NONE, SandboxLevel.LANDLOCK])
async def test_working_directory_replaced_by_symlink_is_refused(shell, level):
    """Approved as a directory, replaced before the start."""
    (shell.workspace / "sub").symlink_to(shell.outside)
    with pytest.raises(SpawnFailed):
        await shell.run(level, "cat secret", cwd=shell.workspace / "sub")


def test_probe_finds_the_sandbox_level_of_this_host(probed_anew):
    found = sandbox.probe_once()
    assert found.level == SandboxLevel.BWRAP, [str(reason) for reason in found.why_not_higher]
    assert sandbox.require_level(SandboxLevel.LANDLOCK) == SandboxLevel.BWRAP
    assert sandbox_probe.run_attempts(SandboxLevel.LANDLOCK) == sandbox_probe.REQUIRED


def program(path, text):
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


# Looks like bubblewrap and accepts its options, but confines nothing.
NO_WALLS = 'while [[ $1 != -- ]]; do shift; done; shift; exec "$@"'


@pytest.mark.parametrize(
    ("fake", "words"),
    [
        (NO_WALLS, "could read outside"),
        ("echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1", "setting up uid map"),
        ("exit 0", "it ended with code 0"),
        ('printf "ready\\nran wrote-inside"', "it ended"),
    ],
)
def test_ineffective_bubblewrap_is_rejected_by_the_probe(tmp_path, monkeypatch, probed_anew, fake, words):
    path = program(tmp_path / "bwrap", fake)
    real = bwrap.find_program
    monkeypatch.setattr(bwrap, "find_program", lambda name: path if name == "bwrap" else real(name))
    found = sandbox.probe_once()
    assert found.level == SandboxLevel.LANDLOCK
    if "printf" not in fake:
        assert words in "; ".join(map(str, found.why_not_higher))
    with pytest.raises(SandboxUnavailable):
        sandbox.require_level(SandboxLevel.BWRAP)


@pytest.mark.parametrize("lost", ["--unshare-net", "wall"])
def test_bubblewrap_missing_one_restriction_is_rejected(monkeypatch, probed_anew, lost):
    if lost == "wall":
        monkeypatch.setattr(
            bwrap, "_mount_directories", lambda box: ["--bind", str(box.workspace.parent), str(box.workspace.parent)]
        )
    else:
        monkeypatch.setattr(bwrap, "NAMESPACES", (*bwrap.NAMESPACES, "--share-net"))
    assert sandbox.probe_once().level == SandboxLevel.LANDLOCK


def test_missing_bubblewrap_and_landlock_refuse_commands(monkeypatch, probed_anew):
    monkeypatch.setattr(sandbox_probe, "find_program", lambda name: None)
    monkeypatch.setattr(landlock, "landlock_version", lambda: 0)
    found = sandbox.probe_once()
    assert found.level == SandboxLevel.NONE
    assert "bubblewrap: not installed: bwrap" in [str(reason) for reason in found.why_not_higher]
    with pytest.raises(SandboxUnavailable, match="requires sandbox level landlock, but this host has none"):
        sandbox.require_level(SandboxLevel.LANDLOCK)
    assert sandbox.require_level(SandboxLevel.NONE) == SandboxLevel.NONE


def test_sandbox_is_unavailable_outside_linux(monkeypatch):
    monkeypatch.setattr(sandbox_probe.sys, "platform", "darwin")
    assert sandbox_probe.probe().level == SandboxLevel.NONE


AS_SOMEBODY_ELSE = """
import asyncio, os, sys, tempfile
from pathlib import Path
from django.conf import settings
settings.configure(USE_I18N=False)
from tests.harness.sandbox import COUNT_FORKS, Shell
from tools_app.exec.sandbox import available
from tools_app.exec.sandbox.types import SandboxLevel, ProcessLimits
print(available.probe_once().level.label)
with tempfile.TemporaryDirectory() as above:
    shell = Shell(Path(above))
    line = f"id -u; cat {shell.secret}; echo x > new; python3 -c '{COUNT_FORKS}'"
    print(asyncio.run(shell.run(SandboxLevel.BWRAP, line, limits=ProcessLimits(processes=40))).out)
"""


def _for_everybody(request, modules) -> Path:
    """A copy of the code that any account can read: only root may have access to the checkout."""
    place = Path(tempfile.mkdtemp(prefix="clawsite-", dir="/tmp"))
    request.addfinalizer(lambda: shutil.rmtree(place))
    place.chmod(0o755)
    for package in ("clawsite", "tools_app"):
        shutil.copytree(PROJECT / package, place / package, ignore=shutil.ignore_patterns("__pycache__"))
    (place / "tests/harness").mkdir(parents=True)
    for name in ("__init__.py", "harness/__init__.py", "harness/sandbox.py"):
        shutil.copy(PROJECT / "tests" / name, place / "tests" / name)
    for module in modules:
        source = Path(module.__file__)
        if source.name == "__init__.py":
            shutil.copytree(source.parent, place / source.parent.name, ignore=shutil.ignore_patterns("__pycache__", "locale"))
        else:
            shutil.copy(source, place / source.name)
    subprocess.run(["chmod", "-R", "a+rX", str(place)], check=True)
    return place


def test_unprivileged_account_has_the_same_isolation_and_limits(request):
    """The tests may run as root; servers should not."""
    import asgiref
    import django
    import pyseccomp

    python, path = [sys.executable], str(PROJECT)
    if os.geteuid() == 0:
        python = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3"]
        path = str(_for_everybody(request, [django, asgiref, pyseccomp]))
    done = subprocess.run(
        [*python, "-c", AS_SOMEBODY_ELSE],
        env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    word, account, forked = done.stdout.split()
    assert word == "bubblewrap"
    assert account == ("65534" if os.geteuid() == 0 else str(os.getuid()))
    assert 5 <= int(forked) <= 40


async def test_workspace_below_var_tmp_keeps_its_path(request):
    """In a sandbox that needs no /var/tmp, /var/tmp is another name for /tmp."""
    place = Path(tempfile.mkdtemp(prefix="clawsite-", dir="/var/tmp"))
    request.addfinalizer(lambda: shutil.rmtree(place))
    ended = await Shell(place).run(SandboxLevel.BWRAP, "pwd; echo x > made; cat made; ls -d /var/tmp")
    assert ended.out.split() == [str(Shell(place).workspace), "x", "/var/tmp"]
