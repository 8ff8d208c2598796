"""Check whether `prepare` has anything to do.

`serve` checks without loading Django (10 ms instead of 700), so that it can start right away. It reads the database and files
themselves, so a deleted, restored or older database is noticed. PostgreSQL is always left to `prepare`, because loading its
driver takes as long as Django.
"""

import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from clawsite.cli.command import CommandFailed

log = logging.getLogger(__name__)


def schema_is_current(settings: ModuleType) -> bool:
    """Whether every migration of this code is applied in the SQLite database."""
    database = settings.DATABASES["default"]
    if not database["ENGINE"].endswith("sqlite3"):
        return False
    applied = _read_applied(Path(database["NAME"]))
    return bool(applied) and _list_migrations(settings.INSTALLED_APPS) <= applied


def static_is_current(settings: ModuleType) -> bool:
    """Whether no static file is newer than the manifest; pages fail if one of their files is missing from it."""
    manifest = Path(settings.STATIC_ROOT, "staticfiles.json")
    if not manifest.exists():
        return False
    collected_at = manifest.stat().st_mtime
    folders = [*settings.STATICFILES_DIRS, *(folder / "static" for _, folder in _list_app_folders(settings.INSTALLED_APPS))]
    return all(
        os.stat(os.path.join(path, file)).st_mtime <= collected_at
        for top in folders
        for path, _, files in os.walk(top)
        for file in files
    )


def require_migrated(settings: ModuleType) -> None:
    """Raise CommandFailed if migrations are missing. A database that is down may be back soon, so only warn. Needs Django."""
    from django.db import DatabaseError, connection
    from django.db.migrations.recorder import MigrationRecorder

    try:
        applied = set(MigrationRecorder(connection).applied_migrations())
    except DatabaseError as error:
        log.warning("the database is not reachable yet: %s", error)
        return
    finally:
        connection.close()
    if missing := _list_migrations(settings.INSTALLED_APPS) - applied:
        raise CommandFailed(
            f"the database lacks {len(missing)} migrations. Run `claw prepare`, or start everything with `claw serve`."
        )


def detect_restore(settings: ModuleType) -> None:
    """Detect that the database was restored from a backup, before clients get a position in its event log. Needs Django.

    If this fails, the check can wait: workers check every minute, and the gateway then closes its sockets.
    """
    from django.db import DatabaseError, connection

    from sessions_app.events import epoch

    try:
        epoch.update_note(settings.HOME)
    except (DatabaseError, OSError) as error:
        log.warning("restore check postponed: %s", error)
    finally:
        connection.close()


def _read_applied(path: Path) -> set[tuple[str, str]]:
    if not path.exists():
        return set()
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=1)
        try:
            return set(connection.execute("SELECT app, name FROM django_migrations"))
        finally:
            connection.close()
    except sqlite3.Error:
        return set()  # `prepare` will hit the same error and explain it


def _list_migrations(apps: Iterable[str]) -> set[tuple[str, str]]:
    # The label of each installed app is the last part of its name.
    return {
        (app.rsplit(".", 1)[-1], file.stem)
        for app, folder in _list_app_folders(apps)
        for file in (folder / "migrations").glob("[0-9]*.py")
    }


def _list_app_folders(apps: Iterable[str]) -> Iterator[tuple[str, Path]]:
    for app in apps:
        top, *rest = app.split(".")
        spec = find_spec(top)
        for root in (spec.submodule_search_locations or []) if spec else []:
            yield app, Path(root, *rest)
