"""Shared by the exec gate tests: a workspace, an allowlist whose programs don't have to be installed, and a short `judge`."""

import os
from pathlib import Path

from tools_app.exec.gate import examine
from tools_app.exec.gate import verdict as gate
from tools_app.exec.gate.executables import find_executable
from tools_app.exec.gate.shell import shfmt
from tools_app.exec.gate.types import AllowEntry, ExecContext, Executable, GateRules, split_names

SEARCH = tuple(Path(each) for each in ("/usr/local/bin", "/usr/bin", "/bin"))
ALLOWED = sorted(
    split_names(
        """ls cat grep egrep head tail wc sort uniq find xargs sed awk tar git echo cut tr diff env python3 node npm make pytest cp
        mv rm mkdir touch tee timeout nice nohup date du stat file basename dirname rg jq curl cargo go pip ln chmod test printf
        which sleep gzip zip rsync docker bash sh busybox perl ruby ssh vim less flock stdbuf dd gcc comm paste nl od bc
        vim.basic vimdiff rview rvim editor fakeroot-sysv perl5.36-x86_64-linux-gnu diff3 sdiff nm capsh logsave pg_virtualenv
        prove pdb3 ldd xzless unzip"""
    )
)


def make_place(tmp_path, monkeypatch):
    """A workspace. Bare names on the allowlist are found and trusted; paths are really looked up."""
    workspace = tmp_path / "workspace"
    (workspace / "src").mkdir(parents=True)
    (workspace / "build").mkdir()
    for name in ("f", "a.py", "b.py", "notes.txt", "src/main.py", "Makefile"):
        (workspace / name).write_text("text\n")

    def find(name, cwds, place):
        if "/" in name:
            return find_executable(name, cwds, place)
        return Executable(name, f"/programs/{name}", f"/programs/{name}", "1:2:3:4", bare=name) if name in ALLOWED else None

    monkeypatch.setattr(examine, "find_executable", find)
    monkeypatch.setattr(shfmt, "TIMEOUT_SECONDS", 30)  # the machine may be slow, and speed is not tested here
    return ExecContext(Path(os.path.realpath(workspace)), (Path(os.path.realpath(workspace)),), SEARCH)


ALL = GateRules("allowlist", "on-miss", tuple(AllowEntry(name) for name in ALLOWED))


async def verdict(line, place, rules=ALL):
    return gate.judge(await gate.analyze(line, place), rules)
