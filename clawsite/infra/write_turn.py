"""Processes that write to one SQLite database take turns, so that each waits only as long as the other's transaction.

SQLite itself has no queue: a process that finds the database locked sleeps for 1, 2, 5, 10 … 100 ms and tries again. This lock
only saves that time; SQLite's own lock still protects the data. So a writer that does not get its turn in time writes anyway, and
other code that writes (pages, commands) takes no turns. The kernel releases the lock of a killed process.
"""

import fcntl
import functools
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.0005  # at first; transactions take 0.3 to 5 ms
MAX_RETRY_SECONDS = 0.01
MAX_WAIT_SECONDS = 2.0  # after this, another process must be suspended or stuck in a transaction


@contextmanager
def take_write_turn() -> Iterator[None]:
    """Wait for this process's turn to write, and pass it on at the end. Does nothing on PostgreSQL."""
    descriptor = _open_turn(str(connection.settings_dict["NAME"])) if connection.vendor == "sqlite" else None
    taken = descriptor is not None and _lock(descriptor)
    try:
        yield
    finally:
        if descriptor is not None and taken:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _lock(descriptor: int) -> bool:
    # Not a blocking call, which has no time limit.
    give_up, pause = time.monotonic() + MAX_WAIT_SECONDS, RETRY_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                return False
            time.sleep(pause)
            pause = min(pause * 1.1, MAX_RETRY_SECONDS)
        except OSError as error:  # a file system without locks
            log.debug("can't lock the write turn file: %s", error)
            return False
        else:
            return True


@functools.cache
def _open_turn(database: str) -> int | None:
    """Open the lock file beside the database; None for a database in memory or a read-only directory."""
    if not os.path.isfile(database):
        return None
    try:
        return os.open(f"{database}-turn", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        log.debug("can't open the write turn file: %s", error)
        return None
