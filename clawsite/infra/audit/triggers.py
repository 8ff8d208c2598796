"""The database itself refuses to change the audit log: triggers on entries, seals and head, put there after every migration.

They stop our own code and anybody who is careless. Whoever owns the database can take them away, which is why there is a chain
(`audit_chain`) and why its head belongs in a file elsewhere (`audit_anchor`).
"""

from typing import Any

from django.db import connection, transaction
from django.db.models import Max

from clawsite.infra.models import AuditEntry, AuditHead, AuditSeal

ENTRY, SEAL, HEAD = (model._meta.db_table for model in (AuditEntry, AuditSeal, AuditHead))
REFUSAL = "the audit log is append-only"
BACKWARDS = "NEW.position < OLD.position OR NEW.newest < OLD.newest"

# Trigger -> (table, when it fires, condition). SQLite has no TRUNCATE, but an INSERT OR REPLACE, which fires no delete trigger.
_SQLITE = {
    **{f"{table}_no_{verb.lower()}": (table, f"BEFORE {verb}", "") for table in (ENTRY, SEAL) for verb in ("UPDATE", "DELETE")},
    f"{ENTRY}_no_replace": (ENTRY, "BEFORE INSERT", f"EXISTS (SELECT 1 FROM {ENTRY} WHERE id = NEW.id)"),
    f"{SEAL}_no_replace": (
        SEAL,
        "BEFORE INSERT",
        f"EXISTS (SELECT 1 FROM {SEAL} WHERE position = NEW.position OR entry_id = NEW.entry_id)",
    ),
    f"{HEAD}_no_delete": (HEAD, "BEFORE DELETE", ""),
    f"{HEAD}_forward": (HEAD, "BEFORE UPDATE", BACKWARDS),
}
_POSTGRES = {
    **{
        f"{table}_no_{verb.lower()}": (table, f"BEFORE {verb}", "")
        for table in (ENTRY, SEAL)
        for verb in ("UPDATE", "DELETE", "TRUNCATE")
    },
    **{f"{HEAD}_no_{verb.lower()}": (HEAD, f"BEFORE {verb}", "") for verb in ("DELETE", "TRUNCATE")},
    f"{HEAD}_forward": (HEAD, "BEFORE UPDATE", BACKWARDS),
}


def install(**_signal: Any) -> None:
    """Receiver of post_migrate: what is missing is made. A migration that rebuilds one of SQLite's tables loses its triggers."""
    if ENTRY not in connection.introspection.table_names():  # migrated to a state without these tables
        return
    with transaction.atomic():
        missing = missing_guards()
        if missing and connection.vendor == "postgresql":
            _execute(f"""CREATE OR REPLACE FUNCTION infra_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS
                         $$ BEGIN RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'restrict_violation'; END $$""")
        for name in missing:
            _make(name)
        first = AuditHead(hash="0" * 64)
        if last := AuditSeal.objects.order_by("position").last():
            first.position, first.hash = last.position, last.hash
            first.newest = AuditSeal.objects.aggregate(newest=Max("entry_id"))["newest"]
        AuditHead.objects.bulk_create([first], ignore_conflicts=True)


def missing_guards() -> list[str]:
    """Triggers that are not there, or on PostgreSQL switched off."""
    if connection.vendor == "postgresql":
        there = _names("SELECT tgname FROM pg_trigger WHERE tgenabled = 'A' AND tgname LIKE 'infra_audit%%'")
        return [name for name in _POSTGRES if name not in there]
    there = _names("SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'infra_audit%%'")
    return [name for name in _SQLITE if name not in there]


def _make(name: str) -> None:
    if connection.vendor == "postgresql":
        table, when, condition = _POSTGRES[name]
        each = f"FOR EACH ROW WHEN ({condition})" if condition else "FOR EACH STATEMENT"
        _execute(f"DROP TRIGGER IF EXISTS {name} ON {table}")
        _execute(f"CREATE TRIGGER {name} {when} ON {table} {each} EXECUTE FUNCTION infra_audit_refuse()")
        # Also in a session that says it is a replica, where ordinary triggers are silent.
        _execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}")
    else:
        table, when, condition = _SQLITE[name]
        if_so = f"WHEN {condition} " if condition else ""
        _execute(f"CREATE TRIGGER {name} {when} ON {table} {if_so}BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END")


def _execute(text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text)


def _names(text: str) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(text, [])
        return {name for (name,) in cursor.fetchall()}
