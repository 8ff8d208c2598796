"""File access that is confined to the agent's workspace. Blocking: tools call it on a thread.

No path leads outside it: not `..`, not an absolute path, not a symbolic link, not even one created during the call (see
tools_app.builtin.files.tree). All failures are ToolFailed with a message for the model. There is no quota for the workspace.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from clawsite.infra.reasons import Reason
from tools_app.builtin.files import tree
from tools_app.core.definition import ToolEnv, ToolFailed, ToolUnavailable

MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_PATH_BYTES = 4096
MAX_NAME_BYTES = 255
FILE_MODE = 0o666  # minus the process's umask

CHANGED_MESSAGE = "`{}` has changed since it was read; read it again"
ERROR_MESSAGES = {
    errno.ENOENT: "does not exist",
    errno.ELOOP: "is a symbolic link or is reached through one; the file tools don't follow links",
    errno.EEXIST: "already exists",
    errno.ENOTDIR: "can't be reached: part of the path is a file, not a directory",
    errno.EISDIR: "is a directory; list its files with `glob`",
    errno.EACCES: "can't be accessed: permission denied",
    errno.EPERM: "can't be accessed: permission denied",
    errno.EROFS: "can't be written: the workspace is read-only",
    errno.ENAMETOOLONG: "has a name that is too long",
    errno.ENOSPC: "can't be written: no space left",
    errno.EDQUOT: "can't be written: no space left",
}


def find_root(env: ToolEnv) -> Path:
    if env.workspace is None:
        raise ToolUnavailable(Reason("tool.no_workspace"))
    return env.workspace


class Workspace:
    def __init__(self, root: Path) -> None:
        self._root = root

    @classmethod
    def of(cls, env: ToolEnv) -> "Workspace":
        """Return the run's workspace. Raise ToolUnavailable if there is none."""
        return cls(find_root(env))

    def read(self, path: str) -> tuple[bytes, os.stat_result]:
        """Return the content and status of a regular file of at most 10 MiB."""
        *above, name = self._file_parts(path)
        with self._open_root(path) as root, tree.open_directory(root, above) as parent:
            content, status = tree.read_at_most(parent, name, MAX_FILE_BYTES)
        if len(content) > MAX_FILE_BYTES:
            raise ToolFailed(f"`{path}` has {status.st_size} bytes; the limit is {MAX_FILE_BYTES} bytes")
        return content, status

    def write(self, path: str, content: bytes, *, unchanged_since: os.stat_result | None = None, must_be_new: bool = False) -> bool:
        """Write a file atomically and return whether it is new. Missing directories are created.

        With `unchanged_since`, fail if the file has changed since then; with `must_be_new`, fail if it exists.
        """
        if len(content) > MAX_FILE_BYTES:
            raise ToolFailed(f"the content has {len(content)} bytes; the limit is {MAX_FILE_BYTES} bytes")
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
                # If a link has been created here since the check, the link itself is replaced, not its target.
                os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=parent)
                raise
        return before is None

    def delete(self, path: str, *, unchanged_since: os.stat_result) -> None:
        """Delete a regular file unless it has changed. Its directory remains."""
        *above, name = self._file_parts(path)
        with self._open_root(path) as root, tree.open_directory(root, above) as parent:
            if not _is_same_file(unchanged_since, _regular_or_absent(parent, name)):
                raise ToolFailed(CHANGED_MESSAGE.format(path))
            # If a link has been created here since the check, the link itself is removed, not its target.
            os.unlink(name, dir_fd=parent)

    def move(self, path: str, to: str, *, unchanged_since: os.stat_result) -> None:
        """Move a regular file. Fails if the target exists. Missing directories are created."""
        *above, name = self._file_parts(path)
        *above_new, new_name = self._file_parts(to)
        with self._open_root(path) as root, tree.open_directory(root, above) as parent:
            if not _is_same_file(unchanged_since, _regular_or_absent(parent, name)):
                raise ToolFailed(CHANGED_MESSAGE.format(path))
            with self._open_root(to), tree.open_directory(root, above_new, create=True) as new_parent:
                _link_new(parent, name, new_parent, new_name)

    def stat(self, path: str) -> os.stat_result | None:
        """Return the status of a regular file, or None if there is none. Only a hint: the operation that follows checks again."""
        *above, name = self._file_parts(path)
        try:
            with self._open_root(path) as root, tree.open_directory(root, above) as parent:
                return _regular_or_absent(parent, name)
        except ToolFailed as failure:
            if isinstance(failure.__cause__, FileNotFoundError):  # a parent directory is missing
                return None
            raise

    @contextmanager
    def directory(self, path: str) -> Iterator[int]:
        """Yield the descriptor of a directory in the workspace; "." is the workspace itself."""
        with self._open_root(path) as root, tree.open_directory(root, self.parts(path)) as descriptor:
            yield descriptor

    def is_file(self, path: str) -> bool:
        """Whether the path is a regular file. Only a hint: opening it checks again."""
        parts = self.parts(path)
        if not parts:
            return False
        with self._open_root(path) as root, tree.open_directory(root, parts[:-1]) as parent:
            return stat.S_ISREG(os.lstat(parts[-1], dir_fd=parent).st_mode)

    def parts(self, path: str) -> list[str]:
        """Split the path into names relative to the workspace. Resolving `..` textually is safe, because links aren't followed."""
        try:
            size = len(os.fsencode(path))
        except UnicodeEncodeError:
            raise ToolFailed("the path contains characters that file names can't have") from None
        if "\0" in path or size > MAX_PATH_BYTES:
            raise ToolFailed(f"a path can't contain NUL or exceed {MAX_PATH_BYTES} bytes")
        parts: list[str] = []
        for name in self._relative(path).split("/"):
            if name == "..":
                if not parts:
                    raise ToolFailed(f"`{path}` is outside the workspace")
                parts.pop()
            elif name not in ("", "."):
                if len(os.fsencode(name)) > MAX_NAME_BYTES:
                    raise ToolFailed(f"a name in the path exceeds {MAX_NAME_BYTES} bytes")
                parts.append(name)
        return parts

    def _relative(self, path: str) -> str:
        if not path.startswith("/"):
            return path
        for root in (os.path.abspath(self._root), os.path.realpath(self._root)):
            if path == root or path.startswith(f"{root}/"):
                return path[len(root) :].lstrip("/")
        raise ToolFailed(f"`{path}` is outside the workspace: use a path relative to it")

    def _file_parts(self, path: str) -> list[str]:
        parts = self.parts(path)
        if not parts:
            raise ToolFailed(f"`{path}` is not a file")
        return parts

    @contextmanager
    def _open_root(self, path: str) -> Iterator[int]:
        """Yield the workspace's descriptor. The operator chose its path, so links are followed here, and only here."""
        try:
            root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolFailed(f"the workspace can't be opened: {error.strerror}") from error
        try:
            yield root
        except tree.NotARegularFile as error:
            raise ToolFailed(f"`{path}` is a device, FIFO or socket, not a regular file") from error
        except OSError as error:
            problem = ERROR_MESSAGES.get(error.errno or 0) or f"can't be used: {error.strerror}"
            raise ToolFailed(f"`{path}` {problem}") from error
        finally:
            os.close(root)


def _link_new(parent: int, name: str, new_parent: int, new_name: str) -> None:
    """Move a file, failing if the new name exists; a rename would replace it. Links are not followed."""
    os.link(name, new_name, src_dir_fd=parent, dst_dir_fd=new_parent, follow_symlinks=False)
    os.unlink(name, dir_fd=parent)


def _regular_or_absent(parent: int, name: str) -> os.stat_result | None:
    try:
        status = os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        return None
    tree.check_is_regular(status, name)
    return status


def _write_new(parent: int, name: str, content: bytes, *, like: os.stat_result | None) -> None:
    opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE, dir_fd=parent)
    with os.fdopen(opened, "wb") as file:
        if like:
            os.fchmod(file.fileno(), like.st_mode & 0o777)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # otherwise a power failure after the rename may leave an empty file


def _is_same_file(before: os.stat_result, now: os.stat_result | None) -> bool:
    return now is not None and (before.st_ino, before.st_mtime_ns, before.st_size) == (now.st_ino, now.st_mtime_ns, now.st_size)
