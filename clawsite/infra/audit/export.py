"""Export the audit log as JSON lines, oldest entry first, with chain positions. The caller records the export."""

from collections.abc import Iterator
from typing import Any

import orjson
from django.db.models import QuerySet

from clawsite.infra.models import AuditEntry, AuditSeal

PAGE_SIZE = 500


def iterate_pages(entries: QuerySet[AuditEntry]) -> Iterator[bytes]:
    """Yield the lines in chunks of up to PAGE_SIZE entries."""
    last_id: int | None = None
    while True:
        lines, last_id = read_page(entries, last_id)
        if last_id is None:
            return
        yield lines


def read_page(entries: QuerySet[AuditEntry], after: int | None) -> tuple[bytes, int | None]:
    """Return the lines of the next entries and the last id, or None as the id if there are no more."""
    ordered = entries.order_by("pk")
    rows = list((ordered if after is None else ordered.filter(pk__gt=after))[:PAGE_SIZE])
    if not rows:
        return b"", None
    seals = {seal.entry_id: seal for seal in AuditSeal.objects.filter(entry_id__in=[row.pk for row in rows])}
    return b"".join(orjson.dumps(to_json(row, seals.get(row.pk))) + b"\n" for row in rows), rows[-1].pk


def to_json(entry: AuditEntry, seal: AuditSeal | None) -> dict[str, Any]:
    return {
        "id": entry.pk,
        "at": entry.at.isoformat(timespec="microseconds"),
        "action": entry.action,
        "actor": {"kind": entry.actor_kind, "id": entry.actor_id, "name": entry.actor_name},
        "subject": {"kind": entry.subject_kind, "id": entry.subject_id},
        "session": entry.session,
        "run": entry.run,
        "details": entry.details,
        "digest": entry.digest,
        "position": seal.position if seal else None,
        "previous": seal.previous if seal else None,
        "hash": seal.hash if seal else None,
    }
