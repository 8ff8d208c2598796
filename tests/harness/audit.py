"""Clear the audit log, or tamper with it as an owner of the database could."""

from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

from clawsite.infra import clock
from clawsite.infra.audit import log as audit_log
from clawsite.infra.audit import triggers as audit_triggers
from clawsite.infra.audit.chain import GENESIS
from clawsite.infra.audit.triggers import ENTRY_TABLE, HEAD_TABLE, SEAL_TABLE


@contextmanager
def triggers_disabled():
    """Remove the triggers that make the log append-only, and install them again afterwards."""
    guards = audit_triggers._POSTGRES if connection.vendor == "postgresql" else audit_triggers._SQLITE
    with transaction.atomic():
        for name, (table, _when, _condition) in guards.items():
            execute(f"DROP TRIGGER IF EXISTS {name}" + (f" ON {table}" if connection.vendor == "postgresql" else ""))
        yield
    audit_triggers.install_triggers()


def clear_log() -> None:
    with triggers_disabled():
        for table in (ENTRY_TABLE, SEAL_TABLE, HEAD_TABLE):
            execute(f"DELETE FROM {table}")
        execute(f"INSERT INTO {HEAD_TABLE} (id, position, hash, newest, gaps) VALUES (1, 0, %s, 0, '[]')", [GENESIS])


def tamper(text: str, values: Any = ()) -> None:
    with triggers_disabled():
        execute(text, values)


def insert_entry(entry_id: int | None, digest: str = "") -> None:
    """Insert an entry with plain SQL, like those that `record` writes."""
    at, texts = clock.now(), ["call.allowed", "agent", "main", "main", "tool", "exec", "", ""]
    names = list(audit_log.COLUMNS)
    values = [connection.ops.adapt_datetimefield_value(at), *texts, "{}", digest or audit_log.compute_digest(at, texts, {})]
    if entry_id is not None:
        names, values = ["id", *names], [entry_id, *values]
    execute(f"INSERT INTO {ENTRY_TABLE} ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})", values)


def execute(text: str, values: Any = ()) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text, values)
