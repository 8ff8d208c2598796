"""Start one command in its sandbox, so that none of its processes outlive this one.

The command starts only when its sandbox is ready and this process sends `go`: if this process is killed before that, nothing has
run. Must be called from the event loop's thread, because the kernel signals a parent's death when the thread that forked ends.
Whether the line may run is decided elsewhere; here it is passed to bash unchanged.
"""

import asyncio
import os
import select
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from django.utils.translation import gettext as _

from tools_app.exec.environment import find_program
from tools_app.exec.processes.running import RunningProcess
from tools_app.exec.processes.terminal import open_terminal
from tools_app.exec.sandbox import bwrap, cgroup, landlock, paths
from tools_app.exec.sandbox.types import (
    OutputStream,
    SandboxLaunch,
    SandboxLevel,
    SpawnFailed,
    SpawnRequest,
)

__all__ = ["RunningProcess", "SpawnFailed", "SpawnRequest", "start_process"]

START_TIMEOUT_SECONDS = 30.0  # even a loaded machine takes only tenths of a second
MAX_ERROR_LENGTH = 2_000  # characters of the error output of a sandbox that failed to start

FinalCheck = Callable[[int], Awaitable[None]]


async def start_process(spawn: SpawnRequest, *, final_check: FinalCheck | None = None) -> RunningProcess:
    """Start the command; it is running when this returns. On SpawnFailed or SandboxUnavailable, nothing ran.

    `final_check` is called with the process ID once the sandbox is ready, before the command starts. If it raises, the exception
    propagates and nothing ran.
    """
    with ExitStack() as opened:
        ours, theirs = socket.socketpair()
        opened.callback(ours.close)
        with theirs:
            launch = prepare_launch(spawn, theirs.fileno(), opened)
            process, streams, stdin = _start_child(spawn, launch, opened)
        try:
            await _release(process, ours, spawn, streams, opened, final_check)
        except BaseException:
            process.kill()
            process.wait()
            for descriptor in {stdin, *streams.values()}:
                os.close(descriptor)
            raise
        ours.close()
        return RunningProcess(spawn, process, streams, stdin, opened.pop_all())


def prepare_launch(spawn: SpawnRequest, talk: int, opened: ExitStack) -> SandboxLaunch:
    """Build the command line for the requested sandbox level. Never falls back to another level."""
    program = build_argv(spawn)
    if any("\0" in word for word in (*program, *spawn.env, *spawn.env.values())):
        raise SpawnFailed(_("the command contains a NUL character"))
    make = bwrap.prepare_launch if spawn.sandbox.level == SandboxLevel.BWRAP else landlock.prepare_launch
    return make(spawn, program, talk, opened)


def build_argv(spawn: SpawnRequest) -> tuple[str, ...]:
    """Return what is executed: bash with the line, byte for byte, or the program itself."""
    if spawn.argv is not None:
        if not spawn.argv or not spawn.argv[0].startswith("/"):
            raise SpawnFailed(_("a program run without a shell must be given by its full path"))
        return spawn.argv
    bash = find_program("bash")
    if not bash:
        raise SpawnFailed(_("bash is not installed"))
    return (bash, "--norc", "--noprofile", "-c", "--", spawn.line)  # `--`: a line may begin with a dash


def _start_child(
    spawn: SpawnRequest, launch: SandboxLaunch, opened: ExitStack
) -> tuple["subprocess.Popen[bytes]", dict[OutputStream, int], int]:
    """Start the process. Returns it with the descriptors to read from and the one for its stdin, all non-blocking."""
    directory = _open_working_directory(spawn, opened)
    if spawn.pty:
        terminal, child_side = open_terminal()
        stdio: Mapping[str, int] = {"stdin": child_side, "stdout": child_side, "stderr": child_side}
    else:
        stdio = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    try:
        process = subprocess.Popen(  # noqa: S603  # the approved command
            launch.argv,
            env=dict(launch.env),
            cwd=directory,
            pass_fds=launch.descriptors,
            start_new_session=True,  # Ctrl-C in the server's terminal must not reach it
            bufsize=0,
            **stdio,  # type: ignore[call-overload]
        )
    except OSError as error:
        if spawn.pty:
            os.close(terminal)
        raise SpawnFailed(_("the command was not started: %(reason)s") % {"reason": error.strerror}) from error
    finally:
        if spawn.pty:
            os.close(child_side)
    if spawn.pty:
        return process, {"stdout": terminal}, terminal
    descriptors = {}
    for name in ("stdin", "stdout", "stderr"):
        pipe = getattr(process, name)
        descriptors[name] = os.dup(pipe.fileno())  # closed by us, not by Popen
        os.set_blocking(descriptors[name], False)
        pipe.close()
    return process, {"stdout": descriptors["stdout"], "stderr": descriptors["stderr"]}, descriptors["stdin"]


def _open_working_directory(spawn: SpawnRequest, opened: ExitStack) -> str:
    """Open the approved directory and hold it by a descriptor, because its path may change before the child uses it."""
    if spawn.sandbox.level == SandboxLevel.BWRAP:
        shown = paths.list_visible_directories(spawn.sandbox)
        if not any(spawn.cwd.is_relative_to(path) for path in (*shown, Path("/tmp"))):  # noqa: S108
            raise SpawnFailed(_("the directory %(path)s is not in the sandbox") % {"path": spawn.cwd})
        return "/"  # bubblewrap changes into it inside the sandbox, where no path leads outside
    try:
        descriptor = os.open(spawn.cwd, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SpawnFailed(_("could not enter %(path)s: %(reason)s") % {"path": spawn.cwd, "reason": error.strerror}) from error
    opened.callback(os.close, descriptor)
    if sys.platform != "linux":
        return str(spawn.cwd)
    if os.readlink(f"/proc/self/fd/{descriptor}") != str(spawn.cwd):
        raise SpawnFailed(_("%(path)s has changed since the command was reviewed") % {"path": spawn.cwd})
    return f"/proc/self/fd/{descriptor}"


async def _release(
    process: "subprocess.Popen[bytes]",
    ours: socket.socket,
    spawn: SpawnRequest,
    streams: Mapping[OutputStream, int],
    opened: ExitStack,
    final_check: FinalCheck | None,
) -> None:
    """Wait until the sandbox is ready, put the command into its control group, and send `go`."""
    loop = asyncio.get_running_loop()
    ours.setblocking(False)
    try:
        async with asyncio.timeout(START_TIMEOUT_SECONDS):
            ready = await loop.sock_recv(ours, 16)
    except TimeoutError:
        raise SpawnFailed(_("the command was not started: its sandbox was not ready in time")) from None
    except ConnectionError:
        ready = b""
    if ready != b"ready\n":
        raise SpawnFailed(_("the command was not started: %(reason)s") % {"reason": _read_startup_error(process, streams)})
    try:
        if sys.platform == "linux":
            cgroup.enter_group(_find_only_child(process.pid), spawn.limits, opened)
    except (OSError, ValueError) as error:
        raise SpawnFailed(_("the command was not started: %(reason)s") % {"reason": error}) from error
    if final_check:
        await final_check(process.pid)
    try:
        ours.send(b"go\n")
    except OSError as error:
        raise SpawnFailed(_("the command was not started: %(reason)s") % {"reason": error}) from error


def _find_only_child(process: int) -> int:
    """Return the PID of the waiting command, the only child of the process we started."""
    (child,) = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return int(child)


def _read_startup_error(process: "subprocess.Popen[bytes]", streams: Mapping[OutputStream, int]) -> str:
    """Error output of a sandbox that failed to start. It describes the host; the command has not run."""
    descriptor = streams.get("stderr", streams["stdout"])
    output = b""
    while len(output) < MAX_ERROR_LENGTH and select.select([descriptor], [], [], 1.0)[0]:
        try:
            piece = os.read(descriptor, MAX_ERROR_LENGTH)
        except OSError:
            break
        if not piece:
            break
        output += piece
    return output.decode(errors="replace").strip()[:MAX_ERROR_LENGTH] or _("exited immediately with code %(code)s") % {
        "code": process.poll()
    }
