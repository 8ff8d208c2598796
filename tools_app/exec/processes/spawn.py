"""Start one command, in its sandbox, so that nothing of it outlives this process.

The command begins only when its walls stand and this process says so: whoever is killed before has run nothing. It must be started
from the event loop's thread, since the kernel tells of a parent's death when the thread that forked dies.
What the line means and whether it may run is decided before; here it is handed to bash as it is.
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

START_TIMEOUT_SECONDS = 30.0  # a loaded machine takes tenths of a second
MAX_ERROR_LENGTH = 2_000  # characters of what a sandbox says when it cannot be made

FinalCheck = Callable[[int], Awaitable[None]]


async def start_process(spawn: SpawnRequest, *, last_look: FinalCheck | None = None) -> RunningProcess:
    """The command runs when this returns. SpawnFailed or SandboxUnavailable: nothing ran.

    `last_look` is called with the process's id when it stands behind its walls and before it gets the word. What it raises is
    raised here, and nothing ran.
    """
    with ExitStack() as opened:
        ours, theirs = socket.socketpair()
        opened.callback(ours.close)
        with theirs:
            launch = prepare_launch(spawn, theirs.fileno(), opened)
            process, streams, stdin = _start_child(spawn, launch, opened)
        try:
            await _release(process, ours, spawn, streams, opened, last_look)
        except BaseException:
            process.kill()
            process.wait()
            for descriptor in {stdin, *streams.values()}:
                os.close(descriptor)
            raise
        ours.close()
        return RunningProcess(spawn, process, streams, stdin, opened.pop_all())


def prepare_launch(spawn: SpawnRequest, talk: int, opened: ExitStack) -> SandboxLaunch:
    """The command line for the level that was asked for. No other one is tried."""
    program = build_argv(spawn)
    if any("\0" in word for word in (*program, *spawn.env, *spawn.env.values())):
        raise SpawnFailed(_("the command contains a NUL character"))
    make = bwrap.prepare_launch if spawn.sandbox.level == SandboxLevel.BWRAP else landlock.prepare_launch
    return make(spawn, program, talk, opened)


def build_argv(spawn: SpawnRequest) -> tuple[str, ...]:
    """What is executed: bash with the line, byte for byte, or the program itself."""
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
    """-> the process, what is read from it, where its stdin is written. All without blocking."""
    directory = _open_working_directory(spawn, opened)
    if spawn.pty:
        terminal, its_side = open_terminal()
        given: Mapping[str, int] = {"stdin": its_side, "stdout": its_side, "stderr": its_side}
    else:
        given = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    try:
        process = subprocess.Popen(  # noqa: S603  # what was approved
            launch.argv,
            env=dict(launch.env),
            cwd=directory,
            pass_fds=launch.descriptors,
            start_new_session=True,  # Ctrl-C in the server's terminal is not meant for it
            bufsize=0,
            **given,  # type: ignore[call-overload]
        )
    except OSError as error:
        if spawn.pty:
            os.close(terminal)
        raise SpawnFailed(_("the command was not started: %(reason)s") % {"reason": error.strerror}) from error
    finally:
        if spawn.pty:
            os.close(its_side)
    if spawn.pty:
        return process, {"stdout": terminal}, terminal
    descriptors = {}
    for name in ("stdin", "stdout", "stderr"):
        pipe = getattr(process, name)
        descriptors[name] = os.dup(pipe.fileno())  # ours to close, not Popen's
        os.set_blocking(descriptors[name], False)
        pipe.close()
    return process, {"stdout": descriptors["stdout"], "stderr": descriptors["stderr"]}, descriptors["stdin"]


def _open_working_directory(spawn: SpawnRequest, opened: ExitStack) -> str:
    """The directory that was approved, held by a descriptor: what its name means may change until the child is there."""
    if spawn.sandbox.level == SandboxLevel.BWRAP:
        shown = paths.list_visible_directories(spawn.sandbox)
        if not any(spawn.cwd.is_relative_to(path) for path in (*shown, Path("/tmp"))):  # noqa: S108
            raise SpawnFailed(_("the directory %(path)s is not in the sandbox") % {"path": spawn.cwd})
        return "/"  # bubblewrap goes there inside, where no name leads out
    try:
        held = os.open(spawn.cwd, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SpawnFailed(_("could not enter %(path)s: %(reason)s") % {"path": spawn.cwd, "reason": error.strerror}) from error
    opened.callback(os.close, held)
    if sys.platform != "linux":
        return str(spawn.cwd)
    if os.readlink(f"/proc/self/fd/{held}") != str(spawn.cwd):
        raise SpawnFailed(_("%(path)s has changed since the command was reviewed") % {"path": spawn.cwd})
    return f"/proc/self/fd/{held}"


async def _release(
    process: "subprocess.Popen[bytes]",
    ours: socket.socket,
    spawn: SpawnRequest,
    streams: Mapping[OutputStream, int],
    opened: ExitStack,
    last_look: FinalCheck | None,
) -> None:
    """Wait until the command stands behind its walls, put it into its group, and give it the word."""
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
    if last_look:
        await last_look(process.pid)
    try:
        ours.send(b"go\n")
    except OSError as error:
        raise SpawnFailed(_("the command was not started: %(reason)s") % {"reason": error}) from error


def _find_only_child(process: int) -> int:
    """The command that waits, inside what we started."""
    (child,) = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return int(child)


def _read_startup_error(process: "subprocess.Popen[bytes]", streams: Mapping[OutputStream, int]) -> str:
    """What a sandbox that could not be made has said. It is about the host, not from the command."""
    descriptor = streams.get("stderr", streams["stdout"])
    said = b""
    while len(said) < MAX_ERROR_LENGTH and select.select([descriptor], [], [], 1.0)[0]:
        try:
            piece = os.read(descriptor, MAX_ERROR_LENGTH)
        except OSError:
            break
        if not piece:
            break
        said += piece
    return said.decode(errors="replace").strip()[:MAX_ERROR_LENGTH] or _("exited immediately with code %(code)s") % {
        "code": process.poll()
    }
