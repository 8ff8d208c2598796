"""A control group for one command: how many processes and how much memory all of it may have together.

Needed where the server runs as root: the kernel does not count root's processes against a limit. Others have the limit, and
seldom a control group they may write. Version 1 (one tree for each controller) and version 2 (one for all).
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
    """Where groups can be made, by controller; empty where they cannot."""
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
                # Version 2 keeps processes out of groups that share out controllers: ours stand beside the server's.
                beside = (CGROUP_ROOT / own).parent if own else CGROUP_ROOT
                shared = (beside / "cgroup.subtree_control").read_text().split()
                found |= {
                    controller: beside for controller in ("pids", "memory") if controller in shared and controller not in found
                }
    return {controller: path for controller, path in found.items() if os.access(path, os.W_OK)}


def can_limit_processes() -> bool:
    """Whether a fork bomb ends at the limit: by a group, or because we are not root."""
    return os.geteuid() != 0 or "pids" in find_parents()


def enter_group(process: int, limits: ProcessLimits, opened: ExitStack) -> None:
    """Put a process into a new group, before it has any children. The group goes with `opened`. OSError: it was not done."""
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
    if (group / file).exists():  # another controller's, another version's
        (group / file).write_text(str(value))


def _remove(group: Path) -> None:
    with suppress(OSError):  # still busy: the next command removes it
        group.rmdir()


def _remove_stale(directory: Path) -> None:
    for left in directory.glob(f"{PREFIX}-*"):
        owner = left.name.split("-")[2]
        if owner == str(os.getpid()) or not Path(f"/proc/{owner}").exists():
            _remove(left)  # fails for one in use
