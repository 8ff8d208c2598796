"""Find the known names of an executable file: a link to vim is vim, whatever its name. Only reads directories."""

import os
from collections.abc import Iterable
from functools import lru_cache

from tools_app.exec.gate.programs.registry import MULTI_CALL, RULES, canonical_name, is_known
from tools_app.exec.gate.types import ExecContext, Executable

ALTERNATIVES_DIRECTORY = "/etc/alternatives"  # Debian's links lead through it; changing one does not touch the program directories


def list_names(executable: Executable, context: ExecContext) -> Iterable[str]:
    """Other names of the file on the fixed PATH, through hard or symbolic links.

    If the lists contain both the called name and the file's name, these are enough: git is also installed as git-shell, but acts
    by the name it is called with.
    """
    called, file = (canonical_name(os.path.basename(path)) for path in (executable.name, executable.realpath))
    if (is_known(called) and is_known(file)) or file in MULTI_CALL:
        return ()
    directories = tuple(dict.fromkeys(map(os.path.realpath, context.search)))
    names = _names_by_file(directories, tuple(map(_read_mtime, (*directories, ALTERNATIVES_DIRECTORY))))
    return names.get(_file_key(executable.identity), ())


@lru_cache(maxsize=8)
def _names_by_file(directories: tuple[str, ...], _stamps: tuple[int, ...]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for directory in directories:
        try:
            with os.scandir(directory) as entries:
                listed = [(entry.path, canonical_name(entry.name)) for entry in entries]
        except OSError:
            continue
        for path, name in listed:
            if name in RULES:
                try:
                    status = os.stat(path)
                except OSError:
                    continue
                names.setdefault(f"{status.st_dev}:{status.st_ino}", []).append(name)
    return names


def _read_mtime(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return 0


def _file_key(identity: str) -> str:
    """The device and inode at the start of an identity."""
    return ":".join(identity.split(":")[:2])
