"""Reset the test database after each test from a copy of its first rows.

IDs keep growing: a row of a later test never has the ID of an earlier one, so caches in a process can't mix them up.
"""

import sqlite3
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import connection

# The audit log is append-only. Event log positions only grow, and processes store theirs in the state directory.
KEPT = {"infra_auditentry", "infra_auditseal", "infra_audithead", "sessions_app_eventlog"}
# Written by migrations only.
STATIC = {"auth_permission", "django_content_type"}
# A trigger empties these on SQLite. On PostgreSQL a cascade would, but foreign keys are off here.
SEARCH_TABLES = ["sessions_app_words", "agents_memory_words"]

_template: "_Sqlite | _Postgres | None" = None


def save_template() -> None:
    """Save the rows of the new database."""
    global _template
    tables = sorted({model._meta.db_table for model in apps.get_models(include_auto_created=True)} - KEPT - STATIC)
    _template = _Postgres(tables) if connection.vendor == "postgresql" else _Sqlite(tables)


def reset_database() -> None:
    """Restore the saved rows and delete all others."""
    assert _template, "save_template() was not called"
    _template.restore()


def pristine_database() -> Path:
    """Return the path of a migrated, unused SQLite database."""
    return Path(connection.settings_dict["NAME"]).with_name("pristine.sqlite3")


class _Sqlite:
    """Uses its own connection with the copy attached: foreign keys are off, and `data_version` shows whether others wrote."""

    def __init__(self, tables: list[str]) -> None:
        path = Path(connection.settings_dict["NAME"])
        copy = pristine_database()
        self._connection = sqlite3.connect(path, timeout=20, isolation_level=None, check_same_thread=False)
        with sqlite3.connect(copy) as target:
            self._connection.backup(target)
        target.close()
        self._execute("ATTACH DATABASE ? AS pristine", (str(copy),))
        self._tables = {table: bool(self._rows(f"SELECT 1 FROM {table} LIMIT 1")) for table in tables}
        self._seen = self._version()

    def restore(self) -> None:
        if self._version() == self._seen:
            return
        self._execute("BEGIN IMMEDIATE")
        for table, has_first_rows in self._tables.items():
            if not self._is_changed(table, has_first_rows):
                continue
            self._execute(f"DELETE FROM main.{table}")
            if has_first_rows:
                self._execute(f"INSERT INTO main.{table} SELECT * FROM pristine.{table}")
        self._execute("COMMIT")
        self._seen = self._version()

    def _is_changed(self, table: str, has_first_rows: bool) -> bool:
        if not has_first_rows:
            return bool(self._rows(f"SELECT 1 FROM main.{table} LIMIT 1"))
        now, first = (self._rows(f"SELECT * FROM {schema}.{table} ORDER BY 1") for schema in ("main", "pristine"))
        return now != first

    def _version(self) -> Any:
        return self._rows("PRAGMA main.data_version")

    def _rows(self, text: str) -> list[Any]:
        return self._connection.execute(text).fetchall()

    def _execute(self, text: str, values: tuple[str, ...] = ()) -> None:
        self._connection.execute(text, values)


class _Postgres:
    """Uses a database function, so that it is one round trip. In replica mode foreign keys and triggers are off."""

    def __init__(self, tables: list[str]) -> None:
        steps = [f"IF EXISTS (SELECT 1 FROM {table}) THEN DELETE FROM {table}; END IF;" for table in SEARCH_TABLES]
        with connection.cursor() as cursor:
            cursor.execute("DROP SCHEMA IF EXISTS pristine CASCADE")
            cursor.execute("CREATE SCHEMA pristine")
            for table in tables:
                cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {table})")
                if not cursor.fetchone()[0]:
                    steps.append(f"IF EXISTS (SELECT 1 FROM {table}) THEN DELETE FROM {table}; END IF;")
                    continue
                copy = f"pristine.{table}"
                cursor.execute(f"CREATE TABLE {copy} AS TABLE {table}")
                other_rows = f"EXISTS (TABLE {table} EXCEPT TABLE {copy}) OR EXISTS (TABLE {copy} EXCEPT TABLE {table})"
                steps.append(f"IF {other_rows} THEN DELETE FROM {table}; INSERT INTO {table} SELECT * FROM {copy}; END IF;")
            body = "\n".join(steps)
            cursor.execute(f"""CREATE FUNCTION pristine.restore() RETURNS void LANGUAGE plpgsql
                               SET session_replication_role = replica SET jit = off AS $$ BEGIN {body} END $$""")

    def restore(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pristine.restore()")
