"""End the process of a command whose worker is unresponsive or lost. Called by the worker that replaces it.

Works only on the same host and since the same boot, where the PID is meaningful. Never ends a later process with the same PID.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from clawsite.infra.process.identity import ProcessIdentity, identity_of, is_alive, is_of_this_boot

GUARD_TIMEOUT_SECONDS = 3.0  # for a guard to end its process tree
END_TIMEOUT_SECONDS = 10.0  # after SIGKILL; only takes long while the kernel is waiting for a disk
POLL_SECONDS = 0.01


def end_process(process: ProcessIdentity, *, guarded: bool) -> bool:
    """End a process and all its descendants. Returns whether they are gone, or False if that can't be known. Blocking.

    `guarded`: the process is our guard, which has to end the tree itself; bubblewrap's tree dies with it.
    """
    if sys.platform != "linux" or not is_of_this_boot(process):
        return False
    try:
        pidfd = os.pidfd_open(process.pid)  # from here on, the PID can't be reused unnoticed
    except ProcessLookupError:
        return True
    try:
        if not is_alive(process):
            return True
        # Processes below bubblewrap die shortly after it: once the first of their namespace is gone, so are all others.
        tree = [process, *_list_children(process.pid)]
        if guarded:
            _send_signal(pidfd, signal.SIGTERM)
            _send_signal(pidfd, signal.SIGCONT)
            if _wait_until_gone(tree, GUARD_TIMEOUT_SECONDS):
                return True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # the process leads its own process group
        _send_signal(pidfd, signal.SIGKILL)
        return _wait_until_gone(tree, END_TIMEOUT_SECONDS)
    finally:
        os.close(pidfd)


def _send_signal(pidfd: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        signal.pidfd_send_signal(pidfd, number)


def _list_children(pid: int) -> list[ProcessIdentity]:
    try:
        return [identity_of(int(child)) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _wait_until_gone(tree: Sequence[ProcessIdentity], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(process.started and is_alive(process) for process in tree):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
