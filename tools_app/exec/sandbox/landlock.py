"""A command under landlock and a filter of system calls, for hosts without user namespaces; and one with nothing but limits.

Landlock decides by path who may read and write; it hides nothing and mounts nothing. So here the names of files outside can
be found out, their mode and owner changed where the account may, and processes of others seen in /proc. /tmp is closed; TMPDIR
is a directory of the command's own. Sockets are refused altogether: landlock does not know who listens behind a socket's file.
Both kinds are started by the guard, since there is no namespace that ends with its first process.
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
}  # files; since 2 refer, 3 truncate, 5 ioctl
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_TCP = 0b11  # bind and connect, since 4
_SCOPED = 0b11  # abstract sockets and signals stay inside, since 6
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_CREATE_RULESET, _VERSION_FLAG = 444, 1
SIGNALS_SINCE = 6

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


@cache
def landlock_version() -> int:
    """Of landlock in this kernel; 0: it has none, or it is switched off."""
    if sys.platform != "linux":
        return 0
    answer = int(
        ctypes.CDLL(None).syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    )
    return max(0, answer)


def prepare_launch(spawn: SpawnRequest, program: Iterable[str], talk: int, opened: ExitStack) -> SandboxLaunch:
    """At level landlock or none, as the sandbox says. What was opened and made for it is closed and removed by `opened`."""
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
    described = {
        "guard": str(Path(guard.__file__).parent),
        "parent": os.getpid(),
        "talk": talk,
        "terminal": spawn.pty,
        "limits": limits_to_json(spawn.limits),
        "landlock": landlock,
        "seccomp": rules,
    }
    orders = _make_memory_file(json.dumps(described).encode(), opened)
    argv = [sys.executable, "-I", "-S", CONFINE_SCRIPT, str(orders), *program]
    return SandboxLaunch(argv, env, (talk, orders) if rules is None else (talk, orders, rules))


def build_ruleset(sandbox: Sandbox, scratch: Path) -> dict[str, Any]:
    """The ruleset as `confine` takes it: everything landlock knows is forbidden, then some is allowed."""
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
    """The command's own temporary directory. Those of workers that were killed are removed on the way."""
    above = Path(os.path.realpath(tempfile.gettempdir()))
    for left in above.glob("clawsite-command-*"):
        owner = left.name.split("-")[2]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and left.lstat().st_uid == os.getuid():
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=f"clawsite-command-{os.getpid()}-", dir=above))
    opened.callback(shutil.rmtree, made, ignore_errors=True)
    return made


def _make_memory_file(content: bytes, opened: ExitStack) -> int:
    """A descriptor from which a child reads this."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("clawsite")
        opened.callback(os.close, descriptor)
    else:
        descriptor = opened.enter_context(tempfile.TemporaryFile()).fileno()  # noqa: SIM115
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
