"""Run a command under bubblewrap: separate namespaces, a nearly empty root, no capabilities, limits, a system call filter.

This module only builds the command line. tools_app.exec.sandbox.probe verifies that the sandbox holds on this host.
"""

import os
from collections.abc import Iterable
from contextlib import ExitStack

from django.utils.translation import gettext as _

from tools_app.exec.environment import find_program
from tools_app.exec.sandbox import paths, seccomp
from tools_app.exec.sandbox.types import ProcessLimits, Sandbox, SandboxLaunch, SandboxUnavailable, SpawnRequest

NAMESPACES = (
    "--unshare-user", "--unshare-all",
    "--disable-userns",  # else a command could create a user namespace and be root in it; requires --unshare-user explicitly
)  # fmt: skip
DIE_WITH_PARENT = ("--die-with-parent",)
# bubblewrap's own init sets its parent-death signal only after it has started the command: a worker killed in those milliseconds
# would leave the command running. Our init script has it set from the start, and waits for the worker's `go`.
AS_INIT = ("--as-pid-1",)
NO_CAPABILITIES = ("--cap-drop", "ALL")
NOBODY_UID = "65534"  # the UID a command sees if the server runs as root; it opens files as root, but without root's capabilities

# The first process in the sandbox: sets the limits (which count only this command's processes here), writes `ready`, waits for
# `go` and runs the command. When it ends, the kernel kills all remaining processes.
# stderr is redirected because bash would report there that its child was killed.
INIT_SCRIPT = r"""
talk=$1 processes=$2; shift 2
echo 1000 >/proc/self/oom_score_adj; unset SHLVL OLDPWD; export -n PWD
ulimit -c 0 -n "$1" -f "$2" -d "$3" -t "$4" && ulimit -u "$processes" || exit 125; shift 4
echo ready >&"$talk"
read -r -u "$talk" word && [[ $word == go ]] || exit 125
exec {talk}>&- {aside}>&2 2>/dev/null
"$@" 2>&"$aside" {aside}>&-
exit $?
"""


def prepare_launch(spawn: SpawnRequest, program: Iterable[str], talk: int, opened: ExitStack) -> SandboxLaunch:
    """Build the launch. `opened` closes its descriptors once the command has started."""
    bwrap, bash = find_program("bwrap"), find_program("bash")
    if not bwrap or not bash:
        raise SandboxUnavailable(_("%(program)s is not installed") % {"program": "bwrap" if bash else "bash"})
    paths.check_sandbox(spawn.sandbox)
    rules = make_memory_file("seccomp", seccomp.build_filter(), opened)
    options = [*build_arguments(spawn.sandbox, spawn.limits), "--chdir", str(spawn.cwd), "--clearenv"]
    if not spawn.pty:
        # With a terminal, setsid (below) gives the command its session. A new session here would make the first process its leader,
        # and bash, started as session leader, takes the terminal for itself.
        options.append("--new-session")
    for name, value in spawn.env.items():
        options += ["--setenv", name, value]
    options += ["--seccomp", str(rules)]
    # Passed through a descriptor, because everyone on the host can read command lines.
    arguments = make_memory_file("bwrap", b"".join(os.fsencode(option) + b"\0" for option in options), opened)
    inside = [bash, "--norc", "--noprofile", "-c", INIT_SCRIPT, "sandbox", str(talk), *format_limits(spawn.limits)]
    if spawn.pty:
        inside += [_find_setsid(), "--ctty"]
    return SandboxLaunch([bwrap, "--args", str(arguments), "--", *inside, *program], {}, (talk, rules, arguments))


def build_arguments(sandbox: Sandbox, limits: ProcessLimits) -> list[str]:
    """All options except the environment and the command."""
    options = [*NAMESPACES, *DIE_WITH_PARENT, *AS_INIT, *NO_CAPABILITIES, "--hostname", "sandbox"]
    if sandbox.network:
        options.append("--share-net")
    if os.geteuid() == 0:
        options += ["--uid", NOBODY_UID, "--gid", NOBODY_UID]
    options += ["--ro-bind", "/usr", "/usr"]
    for path in paths.IN_USR:
        if os.path.islink(path):
            options += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            options += ["--ro-bind", path, path]
    for path in paths.list_visible_etc(network=sandbox.network):
        options += ["--ro-bind", os.path.realpath(path), path]
    small = ("--perms", "1777", "--size", str(limits.temporary_bytes), "--tmpfs")
    # bubblewrap leaves /proc/sys writable for root, and one of its files names a program that the kernel runs as root.
    options += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
    options += ["--dev", "/dev", *small, "/dev/shm", "--remount-ro", "/dev", *small, "/tmp"]  # noqa: S108
    # /var/tmp is a link to /tmp, unless one of the agent's directories is inside it: a link would hide that directory.
    inside = any(path.is_relative_to("/var/tmp") for path in paths.list_visible_directories(sandbox))  # noqa: S108
    options += ["--dir", "/var", *(["--dir", "/var/tmp"] if inside else ["--symlink", "/tmp", "/var/tmp"])]  # noqa: S108
    options += _mount_directories(sandbox)
    return [*options, "--remount-ro", "/"]  # otherwise / would be a writable tmpfs of half the machine's memory


def _mount_directories(sandbox: Sandbox) -> list[str]:
    """Mount the agent's directories at their own paths, then cover hidden and read-only ones. Outermost first: later mounts win."""
    shown = paths.list_visible_directories(sandbox)
    hidden, read_only = paths.list_hidden_inside(sandbox), paths.list_read_only_inside(sandbox)
    mounts = {*shown, *hidden, *read_only}
    # A mount point can't be renamed. Its parents must not be renamed either, or its content would appear at another path.
    above = {way for path in (*hidden, *read_only) for way in path.parents if shown.get(paths.find_innermost(way, mounts) or way)}
    options, last = [], []
    for path in sorted(mounts | above, key=lambda path: len(path.parts)):
        if path in hidden:
            options += ["--tmpfs", str(path)]
            last += ["--remount-ro", str(path)]
        else:
            writable = path not in read_only and shown.get(path, True)
            options += ["--bind" if writable else "--ro-bind", str(path), str(path)]
    return options + last


def format_limits(limits: ProcessLimits) -> list[str]:
    return [
        str(n) for n in (limits.processes, limits.open_files, limits.file_bytes // 1024, limits.memory_bytes // 1024, limits.cpu_s)
    ]


def make_memory_file(name: str, content: bytes, opened: ExitStack) -> int:
    """A descriptor from which a child can read this content."""
    descriptor = os.memfd_create(name)
    opened.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _find_setsid() -> str:
    """Find setsid. It gives the command its own terminal: bubblewrap's session has none, and Ctrl-C must only reach the command."""
    found = find_program("setsid")
    if not found:
        raise SandboxUnavailable(_("a terminal in the sandbox requires setsid (util-linux), which is not installed"))
    return found
