"""Under which names of the lists a file can be called. A link to vim is vim, whatever it is called. Looks at directories only."""

import os
from collections.abc import Iterable
from functools import lru_cache

from tools_app.exec.gate.programs.registry import MULTI_CALL, RULES, canonical_name, is_known
from tools_app.exec.gate.types import ExecContext, Executable

ALTERNATIVES_DIRECTORY = "/etc/alternatives"  # where Debian's links lead through; changing one changes no directory of programs


def list_names(executable: Executable, place: ExecContext) -> Iterable[str]:
    """What else the file is called on the fixed PATH, by links of either kind.

    A name that the lists know is enough, where they know the file's name too: git is also called git-shell, and acts by its name.
    """
    called, file = (canonical_name(os.path.basename(path)) for path in (executable.name, executable.realpath))
    if (is_known(called) and is_known(file)) or file in MULTI_CALL:
        return ()
    directories = tuple(dict.fromkeys(map(os.path.realpath, place.search)))
    found = _names_by_file(directories, tuple(map(_read_mtime, (*directories, ALTERNATIVES_DIRECTORY))))
    return found.get(_file_key(executable.identity), ())


@lru_cache(maxsize=8)
def _names_by_file(directories: tuple[str, ...], _stamps: tuple[int, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for directory in directories:
        try:
            with os.scandir(directory) as entries:
                listed = [(entry.path, canonical_name(entry.name)) for entry in entries]
        except OSError:
            continue
        for path, name in listed:
            if name in RULES:
                try:
                    seen = os.stat(path)
                except OSError:
                    continue
                found.setdefault(f"{seen.st_dev}:{seen.st_ino}", []).append(name)
    return found


def _read_mtime(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return 0


def _file_key(identity: str) -> str:
    """Device and inode, with which an identity begins."""
    return ":".join(identity.split(":")[:2])
