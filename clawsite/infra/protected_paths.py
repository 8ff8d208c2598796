"""Paths of the server's own data and code. Agents must not be able to access them."""

import sys
from pathlib import Path

from django.conf import settings


def secret_paths() -> tuple[Path, ...]:
    """Return the state directory and private files outside it, as real paths. A file may not exist yet.

    A SQLite file has -wal, -shm and -journal files next to it, so callers must protect its whole directory.
    """
    files = [Path(name) for name in (settings.AUDIT_ANCHOR, settings.RAW_STREAM_LOG) if name]
    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3") and Path(database["NAME"]).is_absolute():  # relative names are in-memory databases
        files.append(Path(database["NAME"]))
    return (Path(settings.HOME).resolve(), *(file.resolve() for file in files))


def code_paths() -> tuple[Path, ...]:
    """Return the project's code and its virtual environment, if any. They are not secret, but they enforce all other rules."""
    environment = [Path(sys.prefix).resolve()] if sys.prefix != sys.base_prefix else []
    return (Path(settings.BASE_DIR).resolve(), *environment)
