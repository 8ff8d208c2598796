"""What on this host is the installation's own, wherever an operator has put it. What an agent does must not reach it."""

import sys
from pathlib import Path

from django.conf import settings


def secret_paths() -> tuple[Path, ...]:
    """The state directory, and files outside it that only the server reads and writes. Real paths; a file need not be there yet.

    Beside a SQLite file lie its -wal, -shm and -journal: who must not see the one must not see its directory.
    """
    files = [Path(name) for name in (settings.AUDIT_ANCHOR, settings.RAW_STREAM_LOG) if name]
    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3") and Path(database["NAME"]).is_absolute():  # or it is in memory
        files.append(Path(database["NAME"]))
    return (Path(settings.HOME).resolve(), *(file.resolve() for file in files))


def code_paths() -> tuple[Path, ...]:
    """The project's own code, and the environment it runs in unless that is the system's. No secret, but what guards the rest."""
    environment = [Path(sys.prefix).resolve()] if sys.prefix != sys.base_prefix else []
    return (Path(settings.BASE_DIR).resolve(), *environment)
