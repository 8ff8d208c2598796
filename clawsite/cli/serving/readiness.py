"""Whether `prepare` has anything to do.

`serve` asks without loading Django (10 ms instead of 700), so that it can start at once. The answer comes from the database and
the files themselves, never from a note about them, so a deleted, restored or older database is seen. PostgreSQL is always left
to `prepare`: its driver would cost as much as Django.
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
    """Every migration of this code is recorded as applied in the SQLite database."""
    database = settings.DATABASES["default"]
    if not database["ENGINE"].endswith("sqlite3"):
        return False
    applied = _read_applied(Path(database["NAME"]))
    return bool(applied) and _list_migrations(settings.INSTALLED_APPS) <= applied


def static_is_current(settings: ModuleType) -> bool:
    """No static file is newer than the manifest made from them; pages fail when one of their files is not in it."""
    manifest = Path(settings.STATIC_ROOT, "staticfiles.json")
    if not manifest.exists():
        return False
    made = manifest.stat().st_mtime
    folders = [*settings.STATICFILES_DIRS, *(folder / "static" for _, folder in _list_migration_folders(settings.INSTALLED_APPS))]
    return all(
        os.stat(os.path.join(path, file)).st_mtime <= made for top in folders for path, _, files in os.walk(top) for file in files
    )


def require_migrated(settings: ModuleType) -> None:
    """Refuse to work on a database that lacks our tables. One that does not answer may be back in a moment. Needs Django."""
    from django.db import DatabaseError, connection
    from django.db.migrations.recorder import MigrationRecorder

    try:
        applied = set(MigrationRecorder(connection).applied_migrations())
    except DatabaseError as error:
        log.warning("the database does not answer yet: %s", error)
        return
    finally:
        connection.close()
    if missing := _list_migrations(settings.INSTALLED_APPS) - applied:
        raise CommandFailed(
            f"the database lacks {len(missing)} migrations. Run `claw prepare`, or start everything with `claw serve`."
        )


def detect_restore(settings: ModuleType) -> None:
    """See whether the database is an older copy of itself, before anybody is told a place in its log. Needs Django.

    Later will do too: workers look every minute, and a gateway that hears of it closes its sockets.
    """
    from django.db import DatabaseError, connection

    from sessions_app.events import epoch

    try:
        epoch.update_note(settings.HOME)
    except (DatabaseError, OSError) as error:
        log.warning("whether the database was restored is looked at later: %s", error)
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
        return set()  # `prepare` meets the same fault and can say more about it


def _list_migrations(apps: Iterable[str]) -> set[tuple[str, str]]:
    # The label of each installed app is the last part of its name.
    return {
        (app.rsplit(".", 1)[-1], file.stem)
        for app, folder in _list_migration_folders(apps)
        for file in (folder / "migrations").glob("[0-9]*.py")
    }


def _list_migration_folders(apps: Iterable[str]) -> Iterator[tuple[str, Path]]:
    for app in apps:
        top, *rest = app.split(".")
        spec = find_spec(top)
        for root in (spec.submodule_search_locations or []) if spec else []:
            yield app, Path(root, *rest)
