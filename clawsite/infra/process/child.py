"""Child processes of the supervisor: started apart from the terminal, and never outliving their parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

_PARENT = "CLAWSITE_PARENT_PID"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def spawn(
    argv: Sequence[str], *, env: Mapping[str, str], pass_fds: Sequence[int] = (), stdout: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a child that calls `end_with_parent`.

    It gets a session of its own: Ctrl-C in the terminal then reaches the parent alone, which asks its children to end in order.
    """
    return subprocess.Popen(  # noqa: S603  # the command lines are our own
        argv,
        env={**env, _PARENT: str(os.getpid())},
        pass_fds=pass_fds,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        start_new_session=True,
    )


def end_with_parent() -> None:
    """Have this process asked to end (SIGTERM) when whoever spawned it dies, by kill -9 too. Without such a parent, nothing."""
    parent = int(os.environ.pop(_PARENT, "0"))
    if not parent:
        return
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    else:
        threading.Thread(target=_watch, args=(parent,), name="parent-watch", daemon=True).start()
    if os.getppid() != parent:  # it died before we could ask to be told
        os.kill(os.getpid(), signal.SIGTERM)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
