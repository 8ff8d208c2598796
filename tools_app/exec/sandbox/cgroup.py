"""A control group for one command, which limits its processes and memory in total.

Needed if the server runs as root, because the kernel does not count root's processes against RLIMIT_NPROC. Other accounts are
subject to that limit, and rarely have a control group they can write to. Supports version 1 (one tree per controller) and
version 2 (one for all).
"""

import itertools
import os
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

from tools_app.exec.sandbox.types import ProcessLimits

CGROUP_ROOT = Path("/sys/fs/cgroup")
PREFIX = "clawsite-command"
_numbers = itertools.count(1)


@cache
def find_parents() -> dict[str, Path]:
    """Return the directories in which groups can be created, by controller; empty if there are none."""
    if os.geteuid() != 0:
        return {}
    found = {}
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _number, controllers, path = line.split(":", 2)
            own = path.lstrip("/")
            for controller in {"pids", "memory"} & set(controllers.split(",")):
                found[controller] = CGROUP_ROOT / controllers / own
            if not controllers:
                # Version 2 allows no processes in groups that delegate controllers, so ours are siblings of the server's.
                beside = (CGROUP_ROOT / own).parent if own else CGROUP_ROOT
                shared = (beside / "cgroup.subtree_control").read_text().split()
                found |= {
                    controller: beside for controller in ("pids", "memory") if controller in shared and controller not in found
                }
    return {controller: path for controller, path in found.items() if os.access(path, os.W_OK)}


def can_limit_processes() -> bool:
    """Whether a fork bomb hits a limit: through a group, or because we are not root."""
    return os.geteuid() != 0 or "pids" in find_parents()


def enter_group(process: int, limits: ProcessLimits, opened: ExitStack) -> None:
    """Move a process into a new group before it has children. `opened` removes the group. Raises OSError on failure."""
    directories = dict.fromkeys(find_parents().values())
    if not directories:
        return
    name = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
    for directory in directories:
        _remove_stale(directory)
        group = directory / name
        group.mkdir()
        opened.callback(_remove, group)
        _write_limit(group, "pids.max", limits.processes)
        for file in ("memory.max", "memory.limit_in_bytes", "memory.swap.max", "memory.memsw.limit_in_bytes"):
            _write_limit(group, file, 0 if file == "memory.swap.max" else limits.memory_bytes)
        (group / "cgroup.procs").write_text(str(process))


def _write_limit(group: Path, file: str, value: int) -> None:
    if (group / file).exists():  # absent for other controllers and versions
        (group / file).write_text(str(value))


def _remove(group: Path) -> None:
    with suppress(OSError):  # still busy: the next command removes it
        group.rmdir()


def _remove_stale(directory: Path) -> None:
    for stale in directory.glob(f"{PREFIX}-*"):
        owner = stale.name.split("-")[2]
        if owner == str(os.getpid()) or not Path(f"/proc/{owner}").exists():
            _remove(stale)  # fails if in use
