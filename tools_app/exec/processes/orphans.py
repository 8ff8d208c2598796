"""End a process by its identity: a command whose worker is frozen or lost, ended by the worker that goes on in its place.

Only where its pid means something, on the same host since the same boot; and only that very process, never one that got its pid.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from clawsite.infra.process.identity import ProcessIdentity, identity_of, is_alive, is_of_this_boot

GUARD_TIMEOUT_SECONDS = 3.0  # for a guard to end its tree
END_TIMEOUT_SECONDS = 10.0  # after SIGKILL; more than a moment only where the kernel waits for a disk
POLL_SECONDS = 0.01


def end_process(process: ProcessIdentity, *, guarded: bool) -> bool:
    """End it with everything it started. -> whether it is gone now; False too where nobody can tell. Blocking.

    `guarded`: what stands around the command is our guard, who has to end the tree himself; bubblewrap's dies with it.
    """
    if sys.platform != "linux" or not is_of_this_boot(process):
        return False
    try:
        held = os.pidfd_open(process.pid)  # from here on nobody else can get this pid under our hands
    except ProcessLookupError:
        return True
    try:
        if not is_alive(process):
            return True
        # Those below bubblewrap die a moment after it: when the first of their namespace is gone, so are all others.
        tree = [process, *_list_children(process.pid)]
        if guarded:
            _send_signal(held, signal.SIGTERM)
            _send_signal(held, signal.SIGCONT)
            if _wait_until_gone(tree, GUARD_TIMEOUT_SECONDS):
                return True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # it leads a group of its own
        _send_signal(held, signal.SIGKILL)
        return _wait_until_gone(tree, END_TIMEOUT_SECONDS)
    finally:
        os.close(held)


def _send_signal(held: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        signal.pidfd_send_signal(held, number)


def _list_children(pid: int) -> list[ProcessIdentity]:
    try:
        return [identity_of(int(child)) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _wait_until_gone(tree: Sequence[ProcessIdentity], seconds: float) -> bool:
    give_up = time.monotonic() + seconds
    while any(process.started and is_alive(process) for process in tree):
        if time.monotonic() > give_up:
            return False
        time.sleep(POLL_SECONDS)
    return True
