"""Seal the audit log: every second, committed entries get a position in a hash chain.

The position is assigned when an entry is sealed, not when it is written: PostgreSQL ids become visible out of order, so an
entry committed late comes later in the chain. Any number of workers can seal; they take turns by locking the head row.
`clawsite.infra.audit.verify` verifies the chain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from django.db import connection, transaction

from clawsite.infra import clock
from clawsite.infra.models import AuditEntry, AuditHead, AuditSeal

GENESIS = "0" * 64
BATCH_SIZE = 200  # entries per transaction: about 5 ms, so that SQLite's lock is never held for long
# How long an entry may take from INSERT to commit and still be sealed. It usually takes milliseconds, and PostgreSQL ends a
# transaction that idles for 5 s.
GAP_TIMEOUT_SECONDS = 600.0
MAX_GAPS = 400

ENTRY_TABLE, SEAL_TABLE = (model._meta.db_table for model in (AuditEntry, AuditSeal))
_COLUMNS = ("position", "entry_id", "digest", "previous", "hash", "sealed_at")

Gap = list[Any]  # [first, last, seconds since 1970]


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The last position of the chain and its hash, which covers everything up to it."""

    position: int
    hash: str


def hash_link(previous: str, position: int, entry_id: int, digest: str) -> str:
    """Hash one link: it binds the previous hash, the position, and the entry with its digest."""
    return sha256(f"{previous}:{position}:{entry_id}:{digest}".encode()).hexdigest()


def read_head() -> ChainHead:
    return ChainHead(*AuditHead.objects.values_list("position", "hash").get())


def has_unsealed() -> bool:
    """Whether there are entries to seal. Only reads, so that an idle server writes nothing."""
    head = AuditHead.objects.first()
    return head is not None and bool(_find_unsealed(head, 1))


@transaction.atomic
def seal_entries(limit: int = BATCH_SIZE) -> int:
    """Seal up to `limit` entries and return how many. Do nothing while another worker seals: it finds the same entries."""
    head = AuditHead.objects.select_for_update(skip_locked=connection.vendor == "postgresql").first()
    unsealed = _find_unsealed(head, limit) if head else []
    if not head or not unsealed:
        return 0
    now = clock.now()
    sealed_at = connection.ops.adapt_datetimefield_value(now)
    values: list[Any] = []
    for entry_id, digest in unsealed:
        previous, head.position = head.hash, head.position + 1
        head.hash = hash_link(previous, head.position, entry_id, digest)
        values += [head.position, entry_id, digest, previous, head.hash, sealed_at]
    row = f"({', '.join(['%s'] * len(_COLUMNS))})"
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {SEAL_TABLE} ({', '.join(_COLUMNS)}) VALUES {', '.join([row] * len(unsealed))}", values)
    ids = [entry_id for entry_id, _digest in unsealed]
    head.gaps = _compute_gaps(head.gaps, head.newest, ids, now.timestamp(), is_all=len(unsealed) < limit)
    head.newest = max(head.newest, ids[-1])
    head.save()
    return len(unsealed)


def _find_unsealed(head: AuditHead, limit: int) -> list[tuple[int, str]]:
    """Return (id, digest) of entries in gaps and after the newest sealed one, by id. Doesn't read sealed entries."""
    parts = [f"SELECT id, digest FROM {ENTRY_TABLE} WHERE id BETWEEN %s AND %s"] * len(head.gaps)
    values = [value for first, last, _since in head.gaps for value in (first, last)]
    beyond = f"SELECT id, digest FROM (SELECT id, digest FROM {ENTRY_TABLE} WHERE id > %s ORDER BY id LIMIT %s) beyond"
    with connection.cursor() as cursor:
        cursor.execute(f"{' UNION ALL '.join([*parts, beyond])} ORDER BY 1 LIMIT %s", [*values, head.newest, limit, limit])
        rows: list[tuple[int, str]] = cursor.fetchall()
        return rows


def _compute_gaps(gaps: Sequence[Gap], newest: int, ids: Sequence[int], now: float, *, is_all: bool) -> list[Gap]:
    """Update the gaps after sealing these ids: remove filled ones, add skipped ranges, drop those past the timeout."""
    left: list[Gap] = []
    for first, last, since in gaps:
        for each in [*(entry_id for entry_id in ids if first <= entry_id <= last), last + 1]:
            if first < each:
                left.append([first, each - 1, since])
            first = each + 1
    for entry_id in ids:
        if entry_id > newest + 1:
            left.append([newest + 1, entry_id - 1, now])
        newest = max(newest, entry_id)
    # Drop old gaps only after a pass that sealed everything: after an outage, entries that already exist must be sealed first.
    return [gap for gap in left if not is_all or now - gap[2] < GAP_TIMEOUT_SECONDS][-MAX_GAPS:]
