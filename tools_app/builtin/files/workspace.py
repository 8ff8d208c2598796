"""The agent's directory, and the guard that keeps the file tools inside it. Blocking: tools call it on a thread.

No path leads out: not `..`, not an absolute path, not a symbolic link anywhere in it, not even one made in mid-call
(see tools_app.builtin.files.tree). All failures are ToolFailed in words for the model. It sets no quota on the whole.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tools_app.builtin.files import tree
from tools_app.core.definition import ToolEnv, ToolFailed, ToolUnavailable

MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_PATH_BYTES = 4096
MAX_NAME_BYTES = 255
FILE_MODE = 0o666  # less the process's umask

CHANGED_MESSAGE = "`{}` was changed by somebody else in the meantime: read it again"
ERROR_MESSAGES = {
    errno.ENOENT: "does not exist",
    errno.ELOOP: "is, or lies behind, a symbolic link, and the file tools do not follow links",
    errno.EEXIST: "exists already",
    errno.ENOTDIR: "cannot be reached: a part of the path is a file, not a directory",
    errno.EISDIR: "is a directory; list its files with `glob`",
    errno.EACCES: "may not be accessed: permission denied",
    errno.EPERM: "may not be accessed: permission denied",
    errno.EROFS: "cannot be written: the workspace is read-only",
    errno.ENAMETOOLONG: "has a name that is too long",
    errno.ENOSPC: "cannot be written: no space is left",
    errno.EDQUOT: "cannot be written: no space is left",
}


def find_root(env: ToolEnv) -> Path:
    if env.workspace is None:
        raise ToolUnavailable("there is no workspace")
    return env.workspace


class Workspace:
    def __init__(self, root: Path) -> None:
        self._root = root

    @classmethod
    def of(cls, env: ToolEnv) -> "Workspace":
        """That of the run; without one the tool declines."""
        return cls(find_root(env))

    def read(self, path: str) -> tuple[bytes, os.stat_result]:
        """Content and identity of a regular file of at most 10 MiB."""
        *above, name = self._file_parts(path)
        with self._open_root(path) as root, tree.open_directory(root, above) as parent:
            content, found = tree.read_at_most(parent, name, MAX_FILE_BYTES)
        if len(content) > MAX_FILE_BYTES:
            raise ToolFailed(f"`{path}` has {found.st_size} bytes; files over {MAX_FILE_BYTES} bytes cannot be opened")
        return content, found

    def write(self, path: str, content: bytes, *, unchanged_since: os.stat_result | None = None, must_be_new: bool = False) -> bool:
        """Put a file in place at once, whole; says whether it is new. Missing directories are made.

        With `unchanged_since`, a file that somebody else has changed after that moment is left as it is; with `must_be_new`,
        any file that is there.
        """
        if len(content) > MAX_FILE_BYTES:
            raise ToolFailed(f"the content has {len(content)} bytes; at most {MAX_FILE_BYTES} can be written")
        *above, name = self._file_parts(path)
        with self._open_root(path) as root, tree.open_directory(root, above, create=True) as parent:
            before = _regular_or_absent(parent, name)
            temporary = f".clawsite-{secrets.token_hex(8)}.tmp"
            try:
                _write_new(parent, temporary, content, like=before)
                if unchanged_since and not _is_same_file(unchanged_since, _regular_or_absent(parent, name)):
                    raise ToolFailed(CHANGED_MESSAGE.format(path))
                if must_be_new:
                    _link_new(parent, temporary, parent, name)
                    return True
                # Were a link put here since the look at it, the link itself is replaced, not what it points to.
                os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=parent)
                raise
        return before is None

    def delete(self, path: str, *, unchanged_since: os.stat_result) -> None:
        """Remove a regular file, if it is still the one that was looked at. Its directory stays."""
        *above, name = self._file_parts(path)
        with self._open_root(path) as root, tree.open_directory(root, above) as parent:
            if not _is_same_file(unchanged_since, _regular_or_absent(parent, name)):
                raise ToolFailed(CHANGED_MESSAGE.format(path))
            # Were a link put here since the look at it, the link itself is removed, not what it points to.
            os.unlink(name, dir_fd=parent)

    def move(self, path: str, to: str, *, unchanged_since: os.stat_result) -> None:
        """Give a regular file another place, where nothing may be yet. Missing directories are made."""
        *above, name = self._file_parts(path)
        *above_new, new_name = self._file_parts(to)
        with self._open_root(path) as root, tree.open_directory(root, above) as parent:
            if not _is_same_file(unchanged_since, _regular_or_absent(parent, name)):
                raise ToolFailed(CHANGED_MESSAGE.format(path))
            with self._open_root(to), tree.open_directory(root, above_new, create=True) as new_parent:
                _link_new(parent, name, new_parent, new_name)

    def look(self, path: str) -> os.stat_result | None:
        """The identity of a regular file, or None where there is nothing. Only for choosing what to do next; doing it decides."""
        *above, name = self._file_parts(path)
        try:
            with self._open_root(path) as root, tree.open_directory(root, above) as parent:
                return _regular_or_absent(parent, name)
        except ToolFailed as failure:
            if isinstance(failure.__cause__, FileNotFoundError):  # a directory above it is missing
                return None
            raise

    @contextmanager
    def directory(self, path: str) -> Iterator[int]:
        """The descriptor of a directory in the workspace; "." is the workspace itself."""
        with self._open_root(path) as root, tree.open_directory(root, self.parts(path)) as found:
            yield found

    def is_file(self, path: str) -> bool:
        """Only for choosing what to do next; opening it decides."""
        parts = self.parts(path)
        if not parts:
            return False
        with self._open_root(path) as root, tree.open_directory(root, parts[:-1]) as parent:
            return stat.S_ISREG(os.lstat(parts[-1], dir_fd=parent).st_mode)

    def parts(self, path: str) -> list[str]:
        """The names from the workspace down. `..` is resolved by text, which is exact where links are not followed."""
        try:
            size = len(os.fsencode(path))
        except UnicodeEncodeError:
            raise ToolFailed("the path has characters that no file name can have") from None
        if "\0" in path or size > MAX_PATH_BYTES:
            raise ToolFailed(f"a path must have no NUL and at most {MAX_PATH_BYTES} bytes")
        parts: list[str] = []
        for name in self._relative(path).split("/"):
            if name == "..":
                if not parts:
                    raise ToolFailed(f"`{path}` lies outside the workspace")
                parts.pop()
            elif name not in ("", "."):
                if len(os.fsencode(name)) > MAX_NAME_BYTES:
                    raise ToolFailed(f"a name in the path has more than {MAX_NAME_BYTES} bytes")
                parts.append(name)
        return parts

    def _relative(self, path: str) -> str:
        if not path.startswith("/"):
            return path
        for root in (os.path.abspath(self._root), os.path.realpath(self._root)):
            if path == root or path.startswith(f"{root}/"):
                return path[len(root) :].lstrip("/")
        raise ToolFailed(f"`{path}` lies outside the workspace: use a path relative to it")

    def _file_parts(self, path: str) -> list[str]:
        parts = self.parts(path)
        if not parts:
            raise ToolFailed(f"`{path}` names no file")
        return parts

    @contextmanager
    def _open_root(self, path: str) -> Iterator[int]:
        """The workspace's own descriptor; the operator chose that place, so here, and only here, links are followed."""
        try:
            root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolFailed(f"the workspace cannot be opened: {error.strerror}") from error
        try:
            yield root
        except tree.NotARegularFile as error:
            raise ToolFailed(f"`{path}` is a device, FIFO or socket, not a regular file") from error
        except OSError as error:
            words = ERROR_MESSAGES.get(error.errno or 0) or f"cannot be used: {error.strerror}"
            raise ToolFailed(f"`{path}` {words}") from error
        finally:
            os.close(root)


def _link_new(parent: int, name: str, new_parent: int, new_name: str) -> None:
    """A move that fails when the new name is taken, where a rename would replace what is there. Links are not followed."""
    os.link(name, new_name, src_dir_fd=parent, dst_dir_fd=new_parent, follow_symlinks=False)
    os.unlink(name, dir_fd=parent)


def _regular_or_absent(parent: int, name: str) -> os.stat_result | None:
    try:
        found = os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        return None
    tree.check_is_regular(found, name)
    return found


def _write_new(parent: int, name: str, content: bytes, *, like: os.stat_result | None) -> None:
    opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE, dir_fd=parent)
    with os.fdopen(opened, "wb") as file:
        if like:
            os.fchmod(file.fileno(), like.st_mode & 0o777)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # else a power cut after the rename may leave an empty file and no old one


def _is_same_file(before: os.stat_result, now: os.stat_result | None) -> bool:
    return now is not None and (before.st_ino, before.st_mtime_ns, before.st_size) == (now.st_ino, now.st_mtime_ns, now.st_size)
