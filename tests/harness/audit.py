"""The audit log for tests: emptied, and tampered with as somebody could who owns the database."""

from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

from clawsite.infra import clock
from clawsite.infra.audit import log as audit_log
from clawsite.infra.audit import triggers as audit_triggers
from clawsite.infra.audit.chain import GENESIS
from clawsite.infra.audit.triggers import ENTRY_TABLE, HEAD_TABLE, SEAL_TABLE


@contextmanager
def unguarded():
    """As the owner of the database: without the triggers, which are there again afterwards."""
    guards = audit_triggers._POSTGRES if connection.vendor == "postgresql" else audit_triggers._SQLITE
    with transaction.atomic():
        for name, (table, _when, _condition) in guards.items():
            run(f"DROP TRIGGER IF EXISTS {name}" + (f" ON {table}" if connection.vendor == "postgresql" else ""))
        yield
    audit_triggers.install_triggers()


def empty() -> None:
    with unguarded():
        for table in (ENTRY_TABLE, SEAL_TABLE, HEAD_TABLE):
            run(f"DELETE FROM {table}")
        run(f"INSERT INTO {HEAD_TABLE} (id, position, hash, newest, gaps) VALUES (1, 0, %s, 0, '[]')", [GENESIS])


def tamper(text: str, values: Any = ()) -> None:
    with unguarded():
        run(text, values)


def insert(entry_id: int | None, digest: str = "") -> None:
    """An entry as `record` writes it, by hand."""
    at, texts = clock.now(), ["call.allowed", "agent", "main", "main", "tool", "exec", "", ""]
    names = list(audit_log.COLUMNS)
    values = [connection.ops.adapt_datetimefield_value(at), *texts, "{}", digest or audit_log.compute_digest(at, texts, {})]
    if entry_id is not None:
        names, values = ["id", *names], [entry_id, *values]
    run(f"INSERT INTO {ENTRY_TABLE} ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})", values)


def run(text: str, values: Any = ()) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text, values)
