"""Which file a command name starts, whether anybody but root could change it, and what identifies it. Looks at files only."""

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from tools_app.exec.gate.types import ExecContext, Executable, Script

MAX_HASHED_BYTES = 8 * 1024 * 1024  # bytes of all scripts of a line together: some 20 ms
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def find_executable(name: str, cwds: frozenset[str] | None, place: ExecContext) -> Executable | None:
    """The file that bash would start for this name; None when there is none or it depends on where the line has gone."""
    if "/" not in name:
        path = find_on_path(name, place)
    elif name.startswith("/"):
        path = to_host_path(name, place)
    else:
        found = {os.path.join(cwd, name) for cwd in cwds or ()}
        path = found.pop() if len(found) == 1 else None
    if path is None or not _is_executable(path):
        return None
    real = os.path.realpath(path)
    base = os.path.basename(name)
    same = find_on_path(base, place)
    # Without the right to read it the file cannot be hashed, and what cannot be checked again is not trusted.
    changeable = why_changeable_by_others(real) or (why_changeable_by_others(path) if path != real else "")
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
        distrust=_why_inside_writable(path, real, place) or changeable,
    )


def find_on_path(name: str, place: ExecContext) -> str | None:
    for directory in place.search:
        path = os.path.join(directory, name)
        if directory.is_absolute() and _is_executable(path):
            return path
    return None


def to_host_path(path: str, place: ExecContext) -> str:
    """An absolute path of the line as the host sees it: in a sandbox the workspace has another name."""
    if place.mount_point and place.writable and (path + "/").startswith(f"{place.mount_point}/"):
        return os.path.join(place.writable[0], os.path.relpath(path, place.mount_point)) if ".." not in path.split("/") else path
    return path


def identify_file(real: str, *, with_hash: bool) -> str:
    """Changes when the file is replaced or written to."""
    found = os.stat(real)
    identity = f"{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"
    if not with_hash:
        return identity
    with open(real, "rb") as file:
        return f"{identity}:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def identify_scripts(paths: Iterable[str], place: ExecContext) -> tuple[Script, ...]:
    """What lies at these real paths of the workspace now. Directories are left out: what is in them is for the program to say."""
    found: list[Script] = []
    left = MAX_HASHED_BYTES
    for path in dict.fromkeys(paths):
        if not is_inside(path, place.writable) or os.path.isdir(path):
            continue
        try:
            seen = os.stat(path)
            identity = f"{seen.st_dev}:{seen.st_ino}:{seen.st_size}:{seen.st_mtime_ns}:{seen.st_ctime_ns}"
            if stat.S_ISREG(seen.st_mode) and seen.st_size <= left:
                with open(path, "rb", opener=_open_nonblocking) as file:
                    content = file.read(left)
                left -= len(content)
                identity = hashlib.sha256(content).hexdigest()
        except OSError:
            identity = ""
        found.append(Script(path, identity))
    return tuple(found)


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # it may be a pipe by now


def why_changeable_by_others(path: str) -> str:
    """Why somebody else than root could put another file in its place; empty when nobody could."""
    each = path
    while True:
        try:
            found = os.lstat(each)
        except OSError:
            return f"{each} cannot be looked at"
        if found.st_uid != 0:
            return f"{each} does not belong to root"
        if not stat.S_ISLNK(found.st_mode) and found.st_mode & WRITABLE_BY_OTHERS:
            return f"{each} can be changed by others than its owner"
        if each == os.path.dirname(each):
            return ""
        each = os.path.dirname(each)


def is_inside(path: str, directories: tuple[Path, ...]) -> bool:
    return any(path == str(directory) or path.startswith(f"{directory}/") for directory in directories)


def _why_inside_writable(path: str, real: str, place: ExecContext) -> str:
    inside = is_inside(real, place.writable) or is_inside(os.path.normpath(path), place.writable)
    return f"{path} is in the workspace" if inside else ""


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
