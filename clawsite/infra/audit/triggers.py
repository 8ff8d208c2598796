"""Database triggers that make the audit log append-only: on entries, seals and head, installed after every migration.

They protect against our own code and against mistakes. The database owner can remove them, so there is also a hash chain
(`clawsite.infra.audit.chain`), whose head belongs in a file elsewhere (`clawsite.infra.audit.anchor`).
"""

from typing import Any

from django.db import connection, transaction
from django.db.models import Max

from clawsite.infra.models import AuditEntry, AuditHead, AuditSeal

ENTRY_TABLE, SEAL_TABLE, HEAD_TABLE = (model._meta.db_table for model in (AuditEntry, AuditSeal, AuditHead))
ERROR_MESSAGE = "the audit log is append-only"
MOVES_BACKWARDS = "NEW.position < OLD.position OR NEW.newest < OLD.newest"

# Trigger -> (table, event, condition). SQLite has no TRUNCATE, but its INSERT OR REPLACE fires no delete trigger.
_SQLITE = {
    **{
        f"{table}_no_{verb.lower()}": (table, f"BEFORE {verb}", "")
        for table in (ENTRY_TABLE, SEAL_TABLE)
        for verb in ("UPDATE", "DELETE")
    },
    f"{ENTRY_TABLE}_no_replace": (ENTRY_TABLE, "BEFORE INSERT", f"EXISTS (SELECT 1 FROM {ENTRY_TABLE} WHERE id = NEW.id)"),
    f"{SEAL_TABLE}_no_replace": (
        SEAL_TABLE,
        "BEFORE INSERT",
        f"EXISTS (SELECT 1 FROM {SEAL_TABLE} WHERE position = NEW.position OR entry_id = NEW.entry_id)",
    ),
    f"{HEAD_TABLE}_no_delete": (HEAD_TABLE, "BEFORE DELETE", ""),
    f"{HEAD_TABLE}_forward": (HEAD_TABLE, "BEFORE UPDATE", MOVES_BACKWARDS),
}
_POSTGRES = {
    **{
        f"{table}_no_{verb.lower()}": (table, f"BEFORE {verb}", "")
        for table in (ENTRY_TABLE, SEAL_TABLE)
        for verb in ("UPDATE", "DELETE", "TRUNCATE")
    },
    **{f"{HEAD_TABLE}_no_{verb.lower()}": (HEAD_TABLE, f"BEFORE {verb}", "") for verb in ("DELETE", "TRUNCATE")},
    f"{HEAD_TABLE}_forward": (HEAD_TABLE, "BEFORE UPDATE", MOVES_BACKWARDS),
}


def install_triggers(**_signal: Any) -> None:
    """Create missing triggers and the head row (post_migrate receiver). On SQLite, rebuilding a table drops its triggers."""
    if ENTRY_TABLE not in connection.introspection.table_names():  # migrated to a state without these tables
        return
    with transaction.atomic():
        missing = find_missing_triggers()
        if missing and connection.vendor == "postgresql":
            _execute(f"""CREATE OR REPLACE FUNCTION infra_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS
                         $$ BEGIN RAISE EXCEPTION '{ERROR_MESSAGE}' USING ERRCODE = 'restrict_violation'; END $$""")
        for name in missing:
            _create_trigger(name)
        first = AuditHead(hash="0" * 64)
        if last := AuditSeal.objects.order_by("position").last():
            first.position, first.hash = last.position, last.hash
            first.newest = AuditSeal.objects.aggregate(newest=Max("entry_id"))["newest"]
        AuditHead.objects.bulk_create([first], ignore_conflicts=True)


def find_missing_triggers() -> list[str]:
    """Return the names of triggers that don't exist or, on PostgreSQL, are disabled."""
    if connection.vendor == "postgresql":
        existing = _read_names("SELECT tgname FROM pg_trigger WHERE tgenabled = 'A' AND tgname LIKE 'infra_audit%%'")
        return [name for name in _POSTGRES if name not in existing]
    existing = _read_names("SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'infra_audit%%'")
    return [name for name in _SQLITE if name not in existing]


def _create_trigger(name: str) -> None:
    if connection.vendor == "postgresql":
        table, when, condition = _POSTGRES[name]
        each = f"FOR EACH ROW WHEN ({condition})" if condition else "FOR EACH STATEMENT"
        _execute(f"DROP TRIGGER IF EXISTS {name} ON {table}")
        _execute(f"CREATE TRIGGER {name} {when} ON {table} {each} EXECUTE FUNCTION infra_audit_refuse()")
        # ALWAYS: also in sessions with the replica role, which skip ordinary triggers.
        _execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}")
    else:
        table, when, condition = _SQLITE[name]
        clause = f"WHEN {condition} " if condition else ""
        _execute(f"CREATE TRIGGER {name} {when} ON {table} {clause}BEGIN SELECT RAISE(ABORT, '{ERROR_MESSAGE}'); END")


def _execute(text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text)


def _read_names(text: str) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(text, [])
        return {name for (name,) in cursor.fetchall()}
