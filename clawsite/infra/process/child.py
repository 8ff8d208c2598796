"""Child processes of the supervisor. They are detached from the terminal and end with their parent."""

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
    """Start a child, which must call `end_with_parent`.

    It runs in a new session, so that Ctrl-C in the terminal only reaches the parent, which then stops its children in order.
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
    """Get SIGTERM when the parent dies, even by kill -9. Does nothing if this process was not started by `spawn`."""
    parent = int(os.environ.pop(_PARENT, "0"))
    if not parent:
        return
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    else:
        threading.Thread(target=_watch, args=(parent,), name="parent-watch", daemon=True).start()
    if os.getppid() != parent:  # the parent died before the signal was set up
        os.kill(os.getpid(), signal.SIGTERM)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
