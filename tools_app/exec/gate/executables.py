"""Find the file that a command name starts, who could change it, and its identity. Only reads files."""

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.types import ExecContext, Executable, Script

register_reasons(
    {
        "file.unreadable": gettext_noop("{path} can't be read"),
        "file.not_root": gettext_noop("{path} is not owned by root"),
        "file.writable": gettext_noop("{path} can be changed by users other than its owner"),
        "file.workspace": gettext_noop("{path} is in the workspace"),
    }
)

MAX_HASHED_BYTES = 8 * 1024 * 1024  # total for all scripts of a line; takes about 20 ms
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def find_executable(name: str, cwds: frozenset[str] | None, context: ExecContext) -> Executable | None:
    """The file bash would start for this name; None if there is none or it depends on the current directory of the line."""
    if "/" not in name:
        path = find_on_path(name, context)
    elif name.startswith("/"):
        path = to_host_path(name, context)
    else:
        paths = {os.path.join(cwd, name) for cwd in cwds or ()}
        path = paths.pop() if len(paths) == 1 else None
    if path is None or not _is_executable(path):
        return None
    real = os.path.realpath(path)
    base = os.path.basename(name)
    same = find_on_path(base, context)
    # A file we can't read can't be hashed, and what can't be verified again is not trusted.
    changeable = why_changeable_by_others(real) or (why_changeable_by_others(path) if path != real else None)
    try:
        identity = identify_file(real, with_hash=bool(changeable))
    except OSError:
        return None
    return Executable(
        name=name,
        path=path,
        realpath=real,
        identity=identity,
        bare=base if same is not None and os.path.realpath(same) == real else "",
        distrust=_why_inside_writable(path, real, context) or changeable,
    )


def find_on_path(name: str, context: ExecContext) -> str | None:
    for directory in context.search:
        path = os.path.join(directory, name)
        if directory.is_absolute() and _is_executable(path):
            return path
    return None


def to_host_path(path: str, context: ExecContext) -> str:
    """Translate an absolute path in the line to a host path: in a sandbox, the workspace has a different path."""
    if context.mount_point and context.writable and (path + "/").startswith(f"{context.mount_point}/"):
        return (
            os.path.join(context.writable[0], os.path.relpath(path, context.mount_point)) if ".." not in path.split("/") else path
        )
    return path


def identify_file(real: str, *, with_hash: bool) -> str:
    """An identity that changes when the file is replaced or written to."""
    status = os.stat(real)
    identity = f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
    if not with_hash:
        return identity
    with open(real, "rb") as file:
        return f"{identity}:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def identify_scripts(paths: Iterable[str], context: ExecContext) -> tuple[Script, ...]:
    """Identify the scripts at these real paths in the workspace. Skips directories: only the program knows what it reads there."""
    scripts: list[Script] = []
    remaining = MAX_HASHED_BYTES
    for path in dict.fromkeys(paths):
        if not is_inside(path, context.writable) or os.path.isdir(path):
            continue
        try:
            status = os.stat(path)
            identity = f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"
            if stat.S_ISREG(status.st_mode) and status.st_size <= remaining:
                with open(path, "rb", opener=_open_nonblocking) as file:
                    content = file.read(remaining)
                remaining -= len(content)
                identity = hashlib.sha256(content).hexdigest()
        except OSError:
            identity = ""
        scripts.append(Script(path, identity))
    return tuple(scripts)


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # the file may have become a pipe


def why_changeable_by_others(path: str) -> Reason | None:
    """Why anyone but root could replace the file; None if no one could."""
    each = path
    while True:
        try:
            status = os.lstat(each)
        except OSError:
            return Reason("file.unreadable", path=each)
        if status.st_uid != 0:
            return Reason("file.not_root", path=each)
        if not stat.S_ISLNK(status.st_mode) and status.st_mode & WRITABLE_BY_OTHERS:
            return Reason("file.writable", path=each)
        if each == os.path.dirname(each):
            return None
        each = os.path.dirname(each)


def is_inside(path: str, directories: tuple[Path, ...]) -> bool:
    return any(path == str(directory) or path.startswith(f"{directory}/") for directory in directories)


def _why_inside_writable(path: str, real: str, context: ExecContext) -> Reason | None:
    inside = is_inside(real, context.writable) or is_inside(os.path.normpath(path), context.writable)
    return Reason("file.workspace", path=path) if inside else None


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
