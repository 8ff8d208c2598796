"""The audit log for tests: emptied, and tampered with as somebody could who owns the database."""

from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

from clawsite.infra import audit, audit_guard, clock
from clawsite.infra.audit_chain import GENESIS
from clawsite.infra.audit_guard import ENTRY, HEAD, SEAL


@contextmanager
def unguarded():
    """As the owner of the database: without the triggers, which are there again afterwards."""
    guards = audit_guard._POSTGRES if connection.vendor == "postgresql" else audit_guard._SQLITE
    with transaction.atomic():
        for name, (table, _when, _condition) in guards.items():
            run(f"DROP TRIGGER IF EXISTS {name}" + (f" ON {table}" if connection.vendor == "postgresql" else ""))
        yield
    audit_guard.install()


def empty() -> None:
    with unguarded():
        for table in (ENTRY, SEAL, HEAD):
            run(f"DELETE FROM {table}")
        run(f"INSERT INTO {HEAD} (id, position, hash, newest, gaps) VALUES (1, 0, %s, 0, '[]')", [GENESIS])


def tamper(text: str, values: Any = ()) -> None:
    with unguarded():
        run(text, values)


def insert(entry_id: int | None, digest: str = "") -> None:
    """An entry as `record` writes it, by hand."""
    at, texts = clock.now(), ["call.allowed", "agent", "main", "main", "tool", "exec", "", ""]
    names = list(audit.COLUMNS)
    values = [connection.ops.adapt_datetimefield_value(at), *texts, "{}", digest or audit.digest_of(at, texts, {})]
    if entry_id is not None:
        names, values = ["id", *names], [entry_id, *values]
    run(f"INSERT INTO {ENTRY} ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})", values)


def run(text: str, values: Any = ()) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text, values)
