"""Run a program and kill all its processes at the end: `python -I -S guard.py PARENT_PID PROGRAM ARGUMENT…`.

The guard runs between the parent and a third-party program. The program has the pipes; the guard only waits. When the program
exits, when the guard gets SIGTERM, or when the parent dies, even by kill -9, the guard kills every process that the program
started, including those that left its process group. It only needs the standard library, so that it starts in 30 ms.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

GRACE_SECONDS = 2.0  # default time between SIGTERM and SIGKILL
WATCHED_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
NOT_STARTED_CODE = 127  # the shell's exit code for a program that could not be run

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


def guarded_command(program: str, *arguments: str) -> list[str]:
    """Return the command line that runs a program under a guard, with this process as the parent."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), program, *arguments]


def _execute(argv: list[str]) -> None:
    os.execvp(argv[0], argv)  # noqa: S606  # the operator's command, without a shell


def main(parent: int, argv: list[str], *, grace: float = GRACE_SECONDS, become: Callable[[list[str]], None] = _execute) -> int:
    """Guard a program until it exits and return its exit code.

    `become` executes the program in the child; `grace` is the time between SIGTERM and SIGKILL.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # orphans of the program become our children, even outside its process group
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED_SIGNALS)
    program = os.fork()
    if program == 0:
        _become(argv, become)
    _close_pipes()
    code = None
    while code is None and os.getppid() == parent:
        if _next_signal() not in (None, signal.SIGCHLD):
            break
        code = _read_exit_code(program)
    if code is None:
        code = _terminate(program, grace)
    _kill_tree(program)
    return code


def _become(argv: list[str], become: Callable[[list[str]], None]) -> None:
    """In the child: start a new session, reset the signals, get SIGKILL if the guard dies, and execute the program."""
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED_SIGNALS)
        become(argv)
    except OSError as error:
        os.write(2, f"cannot run {argv[0]}: {error.strerror}\n".encode(errors="replace"))
    finally:
        os._exit(NOT_STARTED_CODE)


def _close_pipes() -> None:
    """Close the guard's copies of the pipes, so that readers see the end of the output when the program exits."""
    devnull = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(devnull, descriptor)


def _next_signal() -> int | None:
    """Wait up to a second for a signal. The caller polls the parent, because not every system signals its death."""
    if sys.platform == "linux":
        info = signal.sigtimedwait(WATCHED_SIGNALS, 1.0)
        return info.si_signo if info else None
    time.sleep(0.1)
    pending = signal.sigpending() & WATCHED_SIGNALS
    return signal.sigwait(pending) if pending else None


def _read_exit_code(program: int) -> int | None:
    """Return the program's exit code if it has exited. Other children are orphans: only reap them."""
    code = None
    with suppress(ChildProcessError):
        while (result := os.waitpid(-1, os.WNOHANG))[0]:
            if result[0] == program:
                code = os.waitstatus_to_exitcode(result[1])
    return code if code is None or code >= 0 else 128 - code


def _terminate(program: int, grace: float) -> int:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline:
        if (code := _read_exit_code(program)) is not None:
            return code
        time.sleep(0.01)
    return 128 + signal.SIGKILL


def _kill_tree(program: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program, signal.SIGKILL)
    for _ in range(200):  # the children of a killed child become ours, one generation per round
        for child in _list_children():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        _read_exit_code(program)
        if not _list_children():
            return
        time.sleep(0.01)


def _list_children() -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:  # not on Linux
        return []


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
