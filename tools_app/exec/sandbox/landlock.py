"""Run a command under landlock and a system call filter (for hosts without user namespaces), or with resource limits only.

Landlock controls reading and writing by path; it hides nothing and mounts nothing. So a command can discover the names of files
outside, change their mode and owner if the account may do so, and see other processes in /proc. /tmp is not accessible; TMPDIR is
the command's own directory. Unix sockets are denied entirely, because landlock does not know who listens behind a socket file.
Commands of both levels are started by the guard, because there is no namespace that ends with its first process.
"""

import ctypes
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from clawsite.infra.process import guard
from tools_app.exec.sandbox import paths, seccomp
from tools_app.exec.sandbox.types import ProcessLimits, Sandbox, SandboxLaunch, SandboxLevel, SandboxUnavailable, SpawnRequest

CONFINE_SCRIPT = str(Path(__file__).with_name("confine.py"))

# linux/landlock.h
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_ALL_OF_VERSION = {
    1: (1 << 13) - 1,
    2: (1 << 14) - 1,
    3: (1 << 15) - 1,
    5: (1 << 16) - 1,
}  # all file rights by version: 2 added refer, 3 truncate, 5 ioctl
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_TCP = 0b11  # bind and connect; since version 4
_SCOPED = 0b11  # confines abstract sockets and signals; since version 6
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_CREATE_RULESET, _VERSION_FLAG = 444, 1
SIGNALS_SINCE = 6

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


@cache
def landlock_version() -> int:
    """The landlock version of this kernel; 0 if it is missing or disabled."""
    if sys.platform != "linux":
        return 0
    version = int(
        ctypes.CDLL(None).syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    )
    return max(0, version)


def prepare_launch(spawn: SpawnRequest, program: Iterable[str], talk: int, opened: ExitStack) -> SandboxLaunch:
    """Build the launch for the sandbox's level, landlock or none. `opened` later closes and removes its resources."""
    landlock, rules, env = None, None, dict(spawn.env)
    if spawn.sandbox.level == SandboxLevel.LANDLOCK:
        paths.check_sandbox(spawn.sandbox)
        if inside := paths.list_hidden_inside(spawn.sandbox):
            raise SandboxUnavailable(_("%(path)s is visible to commands, and landlock can’t hide it") % {"path": inside[0]})
        if inside := paths.list_read_only_inside(spawn.sandbox):
            raise SandboxUnavailable(
                _("%(path)s is this server’s code and is inside the workspace, where landlock can’t protect it")
                % {"path": inside[0]}
            )
        scratch = _make_scratch(opened)
        env["TMPDIR"] = str(scratch)
        if spawn.sandbox.private_home is None:
            env["HOME"] = str(scratch)
        landlock = build_ruleset(spawn.sandbox, scratch)
        network = spawn.sandbox.network
        rules = _make_memory_file(seccomp.build_filter(internet=network, unix=False, truncate=landlock_version() >= 3), opened)
    order = {
        "guard": str(Path(guard.__file__).parent),
        "parent": os.getpid(),
        "talk": talk,
        "terminal": spawn.pty,
        "limits": limits_to_json(spawn.limits),
        "landlock": landlock,
        "seccomp": rules,
    }
    order_fd = _make_memory_file(json.dumps(order).encode(), opened)
    argv = [sys.executable, "-I", "-S", CONFINE_SCRIPT, str(order_fd), *program]
    return SandboxLaunch(argv, env, (talk, order_fd) if rules is None else (talk, order_fd, rules))


def build_ruleset(sandbox: Sandbox, scratch: Path) -> dict[str, Any]:
    """The ruleset for `confine`: deny everything landlock can control, then allow exceptions."""
    files = _ALL_OF_VERSION[max(since for since in _ALL_OF_VERSION if since <= landlock_version())]
    everything = files & ~_MAKE_CHAR & ~_MAKE_BLOCK
    rights: dict[str, int] = dict.fromkeys(("/usr", *paths.IN_USR, "/proc"), _READ)
    rights |= dict.fromkeys(paths.list_visible_etc(network=sandbox.network), _READ)
    rights |= dict.fromkeys(DEVICES, _READ_FILE | _WRITE_FILE | _IOCTL_DEV)
    for path, writable in {**paths.list_visible_directories(sandbox), scratch: True}.items():
        rights[str(path)] = everything if writable else _READ
    rules = [
        (path, right & files & (-1 if os.path.isdir(path) else _OF_FILES)) for path, right in rights.items() if os.path.exists(path)
    ]
    network = _TCP if landlock_version() >= 4 and not sandbox.network else 0
    size = 24 if landlock_version() >= 6 else 16 if landlock_version() >= 4 else 8
    return {"files": files, "network": network, "scoped": _SCOPED, "size": size, "rules": rules}


def limits_to_json(limits: ProcessLimits) -> dict[str, int]:
    return {
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_DATA": limits.memory_bytes,
        "RLIMIT_CPU": limits.cpu_s,
        "RLIMIT_NPROC": limits.processes,
    }


def _make_scratch(opened: ExitStack) -> Path:
    """Create the command's own temporary directory. Also removes those of killed workers."""
    parent = Path(os.path.realpath(tempfile.gettempdir()))
    for stale in parent.glob("clawsite-command-*"):
        owner = stale.name.split("-")[2]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and stale.lstat().st_uid == os.getuid():
            shutil.rmtree(stale, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"clawsite-command-{os.getpid()}-", dir=parent))
    opened.callback(shutil.rmtree, scratch, ignore_errors=True)
    return scratch


def _make_memory_file(content: bytes, opened: ExitStack) -> int:
    """A descriptor from which a child can read this content."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("clawsite")
        opened.callback(os.close, descriptor)
    else:
        descriptor = opened.enter_context(tempfile.TemporaryFile()).fileno()  # noqa: SIM115
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
