"""Run a program so that nothing of it is left behind: `python -I -S guard.py PARENT_PID PROGRAM ARGUMENT…`.

This process stands between a parent and a program that is not ours. The program has the pipes; the guard only waits. When
the program ends, when the guard is asked to (SIGTERM), or when the parent dies, by kill -9 too, everything that the program
started is killed, also what has left its process group. Needs nothing but the standard library, so that it starts in 30 ms.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

GRACE_SECONDS = 2.0  # between SIGTERM and SIGKILL, where nothing else is said
WATCHED_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
NOT_STARTED_CODE = 127  # the shell's code for a program that could not be run

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


def guarded_command(program: str, *arguments: str) -> list[str]:
    """The command line that runs a program under a guard of this process."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), program, *arguments]


def _execute(argv: list[str]) -> None:
    os.execvp(argv[0], argv)  # noqa: S606  # what an operator entered, without a shell


def main(parent: int, argv: list[str], *, grace: float = GRACE_SECONDS, become: Callable[[list[str]], None] = _execute) -> int:
    """Guard a program until its end; -> its code. `become` turns the child into it; `grace` is for ending when asked to."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # orphans of the program become our children, wherever they went
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
    """In the child: a group of its own, the signals as they are by default, and SIGKILL should the guard be killed."""
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
    """Whoever reads the program's output sees its end when the program ends, not when we do."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def _next_signal() -> int | None:
    """Wait for a signal, a second at most: where the system does not tell of a parent's death, somebody has to look."""
    if sys.platform == "linux":
        found = signal.sigtimedwait(WATCHED_SIGNALS, 1.0)
        return found.si_signo if found else None
    time.sleep(0.1)
    waiting = signal.sigpending() & WATCHED_SIGNALS
    return signal.sigwait(waiting) if waiting else None


def _read_exit_code(program: int) -> int | None:
    """The program's exit code, if it has one. Other children are orphans that we only bury."""
    code = None
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] == program:
                code = os.waitstatus_to_exitcode(found[1])
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
    for _ in range(200):  # a child that is killed leaves its own children to us, generation after generation
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
