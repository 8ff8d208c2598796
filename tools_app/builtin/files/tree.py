"""Open and walk files below a directory without ever following a symbolic link. Standard library only.

Every name is opened relative to its parent's descriptor with O_NOFOLLOW, so that replacing a directory with a link between a
check and its use has no effect. Failures are plain OSErrors; tools_app.builtin.files.workspace turns them into messages.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tools_app.builtin.files.patterns import FilePattern, States

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: if the file has been replaced by a FIFO, opening it must not wait for a writer.
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

MAX_DEPTH = 64  # a descriptor is held open for each level
SKIPPED_NAMES = frozenset({".git"})  # contains thousands of irrelevant objects


class NotARegularFile(OSError):
    """A device, FIFO or socket: opening one may block or have side effects."""


@contextmanager
def open_directory(top: int, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """Yield the descriptor of a directory below `top`, opened one name at a time."""
    current = os.dup(top)
    try:
        for name in parts:
            below = _enter(current, name, create=create)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)


def _enter(parent: int, name: str, *, create: bool) -> int:
    try:
        return os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    except NotADirectoryError:
        raise_if_link(parent, name)
        raise
    with suppress(FileExistsError):  # created by another process; the open below fails unless it is a directory
        os.mkdir(name, dir_fd=parent)
    return os.open(name, DIRECTORY_FLAGS, dir_fd=parent)


def raise_if_link(parent: int, name: str) -> None:
    """Raise ELOOP for a link, to get a clearer message: Linux reports ENOTDIR when a directory was expected."""
    if stat.S_ISLNK(os.lstat(name, dir_fd=parent).st_mode):
        raise OSError(errno.ELOOP, "symbolic link", name)


def open_regular(parent: int, name: str) -> int:
    """Open a regular file for reading. Raise OSError for links, directories and special files."""
    check_is_regular(os.lstat(name, dir_fd=parent), name)  # check before opening: merely opening a device can have side effects
    opened = os.open(name, FILE_FLAGS, dir_fd=parent)
    try:
        check_is_regular(os.fstat(opened), name)
    except BaseException:
        os.close(opened)
        raise
    return opened


def check_is_regular(status: os.stat_result, name: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "symbolic link", name)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory", name)
    if not stat.S_ISREG(status.st_mode):
        raise NotARegularFile(errno.EINVAL, "not a regular file", name)


def read_at_most(parent: int, name: str, limit: int) -> tuple[bytes, os.stat_result]:
    """Return the content and status of a file. At most `limit` + 1 bytes are read, even if the file is growing."""
    with os.fdopen(open_regular(parent, name), "rb") as file:
        status = os.fstat(file.fileno())
        return file.read(limit + 1), status


class FoundFile(NamedTuple):
    """A regular file. `parent` is only open until the walk continues."""

    path: str
    parent: int
    name: str


class FileWalk:
    """Walk the regular files below a directory that match the pattern, sorted by name. Links are skipped."""

    def __init__(self, pattern: FilePattern, *, max_entries: int) -> None:
        self._pattern = pattern
        self._left = max_entries
        self.complete = True  # False once something was skipped because of the depth or entry limit

    def walk_below(self, top: int) -> Iterator[FoundFile]:
        return self._below(top, "", self._pattern.start, depth=0)

    def _below(self, current: int, prefix: str, states: States, depth: int) -> Iterator[FoundFile]:
        with os.scandir(current) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for entry in entries:
            self._left -= 1
            if self._left < 0:
                self.complete = False
                return
            reached = self._pattern.step(states, entry.name)
            if not reached or entry.name in SKIPPED_NAMES:
                continue
            path = prefix + entry.name
            if entry.is_file(follow_symlinks=False):
                if self._pattern.is_match(reached):
                    yield FoundFile(path, current, entry.name)
            elif entry.is_dir(follow_symlinks=False):
                if depth == MAX_DEPTH:
                    self.complete = False
                    continue
                try:
                    below = os.open(entry.name, DIRECTORY_FLAGS, dir_fd=current)
                except OSError:  # deleted, unreadable, or replaced by a link
                    continue
                try:
                    yield from self._below(below, f"{path}/", reached, depth + 1)
                finally:
                    os.close(below)
